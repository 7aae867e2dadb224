//! Sessions of the console: admin accounts log in with the same use-case as over the API.
//!
//! The cookie contains the opaque token of that login, and only [`layer`] reads it. It is `HttpOnly` (hidden from scripts),
//! `SameSite=Strict` (not sent from pages of other sites), and bound to `/console`; over https it is `Secure` and bound to the host
//! (`__Host-`), and no other name is read: another host of the domain can set that.
//!
//! A change is accepted only if
//!
//! - the browser says that the request comes from a page of the same origin (`Sec-Fetch-Site`, or `Origin` if that is missing, as
//!   over plain http), and
//! - the form contains the *form token*, which is derived from the session's token and which no other origin can read. The login is
//!   the exception: it has no session yet.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{AUTHORIZATION, HOST, ORIGIN, REFERER, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use longshore_domain::account::login;
use longshore_domain::account::visitor::Door;
use longshore_http::app::App;
use longshore_http::extract::{At, Failure, May, permit};
use longshore_kernel::problem::{
    CODE_REQUIRED, FORBIDDEN, INVALID_DATA, Problem, RATE_LIMITED, UNAUTHENTICATED,
};
use maud::html;
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;

use super::cookie;
use super::form::{Asked, Form};
use super::piece::sentence;
use super::visit::{Act, Done, saying};
use super::{layout, refusal};

/// Name of the cookie.
const NAME: &str = "longshore_console";

/// The name over https, which prevents other hosts of the domain from setting the cookie.
const HOST_NAME: &str = "__Host-longshore_console";

/// The login page.
const LOGIN: &str = "/console/login";

/// Where a session ends.
const LOGOUT: &str = "/console/logout";

/// The field of the login for a form whose change was not made.
const LOST: &str = "lost";

/// Converts the cookie to the `Authorization` header that the rest of the service reads, and refuses changes
/// from other sites.
pub(super) async fn layer(mut request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && !is_from_here(request.headers()) {
        let detail = "the request does not come from a page of this console";
        return Failure::from(Problem::new(&FORBIDDEN, detail)).into_response();
    }
    let shown =
        token(request.headers()).and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    let headers = request.headers_mut();
    headers.remove(AUTHORIZATION);
    if let Some(mut shown) = shown {
        shown.set_sensitive(true);
        headers.insert(AUTHORIZATION, shown);
    }
    next.run(request).await
}

/// The token in the cookie.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    // not every proxy says that a page was asked for over https
    let bound = cookie::read(headers, HOST_NAME);
    if is_https(headers) { bound } else { bound.or_else(|| cookie::read(headers, NAME)) }
}

/// Whether the browser has sent a request over https. It names the origin of forms as it sees it, also behind proxies; of other
/// requests, the proxy says it.
fn is_https(headers: &HeaderMap) -> bool {
    let starts = |name: &str, start: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with(start))
    };
    starts(ORIGIN.as_str(), "https://") || starts("x-forwarded-proto", "https")
}

/// Whether the browser says that a request comes from a page of this origin.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match (text("sec-fetch-site"), text(ORIGIN.as_str()), text(HOST.as_str())) {
        (Some(site), ..) => site == "same-origin",
        (None, Some(origin), Some(host)) => {
            origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
        }
        _ => false,
    }
}

