//! The one place that turns a [`Problem`] into a response: RFC 9457, with the members that clients of this API family
//! read (decisions, section 2). The internal cause is logged here, once.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method};
use longshore_shared::platform::cause::causes;
use longshore_shared::platform::problem::{
    METHOD_NOT_ALLOWED, NO_SUCH_PATH, Problem, UNAUTHENTICATED, UNSUPPORTED_CONTENT_ENCODING, Violation,
};
use serde::Serialize;

use super::request_id::RequestId;
use crate::extract::Failure;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body9457<'p> {
    r#type: String,
    title: &'p str,
    status: u16,
    detail: &'p str,
    code: &'p str,
    request_id: &'p str,
    /// the same as `detail`: existing clients read this name
    message: &'p str,
    violations: &'p [Violation],
}

/// Writes the body of every failure below it.
pub async fn layer(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let head = request.method() == Method::HEAD;
    let mut response = next.run(request).await;
    if let Some(Failure(problem)) = response.extensions_mut().remove::<Failure>() {
        let id = id.as_ref().map_or("", |id| &id.0);
        log(&problem, id);
        render(&problem, id, head, &mut response);
    }
    response
}

/// Logs a failure, once: where it becomes a response.
pub fn log(problem: &Problem, request_id: &str) {
    let kind = problem.kind();
    if let Some(cause) = problem.cause() {
        tracing::error!(request.id = request_id, problem.code = kind.code, cause = %causes(cause), "request failed");
    } else {
        tracing::debug!(request.id = request_id, problem.code = kind.code, "request refused");
    }
}

fn render(problem: &Problem, request_id: &str, head: bool, response: &mut Response) {
    let kind = problem.kind();
    let body = Body9457 {
        r#type: format!("/problems/{}", kind.code),
        title: kind.title,
        status: kind.status,
        detail: problem.detail(),
        code: kind.code,
        request_id,
        message: problem.detail(),
        violations: problem.violations(),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if std::ptr::eq(kind, &raw const UNAUTHENTICATED) {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    // only where the encoding is what was refused, not the media type (RFC 9110, section 12.5.3)
    if std::ptr::eq(kind, &raw const UNSUPPORTED_CONTENT_ENCODING) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    if let Some(wait) = problem.retry_after_hint() {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
    if !head {
        *response.body_mut() = Body::from(serde_json::to_vec(&body).unwrap_or_default());
    }
}

/// No operation at this path.
pub async fn no_such_path() -> Response {
    Failure::from(Problem::new(&NO_SUCH_PATH, "there is no operation at this path")).into_response()
}

/// The path has other methods; the router adds `Allow`.
pub async fn method_not_allowed() -> Response {
    Failure::from(Problem::new(&METHOD_NOT_ALLOWED, "this path does not have this method")).into_response()
}

/// A handler that panicked: the request fails, the process goes on.
#[must_use]
pub fn panicked(payload: &(dyn std::any::Any + Send)) -> Response {
    let text = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    Failure::from(Problem::internal(format!("panicked: {text}"))).into_response()
}
