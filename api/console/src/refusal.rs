//! A form that is refused, for whatever reason, comes back with what was typed and with what is wrong.
//!
//! The page of a form is at the URL that the form is sent to. So the page is asked for again, with the form in place of its query:
//! [`Visit`](super::visit::Visit) has both then. Where that page cannot be read either, as when Postgres is away, the page of the error has
//! what was typed. Secrets are on neither page.

use std::collections::HashMap;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::request::Parts;
use http::{Method, StatusCode};
use longshore_http::app::App;
use longshore_http::extract::body::read;
use longshore_http::extract::form::has_file;
use longshore_http::extract::may::bearer;
use longshore_http::extract::{Failure, RequestId};
use longshore_kernel::problem::{FORBIDDEN, Problem, UNAUTHENTICATED};
use longshore_kernel::share;
use longshore_serve::Peer;
use maud::{Markup, html};
use tower::ServiceExt as _;

use super::form::{Again, Asked, FORM_TOKEN, LIMIT, Refused, VERSION};
use super::secret::{ONE_TIME_KEY, is_secret};
use super::visit::OTHER_SESSION;

/// Forms that are on other pages, or that nothing is typed into.
const OTHERS: [&str; 3] = ["/console/login", "/console/logout", "/console/theme"];

/// The failure behind a page that shows a form again: it is logged where all of them are.
#[derive(Clone, Debug)]
pub(super) struct Shown(pub(super) Failure);

/// A form whose page cannot be shown: its URL and its fields.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    path: String,
    typed: Asked,
}

/// Answers a form that is refused with its page, which is one of `pages`.
pub(super) async fn layer(
    State((app, pages)): State<(App, Router)>,
    request: Request,
    next: Next,
) -> Response {
    // a file is not kept: its form shows itself again
    if request.method() != Method::POST
        || OTHERS.contains(&request.uri().path())
        || has_file(request.headers())
    {
        return next.run(request).await;
    }
    // the visitor first, in whose share of memory the form is then read; nothing is read without one
    match app.tokens.authenticate(bearer(request.headers()).unwrap_or_default()).await {
        Ok(caller) => {
            if let Err(refusal) = share::current_is(caller.who()).await {
                return Failure::from(Problem::from(refusal)).into_response();
            }
        }
        Err(problem) if problem.kind() == &UNAUTHENTICATED => return Failure::from(problem).into_response(),
        // while Postgres is away, the form is kept
        Err(_) => {}
    }
    let (mut parts, body) = request.into_parts();
    let bytes = match read(Request::from_parts(parts.clone(), body), LIMIT).await {
        Ok(bytes) => bytes,
        Err(problem) => return Failure::from(problem).into_response(),
    };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.remove(CONTENT_ENCODING);
    let typed = Asked::parse(&bytes);
    let mut response = next.run(Request::from_parts(parts.clone(), Body::from(bytes))).await;
    let Some(failure) = response.extensions().get::<Failure>().cloned() else { return response };
    if is_of_form(&failure.0) {
        let page = ask_again(pages, &parts, &typed, &failure.0).await;
        if page.status() == StatusCode::OK {
            return shown(page, failure);
        }
    }
    if is_worth_sending_again(&failure.0) {
        response.extensions_mut().insert(Lost { path: parts.uri.path().to_owned(), typed });
    }
    response
}

