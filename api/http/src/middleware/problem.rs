//! The one place that turns a [`Problem`] into a response: RFC 9457, with the members that clients of this API family
//! read (`docs/reference/errors.md#error-object`). The internal cause is logged here, once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode, Uri, Version};
use http_body::{Frame, SizeHint};
use longshore_kernel::cause::causes;
use longshore_kernel::problem::{
    METHOD_NOT_ALLOWED, NO_SUCH_PATH, Problem, UNSUPPORTED_CONTENT_ENCODING, Violation,
};
use longshore_kernel::refused::Parameters;
use serde::Serialize;

use crate::extract::Failure;
use crate::extract::RequestId;
use crate::extract::arriving::CODINGS;
use crate::extract::body::Sent;
use crate::paths::Paths;

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
    violations: Vec<Described<'p>>,
}

/// A violation with the refused value.
#[derive(Serialize)]
struct Described<'p> {
    #[serde(flatten)]
    violation: &'p Violation,
    parameters: Parameters,
}

/// Writes the body of every failure from the layers inside it.
pub async fn layer(mut request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let sent = Sent::default();
    request.extensions_mut().insert(sent.clone());
    let head = request.method() == Method::HEAD;
    let read = (request.version() <= Version::HTTP_11 && !request.body().is_end_stream()).then(Arc::default);
    if let Some(read) = &read {
        let read = Arc::clone(read);
        request = request.map(|body| Body::new(Watched { body, read }));
    }
    let mut response = next.run(request).await;
    if let Some(Failure(problem)) = response.extensions_mut().remove::<Failure>() {
        let id = id.as_ref().map_or("", |id| &id.0);
        log(&problem, id);
        render(&problem, id, &sent, head, &mut response);
        // the rest of the body comes before the next request, so the connection is closed, and the answer
        // says so
        if read.is_some_and(|read: Arc<AtomicBool>| !read.load(Ordering::Relaxed)) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    response
}

/// The body of a request, which notes when it was read to its end.
struct Watched {
    body: Body,
    read: Arc<AtomicBool>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.read.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
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

fn render(problem: &Problem, request_id: &str, sent: &Sent, head: bool, response: &mut Response) {
    let kind = problem.kind();
    let body = if problem.violations().is_empty() { None } else { sent.value() };
    let describe = |violation| Described { violation, parameters: Parameters::of(violation, body.as_ref()) };
    let violations = problem.violations().iter().map(describe).collect();
    let body = Body9457 {
        r#type: format!("/problems/{}", kind.code),
        title: kind.title,
        status: kind.status,
        detail: problem.detail(),
        code: kind.code,
        request_id,
        message: problem.detail(),
        violations,
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if kind.status == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    // only if the encoding was refused, not the media type (RFC 9110, section 12.5.3)
    if std::ptr::eq(kind, &raw const UNSUPPORTED_CONTENT_ENCODING) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(CODINGS));
    }
    if let Some(wait) = problem.retry_after_hint() {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
    if !head {
        *response.body_mut() = Body::from(serde_json::to_vec(&body).unwrap_or_default());
    }
}

/// Answers for a path without operations; `OPTIONS *` returns the methods of the whole service.
#[must_use]
pub fn no_such_path(paths: &Paths, method: &Method, uri: &Uri) -> Response {
    if method == Method::OPTIONS && uri.path() == "*" {
        return (StatusCode::NO_CONTENT, [(ALLOW, paths.allowed(|_| true))]).into_response();
    }
    let detail = match paths.meant(method, uri) {
        Some(meant) => format!("there is no operation at this path; did you mean {meant}?"),
        None => "there is no operation at this path; /docs has them all".to_owned(),
    };
    Failure::from(Problem::new(&NO_SUCH_PATH, detail)).into_response()
}

/// Answers for a method that the path does not have, and names those that it has; the router adds `Allow`, which is what `OPTIONS` asks
/// for.
#[must_use]
pub fn method_not_allowed(paths: &Paths, method: &Method, path: Option<&MatchedPath>) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = match paths.allowed(|known| path.is_some_and(|path| path.as_str() == known)) {
        none if none.is_empty() => "this path does not support this method".to_owned(),
        methods => format!("this path does not support this method; it supports {methods}"),
    };
    Failure::from(Problem::new(&METHOD_NOT_ALLOWED, detail)).into_response()
}

/// Answers after a panic in a handler: the request fails, the process continues.
#[must_use]
pub fn panicked(payload: &(dyn std::any::Any + Send)) -> Response {
    let text = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    Failure::from(Problem::internal(format!("panicked: {text}"))).into_response()
}
