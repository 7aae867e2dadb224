//! Compresses answers if the client accepts it (`Accept-Encoding`) and it is worthwhile: text of a kibibyte
//! or more. A streamed list is flushed with each piece, and one that breaks off leaves its encoding
//! unfinished, too.
//!
//! The tag of a compressed answer is weak: it names the same version as that of the plain one, but other bytes.
//!
//! Three kinds are never compressed: pages with a form token ([`AsItIs`]), whose length would reveal the
//! token to an attacker who can add text to the page (BREACH); server-sent events; and images, which are
//! compressed already.

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt as _;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version};
use longshore_kernel::unfold::Coding;
use tower::{Layer as _, ServiceExt as _};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};

/// The size in bytes from which compression is worthwhile.
const LEAST: u64 = 1024;

/// The fastest level: a list should cost less to compress than to find.
const LEVEL: CompressionLevel = CompressionLevel::Fastest;

/// Media types that compress well.
const TEXTS: [&str; 10] = [
    "application/json",
    "application/openmetrics-text",
    "application/problem+json",
    "application/x-ndjson",
    "image/svg+xml",
    "text/css",
    "text/csv",
    "text/html",
    "text/javascript",
    "text/plain",
];

/// Marks an answer that is never compressed.
#[derive(Clone, Copy, Debug)]
pub struct AsItIs;

/// Marks an answer without a body (304) with the bytes of the whole answer that it stands for: its tag is the same.
#[derive(Clone, Copy, Debug)]
pub struct StandsFor(pub usize);

/// Compresses suitable answers in the coding that the client prefers. The library sees only that coding:
/// otherwise it would refuse (406) a client that accepts neither a known coding nor `identity`, after the
/// operation was executed.
pub async fn layer(mut request: Request, next: Next) -> Response {
    let headers = request.headers_mut();
    let coding = accepted(headers);
    match coding {
        Some(coding) => headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(name(coding))),
        None => headers.remove(ACCEPT_ENCODING),
    };
    let compression =
        CompressionLayer::new().quality(LEVEL).compress_when(SizeAbove::new(LEAST).and(is_worth_it));
    let Ok(mut response) = compression.layer(next.map_response(fused)).oneshot(request).await;
    let whole = response.extensions().get::<StandsFor>().map_or(0, |whole| whole.0 as u64);
    if response.headers().contains_key(CONTENT_ENCODING) || coding.is_some() && whole >= LEAST {
        weaken(response.headers_mut());
    }
    response.map(Body::new)
}

/// Makes the tag of an answer a weak one (RFC 9110, section 8.8.1).
pub fn weaken(headers: &mut HeaderMap) {
    let strong = headers.get(ETAG).and_then(|tag| tag.to_str().ok()).filter(|tag| !tag.starts_with("W/"));
    if let Some(Ok(weak)) = strong.map(|tag| HeaderValue::from_str(&format!("W/{tag}"))) {
        headers.insert(ETAG, weak);
    }
}

/// Fuses a stream: the library polls a body after its end, which not every stream allows.
fn fused(response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::from_stream(body.into_data_stream().fuse()))
}

fn is_worth_it(_: StatusCode, _: Version, headers: &HeaderMap, extensions: &Extensions) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media.split(';').next().unwrap_or_default().trim();
    extensions.get::<AsItIs>().is_none() && TEXTS.iter().any(|text| essence.eq_ignore_ascii_case(text))
}

/// The name of a coding in `Accept-Encoding` and `Content-Encoding`.
#[must_use]
pub fn name(coding: Coding) -> &'static str {
    match coding {
        Coding::Gzip => "gzip",
        Coding::Zstd => "zstd",
    }
}

/// The supported coding that a client prefers; `None` if it prefers none to `identity` (RFC 9110, section
/// 12.5.3).
#[must_use]
pub fn accepted(headers: &HeaderMap) -> Option<Coding> {
    let mut liked = Liked::default();
    for value in headers.get_all(ACCEPT_ENCODING) {
        for range in value.to_str().unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let coding = parts.next().unwrap_or_default();
            let quality = parts
                .find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")))
                .map_or(Some(1.0), |quality| quality.parse().ok());
            match (coding.to_ascii_lowercase().as_str(), quality) {
                ("gzip" | "x-gzip", quality @ Some(_)) => liked.gzip = quality,
                ("zstd", quality @ Some(_)) => liked.zstd = quality,
                ("identity", quality @ Some(_)) => liked.identity = quality,
                ("*", quality @ Some(_)) => liked.others = quality,
                _ => {}
            }
        }
    }
    liked.best()
}

/// The quality values of a client, from 0 to 1.
#[derive(Default)]
struct Liked {
    gzip: Option<f32>,
    zstd: Option<f32>,
    identity: Option<f32>,
    others: Option<f32>,
}

impl Liked {
    fn best(&self) -> Option<Coding> {
        let of = |named: Option<f32>| named.or(self.others).unwrap_or(0.0);
        let (gzip, zstd, identity) = (of(self.gzip), of(self.zstd), self.identity.unwrap_or(0.0));
        // of equal preferences, the coding that costs both sides less
        let (coding, quality) = if zstd >= gzip { (Coding::Zstd, zstd) } else { (Coding::Gzip, gzip) };
        (quality > 0.0 && quality >= identity).then_some(coding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(accept: &[&'static str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(value));
        }
        accepted(&headers).map(name)
    }

    #[test]
    fn the_coding_that_the_client_prefers_is_used() {
        for (accept, coding) in [
            (&[][..], None),
            (&[""], None),
            (&["gzip"], Some("gzip")),
            (&["X-GZIP"], Some("gzip")),
            (&["gzip, deflate, br, zstd"], Some("zstd")),
            (&["deflate, br"], None),
            (&["gzip;q=0.8, zstd;q=0.1"], Some("gzip")),
            (&["gzip", "zstd"], Some("zstd")),
            (&["*"], Some("zstd")),
            (&["*;q=0.5, zstd;q=0"], Some("gzip")),
            (&["gzip;q=0"], None),
            (&["gzip ; q=0.001"], Some("gzip")),
            (&["gzip;q=nonsense"], None),
            (&["gzip;q=0.5, identity"], None),
            (&["identity;q=0"], None),
            (&["*;q=0"], None),
        ] {
            assert_eq!(chosen(accept), coding, "{accept:?}");
        }
    }
}