/// A page that shows a form again, with the status of the problem.
pub(super) fn shown(mut page: Response, failure: Failure) -> Response {
    *page.status_mut() =
        StatusCode::from_u16(failure.0.kind().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    page.extensions_mut().insert(Shown(failure));
    page
}

/// Whether the form may be accepted when it is filled in otherwise, or later. A request too many gets no page.
pub(super) fn is_of_form(problem: &Problem) -> bool {
    let is_of_other_session = problem.kind() == &FORBIDDEN && problem.detail() == OTHER_SESSION;
    is_of_other_session || matches!(problem.kind().status, 400 | 409 | 412 | 422 | 500 | 503)
}

fn is_worth_sending_again(problem: &Problem) -> bool {
    matches!(problem.kind().status, 409 | 422 | 429 | 500 | 503)
}

/// The page of a form, with what was typed and what is wrong.
async fn ask_again(pages: Router, parts: &Parts, typed: &Asked, problem: &Problem) -> Response {
    let id = parts.extensions.get::<RequestId>();
    let mut refused = Refused::form(problem, id.map_or("", |id| &id.0));
    if has_secrets(typed) {
        refused = refused.and("Type the password, token or code again: this page does not keep it.");
    }
    let fields = typed.0.iter().filter(|(name, _)| name != FORM_TOKEN).cloned();
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    request.extensions_mut().insert(Again { typed: Asked(fields.collect()), refused });
    if let Some(id) = id {
        request.extensions_mut().insert(id.clone());
    }
    if let Some(peer) = parts.extensions.get::<Peer>() {
        request.extensions_mut().insert(*peer);
    }
    let Ok(page) = pages.oneshot(request).await;
    page
}

fn has_secrets(typed: &Asked) -> bool {
    typed.0.iter().any(|(name, value)| is_secret(name) && !value.is_empty())
}

impl Lost {
    /// What was typed, and a button that sends it again; with a secret, which is not on the page, it cannot be sent from here.
    pub(super) fn draw(&self) -> Markup {
        let is_typed = |name: &str| ![FORM_TOKEN, ONE_TIME_KEY, VERSION].contains(&name) && !is_secret(name);
        let mut times: HashMap<&str, usize> = HashMap::new();
        for (name, _) in self.typed.0.iter().filter(|(_, value)| !value.trim().is_empty()) {
            *times.entry(name).or_default() += 1;
        }
        // what was selected was not typed
        let is_single = |name: &str| times.get(name) == Some(&1);
        let fields: Vec<_> =
            self.typed.0.iter().filter(|(name, _)| is_typed(name) && is_single(name)).collect();
        html! {
            @if !fields.is_empty() {
                h2 { "What the form says" }
                dl.details { @for (name, value) in &fields { div { dt { (name) } dd { (value) } } } }
            }
            @if has_secrets(&self.typed) {
                p { "It has a secret, which this page does not keep. Open the form again." }
            } @else {
                form method="post" action=(self.path) {
                    @for (name, value) in &self.typed.0 { input type="hidden" name=(name) value=(value); }
                    div.buttons { button.primary type="submit" { "Send it again" } a.button href="/console" { "Go to the overview" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_its_page_at_its_url_but_these() {
        let routes: String = include_str!("lib.rs").split_whitespace().collect();
        let bare: Vec<&str> = routes
            .split(".route(\"")
            .skip(1)
            .filter(|route| route.contains("post(") && !route.contains("get("))
            .filter_map(|route| route.split('"').next())
            .collect();
        assert_eq!(
            bare,
            [
                // on the page of the account, which shows them again
                "/console/account/password",
                "/console/account/totp/on",
                "/console/account/totp/remove",
                // of the script
                "/console/import/look",
                OTHERS[2],
                OTHERS[1],
            ]
        );
    }

    #[test]
    fn what_was_typed_is_on_the_page_of_an_error_without_its_secrets() {
        let draw = |body: &[u8]| {
            Lost { path: "/console/x".to_owned(), typed: Asked::parse(body) }.draw().into_string()
        };
        let page = draw(b"form_token=7&version=3&name=%3Cb%3E&id=1&id=2");
        assert!(page.contains("<dt>name</dt><dd>&lt;b&gt;</dd>") && page.contains("Send it again"), "{page}");
        assert_eq!(page.matches("<dt>").count(), 1, "{page}");
        assert_eq!(page.matches("type=\"hidden\"").count(), 5, "{page}");
        let page = draw(b"form_token=7&name=x&credentials.password=hush");
        assert!(
            !page.contains("hush") && !page.contains("Send it again") && page.contains("<dd>x</dd>"),
            "{page}"
        );
        // nothing was typed: there is only the button
        assert!(!draw(b"form_token=7").contains("<dl"));
    }
}