/// The login page for a request without a valid login: it leads back to the page that was asked for, or to that of the form that was
/// sent, and says that the form changed nothing.
pub(super) fn login_for(request: &Request) -> String {
    let address = request.uri().path_and_query().map_or("", |address| address.as_str());
    let is_sent = *request.method() == Method::POST;
    let next = match *request.method() {
        Method::GET => address,
        Method::POST => page_of_form(request.headers(), request.uri().path()),
        _ => "/console",
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    if next != "/console" {
        query.append_pair("next", next);
    }
    if is_sent && address != LOGOUT {
        query.append_pair(LOST, "true");
    }
    let query = query.finish();
    if query.is_empty() { LOGIN.to_owned() } else { format!("{LOGIN}?{query}") }
}

/// The page of a form that was sent to `path`: the one that the browser names, else the one at the URL of the form.
fn page_of_form<'p>(headers: &'p HeaderMap, path: &'p str) -> &'p str {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let named = text(REFERER.as_str()).and_then(|address| {
        let (_, rest) = address.split_once("://")?;
        let (authority, page) = rest.split_at(rest.find('/')?);
        text(HOST.as_str()).is_some_and(|host| authority.eq_ignore_ascii_case(host)).then_some(page)
    });
    let page = named.filter(|page| is_ours(page)).unwrap_or(path);
    // forms whose URL has no page
    match page {
        "/console/account/password" | "/console/account/totp/on" | "/console/account/totp/remove" => {
            "/console/account"
        }
        LOGIN | LOGOUT | "/console/theme" => "/console",
        page => page,
    }
}

/// `GET /console/login`.
pub(super) async fn show_login(asked: Asked) -> Response {
    login_page(&asked, None, StatusCode::OK)
}

fn login_page(asked: &Asked, refused: Option<&str>, status: StatusCode) -> Response {
    let page = html! {
        form.login method="post" action=(LOGIN) {
            h1 { "Log in" }
            p.muted { "Use an admin account. Viewers have read-only access." }
            @if let Some(refused) = refused {
                p.refusal role="alert" { (refused) }
            }
            @if asked.get(LOST).is_some() {
                p.refusal role="alert" { "Your session has ended, and the change was not made. Log in to go back to the form." }
                input type="hidden" name=(LOST) value="true";
            }
            @if let Some(next) = asked.get("next") {
                input type="hidden" name="next" value=(next);
            }
            label for="login" { "E-mail address" }
            input #login type="email" name="login" autocomplete="username" required maxlength="255"
                value=[asked.get("login")] autofocus;
            label for="password" { "Password" }
            input #password type="password" name="password" autocomplete="current-password" required maxlength="255";
            label for="code" { "Code of your second factor (if you have one)" }
            input #code type="text" name="code" inputmode="numeric" autocomplete="one-time-code" maxlength="64";
            button.primary type="submit" { "Log in" }
        }
    };
    (status, layout::bare("Log in", &page)).into_response()
}

#[derive(Deserialize)]
struct Opened {
    token: String,
    exp: i64,
}

/// `POST /console/login`.
pub(super) async fn log_in(
    State(app): State<App>,
    At(visitor): At,
    headers: HeaderMap,
    before: Result<May<permit::OwnAccount>, Failure>,
    Form(form): Form,
) -> Result<Response, Failure> {
    let credentials = json!({
        "login": form.get("login").unwrap_or_default(),
        "password": form.get("password").unwrap_or_default(),
        "code": form.get("code"),
    });
    let answer = match login::login(&app.services, Door::Admin, &visitor, credentials).await {
        Ok(answer) => answer,
        Err(problem) => return refuse(&form, problem),
    };
    if let Ok(before) = before {
        end(&app, &before).await?;
    }
    let opened: Opened =
        serde_json::from_str(answer.body.as_deref().unwrap_or_default()).map_err(Problem::internal)?;
    let age = (opened.exp - app.services.clock.now().timestamp()).max(0);
    let next = form.get("next").filter(|next| is_ours(next)).unwrap_or("/console");
    let next = if form.get(LOST).is_some() { saying(next, Done::Lost) } else { next.to_owned() };
    Ok((with_cookie(&headers, &opened.token, age)?, Redirect::to(&next)).into_response())
}

/// Shows errors that the visitor can correct on the login page; others are failures as usual.
fn refuse(form: &Asked, problem: Problem) -> Result<Response, Failure> {
    let is = |kind| std::ptr::eq(problem.kind(), kind);
    let said = if is(&raw const UNAUTHENTICATED) || is(&raw const INVALID_DATA) {
        "Wrong e-mail address or password."
    } else if is(&raw const CODE_REQUIRED) {
        "This account has a second factor. Enter a new code together with the password."
    } else if is(&raw const RATE_LIMITED) {
        "Too many attempts. Try again in a few minutes."
    } else if refusal::is_of_form(&problem) {
        let said = format!("{}.", sentence(&problem.said()));
        return Ok(refusal::shown(login_page(form, Some(said.as_str()), StatusCode::OK), problem.into()));
    } else {
        return Err(problem.into());
    };
    let status = StatusCode::from_u16(problem.kind().status).unwrap_or(StatusCode::BAD_REQUEST);
    Ok(login_page(form, Some(said), status))
}

/// `POST /console/logout`: the token is revoked, the cookie removed.
pub(super) async fn log_out(headers: HeaderMap, act: Act<permit::OwnAccount>) -> Result<Response, Failure> {
    end(&act.visit.app, &act.visit.may).await?;
    Ok((with_cookie(&headers, "", 0)?, Redirect::to(LOGIN)).into_response())
}

/// Ends the session of the token in the cookie.
async fn end(app: &App, may: &May<permit::OwnAccount>) -> Result<(), Problem> {
    match login::logout(&app.services, may).await {
        // of a program, whose token someone put into the cookie: it stays valid
        Err(problem) if problem.kind() != &FORBIDDEN => Err(problem),
        _ => Ok(()),
    }
}

/// Sets the cookie, which is only sent over https if it is set over https. One of the other name, which an earlier login over http or
/// another host of the domain has set, is removed.
fn with_cookie(headers: &HeaderMap, token: &str, seconds: i64) -> Result<HeaderMap, Problem> {
    // the prefix requires the path `/`
    let cookies = if is_https(headers) {
        vec![(HOST_NAME, token, "/; Secure", seconds), (NAME, "", "/console", 0)]
    } else {
        vec![(NAME, token, "/console", seconds)]
    };
    let mut set = HeaderMap::new();
    for (name, token, place, seconds) in cookies {
        let cookie = format!("{name}={token}; Path={place}; Max-Age={seconds}; HttpOnly; SameSite=Strict");
        let mut value = HeaderValue::try_from(cookie).map_err(Problem::internal)?;
        value.set_sensitive(true);
        set.append(SET_COOKIE, value);
    }
    Ok(set)
}

/// Whether a URL is a page of the console, and cannot be read as another host.
pub(super) fn is_ours(next: &str) -> bool {
    let rest = next.strip_prefix("/console");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        && !next.split(['/', '?', '#']).any(|step| matches!(step, "." | ".."))
        && !next.contains("%2e")
        && !next.contains("%2E")
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    fn comes_from_here(pairs: &[(&'static str, &'static str)]) -> bool {
        is_from_here(&headers(pairs))
    }

    #[test]
    fn a_change_must_come_from_a_page_of_this_origin() {
        assert!(comes_from_here(&[("sec-fetch-site", "same-origin")]));
        assert!(comes_from_here(&[("origin", "http://Ops.example:8080"), ("host", "ops.example:8080")]));
        for refused in [
            &[][..],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site"), ("origin", "https://a.example"), ("host", "a.example")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://evil.example"), ("host", "a.example")],
            &[("origin", "null"), ("host", "a.example")],
            &[("host", "a.example")],
        ] {
            assert!(!comes_from_here(refused), "{refused:?}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = |cookie| token(&headers(&[("cookie", cookie)])).map(str::to_owned);
        assert_eq!(found("a=b; longshore_console=lsh_x; c=d").as_deref(), Some("lsh_x"));
        assert_eq!(found("longshore_consoles=lsh_x"), None);
        assert_eq!(found("longshore_console="), None);
    }

    #[test]
    fn the_page_of_a_form_is_one_of_this_console() {
        let page = |referer, path| {
            page_of_form(&headers(&[("referer", referer), ("host", "a.example")]), path).to_owned()
        };
        let edit = "/console/webhook/7/edit";
        for (referer, expected) in [
            ("https://a.example/console/webhook/7/edit", edit),
            ("https://a.example/console/replay?since=1&event=*", "/console/replay?since=1&event=*"),
            ("https://a.example/console/account/password", "/console/account"),
            ("https://evil.example/console/job", edit),
            ("https://a.example@evil.example/console/job", edit),
            ("https://a.example/api/job", edit),
            ("https://a.example//evil.example/console", edit),
            ("https://a.example", edit),
            ("nothing", edit),
        ] {
            assert_eq!(page(referer, edit), expected, "{referer}");
        }
        let bare = headers(&[("host", "a.example")]);
        for (path, expected) in [
            (edit, edit),
            ("/console/account/totp/on", "/console/account"),
            ("/console/theme", "/console"),
            ("/console/logout", "/console"),
        ] {
            assert_eq!(page_of_form(&bare, path), expected);
        }
    }

    #[test]
    fn a_login_redirects_only_to_pages_of_the_console() {
        for ours in ["/console", "/console/job?state=failed", "/console?span=day"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "//evil.example",
            "/consolex",
            "https://evil.example",
            "/console\\@evil",
            "/api/job",
            "/console/a b",
            "/console/../api/job",
            "/console/%2e%2e/api/job",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
