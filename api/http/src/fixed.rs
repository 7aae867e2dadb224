//! Files that do not change while the process runs: compressed once, with a hash of the content as `ETag`.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use longshore_kernel::crypto::sha256;
use longshore_kernel::problem::Problem;
use longshore_kernel::unfold::{Coding, fold};

use crate::extract::IfNoneMatch;
use crate::middleware::compress::{accepted, name, weaken};

/// A fixed file of the service.
#[derive(Clone, Debug)]
pub struct Fixed {
    media: HeaderValue,
    version: String,
    plain: Bytes,
    /// Only codings that make it smaller.
    folded: Vec<(Coding, Bytes)>,
}

impl Fixed {
    /// Creates a file with a media type.
    pub fn new(media: &str, content: impl Into<Bytes>) -> Result<Self, Problem> {
        let plain = content.into();
        let mut folded = Vec::new();
        for coding in [Coding::Gzip, Coding::Zstd] {
            let bytes = fold(coding, &plain).map_err(Problem::internal)?;
            if bytes.len() < plain.len() / 10 * 9 {
                folded.push((coding, Bytes::from(bytes)));
            }
        }
        let hash =
            sha256(&plain).iter().take(16).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let media = HeaderValue::from_str(media).map_err(Problem::internal)?;
        Ok(Self { media, version: format!("\"{hash}\""), plain, folded })
    }

    /// Answers with the file; `cache` is its `Cache-Control`.
    pub fn answer(&self, asked: &HowAsked, cache: &'static str) -> Result<Response, Problem> {
        let version = HeaderValue::from_str(&self.version).map_err(Problem::internal)?;
        let about = [(ETAG, version), (CACHE_CONTROL, HeaderValue::from_static(cache))];
        let folded = self.folded.iter().find(|(coding, _)| Some(*coding) == asked.coding);
        if asked.if_none_match.has(&self.version) {
            let mut unchanged = not_modified(about);
            if folded.is_some() {
                weaken(unchanged.headers_mut());
            }
            return Ok(unchanged);
        }
        let mut headers = HeaderMap::from_iter(about);
        headers.insert(CONTENT_TYPE, self.media.clone());
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        let bytes = match folded {
            Some((coding, bytes)) => {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name(*coding)));
                bytes
            }
            None => &self.plain,
        };
        Ok((headers, bytes.clone()).into_response())
    }
}

/// The request headers that determine the form of the answer.
#[derive(Clone, Debug)]
pub struct HowAsked {
    if_none_match: IfNoneMatch,
    coding: Option<Coding>,
}

impl<S: Send + Sync> FromRequestParts<S> for HowAsked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let if_none_match = IfNoneMatch::from_request_parts(parts, state).await?;
        Ok(Self { if_none_match, coding: accepted(&parts.headers) })
    }
}

/// 304, with the headers of the full answer about its version and caching.
#[must_use]
pub fn not_modified(about: [(HeaderName, HeaderValue); 2]) -> Response {
    (StatusCode::NOT_MODIFIED, about, [(VARY, HeaderValue::from_static("accept-encoding"))]).into_response()
}
