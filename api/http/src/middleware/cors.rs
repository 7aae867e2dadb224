//! Lets pages of other origins call the API from a browser, if the operator allows them
//! (`LONGSHORE_CORS_ORIGINS`). They send a token explicitly: no cookie is sent with their requests
//! (`Access-Control-Allow-Credentials` is never set). The console, which identifies visitors by a cookie,
//! stays closed to them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_MATCH,
    IF_NONE_MATCH, LINK, LOCATION, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, Method};
use longshore_kernel::origin::Origins;
use tower::{Layer as _, ServiceExt as _};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use super::{deprecated, rate, request_id};
use crate::download;
use crate::extract::once::REPLAYED;
use crate::paths::Paths;

/// How long a browser may cache a preflight answer; no browser caches it longer.
const MAX_AGE: Duration = Duration::from_hours(2);

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What pages of these origins may send and read of these operations; `None` without such origins.
#[must_use]
pub fn of(origins: &Origins, paths: &Paths) -> Option<Arc<CorsLayer>> {
    let origin = match origins {
        Origins::None => return None,
        Origins::Any => AllowOrigin::from(Any),
        Origins::These(origins) => AllowOrigin::list(origins.iter().cloned()),
    };
    let cors = CorsLayer::new()
        .allow_origin(origin)
        .allow_methods(paths.methods().collect::<Vec<_>>())
        .allow_headers([
            AUTHORIZATION,
            CONTENT_ENCODING,
            CONTENT_TYPE,
            IDEMPOTENCY_KEY,
            IF_MATCH,
            IF_NONE_MATCH,
            PREFER,
            request_id::HEADER,
            TRACEPARENT,
            TRACESTATE,
        ])
        .expose_headers([
            ALLOW,
            ETAG,
            LINK,
            LOCATION,
            RETRY_AFTER,
            WWW_AUTHENTICATE,
            PREFERENCE_APPLIED,
            REPLAYED,
            request_id::HEADER,
            download::ROWS,
            rate::STANDING,
            rate::POLICY,
            deprecated::DEPRECATION,
            deprecated::SUNSET,
        ])
        .max_age(MAX_AGE);
    Some(Arc::new(cors))
}

/// Answers preflight requests, and adds the CORS headers to every answer, including refusals.
pub async fn layer(State(cors): State<Arc<CorsLayer>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let of_the_console = path == "/console" || path.starts_with("/console/");
    // any other OPTIONS request asks for the methods of the path
    let asks_first = request.headers().contains_key(ORIGIN)
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if of_the_console || request.method() == Method::OPTIONS && !asks_first {
        return next.run(request).await;
    }
    let Ok(response) = cors.layer(next).oneshot(request).await;
    response
}
