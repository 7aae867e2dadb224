//! What went wrong, as a page. Whoever is not logged in is sent to do so, and comes back to where they were going.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, StatusCode};
use longshore_shared::platform::problem::{NO_SUCH_PATH, Problem, UNAUTHENTICATED};
use maud::html;
use url::form_urlencoded;

use super::layout;
use super::session::LOGIN;
use crate::extract::Failure;
use crate::middleware::problem::log;
use crate::middleware::request_id::RequestId;

/// Writes the page of every failure below it.
pub(super) async fn layer(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let reads = request.method() == Method::GET;
    let address = request.uri().path_and_query().map_or("", |address| address.as_str()).to_owned();
    let is_live = request.uri().path().ends_with("/live");
    let mut response = next.run(request).await;
    let Some(Failure(problem)) = response.extensions_mut().remove::<Failure>() else { return response };
    if std::ptr::eq(problem.kind(), &raw const UNAUTHENTICATED) && !is_live {
        let going = if reads && address != "/console" { Some(address.as_str()) } else { None };
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(going.map(|address| ("next", address)))
            .finish();
        let login = if query.is_empty() { LOGIN.to_owned() } else { format!("{LOGIN}?{query}") };
        return Redirect::to(&login).into_response();
    }
    let id = id.as_ref().map_or("", |id| &id.0);
    log(&problem, id);
    page(&problem, id)
}

fn page(problem: &Problem, request_id: &str) -> Response {
    let kind = problem.kind();
    let content = html! {
        section.question {
            h1 { (kind.title) }
            p { (problem.detail()) "." }
            @if !problem.violations().is_empty() {
                ul {
                    @for violation in problem.violations() {
                        li { strong { (violation.property_path) } " " (violation.message) }
                    }
                }
            }
            p.muted { "Request " code { (request_id) } ", status " (kind.status) "." }
            div.buttons { a.button.primary href="/console" { "To the overview" } }
        }
    };
    let status = StatusCode::from_u16(kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, layout::bare(kind.title, &content)).into_response();
    if let Some(wait) = problem.retry_after_hint() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
    response
}

/// Any other address under `/console`.
pub(super) async fn no_such_page() -> Failure {
    Problem::new(&NO_SUCH_PATH, "the console has no such page").into()
}
