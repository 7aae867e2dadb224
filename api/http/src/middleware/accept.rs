//! `Accept`: operations of the API answer with JSON, lists with CSV, too, and events with a line each. A request that excludes what its operation answers with is
//! refused (406). The header is optional.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longshore_kernel::problem::{NOT_ACCEPTABLE, Problem};

use crate::extract::Failure;
use crate::extract::accept::{is_acceptable, prefers};

/// Paths of operations that have another answer, too, with its media type.
pub type Others = Arc<HashMap<&'static str, &'static str>>;

/// Refuses a request that does not accept the answer.
pub async fn layer(State(others): State<Others>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let other = path.and_then(|path| others.get(path.as_str()));
    let headers = request.headers();
    if is_acceptable(headers) || other.is_some_and(|other| prefers(headers, other)) {
        return next.run(request).await;
    }
    let or = other.map(|other| format!(" or {other}")).unwrap_or_default();
    let detail = format!("the Accept header must include application/json{or}");
    Failure::from(Problem::new(&NOT_ACCEPTABLE, detail)).into_response()
}
