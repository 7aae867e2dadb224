//! Errors as pages, with the navigation bar for a visitor who is logged in. Other visitors are sent to the
//! login, and return to the requested page, or to that of the form that they sent.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, StatusCode};
use longshore_http::app::App;
use longshore_http::extract::Failure;
use longshore_http::extract::RequestId;
use longshore_http::middleware::problem::log;
use longshore_kernel::problem::{METHOD_NOT_ALLOWED, NO_SUCH_PATH, Problem, UNAUTHENTICATED};
use maud::{Markup, html};

use super::counts;
use super::form::form_token;
use super::layout::{self, Section};
use super::piece::sentence;
use super::refusal::{Lost, Shown};
use super::session;
use super::theme::Theme;

/// How long identifying the visitor may take, since the failure may be that of Postgres.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes the page of every failure from the handlers inside it.
pub(super) async fn layer(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let login = session::login_for(&request);
    let section = Section::of(request.uri().path());
    let is_live = request.uri().path().ends_with("/live");
    let token = session::token(request.headers()).map(str::to_owned);
    let theme = Theme::chosen(request.headers());
    let mut response = next.run(request).await;
    let id = id.as_ref().map_or("", |id| &id.0);
    if let Some(Shown(Failure(problem))) = response.extensions_mut().remove::<Shown>() {
        log(&problem, id);
        tell_when(&problem, &mut response);
        return response;
    }
    let Some(Failure(problem)) = response.extensions_mut().remove::<Failure>() else { return response };
    if std::ptr::eq(problem.kind(), &raw const UNAUTHENTICATED) && !is_live {
        return Redirect::to(&login).into_response();
    }
    log(&problem, id);
    let content = content(&problem, id, response.extensions_mut().remove::<Lost>().as_ref());
    let title = problem.kind().title;
    let page = match token {
        Some(token) if !is_live => with_bar(&app, (&token, theme), section, title, &content).await,
        _ => None,
    };
    let status = StatusCode::from_u16(problem.kind().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, page.unwrap_or_else(|| layout::bare(title, &content))).into_response();
    tell_when(&problem, &mut response);
    response
}

/// Says when to try again.
fn tell_when(problem: &Problem, response: &mut Response) {
    if let Some(wait) = problem.retry_after_hint() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
}

/// The page for a visitor who is logged in; `None` if the visitor cannot be identified.
async fn with_bar(
    app: &App,
    (token, theme): (&str, Theme),
    section: Option<Section>,
    title: &str,
    content: &Markup,
) -> Option<Html<String>> {
    let caller = tokio::time::timeout(PATIENCE, app.tokens.authenticate(token)).await.ok()?.ok()?;
    let chrome = layout::Chrome {
        name: &caller.actor.name,
        role: caller.role.as_str(),
        form_token: &form_token(token),
        said: None,
        live: None,
        every: None,
        sought: None,
        theme,
        here: "/console",
        counts: &counts::last(app, &caller),
    };
    Some(layout::page(&chrome, section, title, content))
}

fn content(problem: &Problem, request_id: &str, lost: Option<&Lost>) -> Markup {
    let kind = problem.kind();
    html! {
        section.question {
            h1 { (kind.title) }
            // the detail names the first of them, which is the only one or in the list
            @if problem.violations().len() > 1 {
                ul {
                    @for violation in problem.violations() {
                        li { strong { (violation.property_path) } " " (violation.message) }
                    }
                }
            } @else {
                p { (sentence(&problem.said())) "." }
            }
            p.muted { "Request " code { (request_id) } ", status " (kind.status) "." }
            @match lost {
                Some(lost) => (lost.draw()),
                None => div.buttons { a.button.primary href="/console" { "Go to the overview" } },
            }
        }
    }
}

/// Answers any other path under `/console`.
pub(super) async fn no_such_page() -> Failure {
    Problem::new(&NO_SUCH_PATH, "the console has no page at this address").into()
}

/// Answers any other method of a path under `/console`; the router adds `Allow`, which is what `OPTIONS` asks
/// for.
pub(super) async fn no_such_method(method: Method) -> Result<StatusCode, Failure> {
    if method == Method::OPTIONS {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::new(&METHOD_NOT_ALLOWED, "this page does not support this method").into())
}

#[cfg(test)]
mod tests {
    use longshore_kernel::problem::Violation;

    use super::*;

    #[test]
    fn an_error_page_says_each_thing_once() {
        let [first, second] = [("concurrency", "must be 1 to 8"), ("name", "is required")]
            .map(|(path, message)| Violation::new(path, "invalid", message));
        let one = content(&Problem::invalid(vec![first.clone()]), "7", None).into_string();
        assert!(one.contains("<p>Concurrency must be 1 to 8.</p>"), "{one}");
        assert_eq!(one.matches("must be 1 to 8").count(), 1, "{one}");
        let both = content(&Problem::invalid(vec![first, second]), "7", None).into_string();
        assert_eq!(both.matches("must be 1 to 8").count(), 1, "{both}");
        assert!(both.contains("<li><strong>name</strong> is required</li>"), "{both}");
    }

    #[test]
    fn what_is_not_there_has_the_name_that_people_use() {
        for (name, shown) in [
            ("expedition", "There is no such order."),
            ("integration_setting", "There is no such integration setting."),
            ("e-shop", "There is no such e-shop."),
        ] {
            let page = content(&Problem::not_found(name), "7", None).into_string();
            assert!(page.contains(shown), "{page}");
        }
    }
}
