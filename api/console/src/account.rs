//! The visitor's own account: password, second factor, sessions. All go through the use-cases of the API. The theme of the pages is
//! the browser's.

use axum::response::{IntoResponse as _, Redirect, Response};
use chrono::{DateTime, Utc};
use http::header::SET_COOKIE;
use longshore_domain::account::session::{self, FRESH};
use longshore_domain::account::{own, second_factor};
use longshore_http::extract::{At, Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::SessionId;
use longshore_kernel::problem::Problem;
use longshore_operate::account::{self, Factor, Session};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::form::{Asked, Refused};
use super::layout::Section;
use super::piece::{self, Tone, alert, badge, checked, counted, none, number, switch, time};
use super::refusal;
use super::session::is_ours;
use super::theme::Theme;
use super::visit::{Act, Done, Question, Visit, done};

const HERE: &str = "/console/account";

type Asking = Visit<permit::OwnAccount>;
type Acting = Act<permit::OwnAccount>;

/// `GET /console/account`.
pub(super) async fn show(visit: Asking) -> Result<Response, Failure> {
    Ok(page(&visit).await?)
}

/// What a second factor is.
const AUTHENTICATOR: &str =
    "An authenticator on your phone shows a six-digit code. From then on, each login asks for it.";

/// The fields of its forms, as the bodies of the API name them.
const FIELDS: [&str; 3] = ["password", "newPassword", "code"];

async fn page(visit: &Asking) -> Result<Response, Problem> {
    let (caller, refused) = (&visit.may.caller, &visit.refused);
    let now = visit.now();
    // the token of a program is its own actor
    let Some(account) = caller.actor.id.filter(|_| caller.session.is_some()) else {
        let content = html! {
            h1 { (caller.actor.name) }
            p { "This is an access token with the role " strong { (caller.role.as_str()) } ". It has no password and no sessions." }
        };
        return Ok(visit.page(None::<Section>, "Account", &content));
    };
    let has_factor = visit.can(Permission::SecondFactor);
    let (sessions, factor) = tokio::try_join!(account::sessions(visit.db(), account), async {
        if has_factor { account::factor(visit.db(), account).await } else { Ok(None) }
    },)?;
    let content = html! {
        h1 { (caller.actor.name) " " span.muted { (caller.role.as_str()) } }
        (alert(refused, &FIELDS))
        section aria-labelledby="password-title" {
            h2 #password-title { "Password" }
            (visit.form(&format!("{HERE}/password"), "Change the password", "/console", &passwords(visit, refused)))
        }
        @if has_factor { (second_factor(visit, factor, refused)) }
        (table(&sessions, caller.session, now))
        @if visit.can(Permission::ManageTokens) {
            p { a href="/console/token" { "Access tokens" } " of programs have a page of their own." }
        }
    };
    Ok(visit.page(None::<Section>, "Account", &content))
}

fn passwords(visit: &Asking, refused: &Refused) -> Markup {
    html! {
        fieldset {
            legend { "Change the password" }
            p.muted { "Other sessions of the account end." }
            (checked(&Asked::default(), refused, "password", "Present password", "password"))
            (checked(&Asked::default(), refused, "newPassword", "New password", "password"))
            @if visit.can(Permission::ManageTokens) {
                (switch(&Asked::default(), "tokens", "End the access tokens that this account has created, too"))
            }
        }
    }
}

fn second_factor(visit: &Asking, factor: Option<Factor>, refused: &Refused) -> Markup {
    let code = |legend: &str, said: &str| {
        html! {
            fieldset {
                legend { (legend) }
                p.muted { (said) }
                (checked(&Asked::default(), refused, "code", "Code", "text"))
            }
        }
    };
    html! {
        section #factor aria-labelledby="factor-title" {
            header.title {
                h2 #factor-title { "Second factor" }
                @if factor.is_some_and(|factor| factor.active) { (badge(Tone::Good, "on")) } @else { (badge(Tone::Warn, "off")) }
            }
            @match factor {
                Some(Factor { active: true, recovery_codes }) => {
                    p { "Logging in asks for a code. " (number(recovery_codes)) " recovery codes are left." }
                    (visit.form(&format!("{HERE}/totp/remove"), "Remove the second factor", HERE,
                        &code("Remove it", "Enter a code of it, or a recovery code.")))
                },
                Some(_) => {
                    (visit.form(&format!("{HERE}/totp/on"), "Switch it on", HERE,
                        &code("Code", "Enter the code that the authenticator shows now. The second factor is on from then.")))
                    (begin("Start again with another secret"))
                },
                None => (begin("Set up a second factor")),
            }
        }
    }
}

/// Leads to the form that shows a new secret for an authenticator.
fn begin(button: &str) -> Markup {
    html! {
        p { (AUTHENTICATOR) }
        div.buttons { a.button href={(HERE) "/totp"} data-ask="" { (button) } }
    }
}

fn table(sessions: &[Session], own: Option<SessionId>, now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="sessions-title" {
            h2 #sessions-title { "Sessions" }
            div.scroll tabindex="0" role="region" aria-label="Sessions, table" {
                table.stack {
                    thead { tr { th { "From" } th { "Client" } th { "Since" } th { "Last used" } th { "Ends" } th { span.hidden { "End" } } } }
                    tbody {
                        @for session in sessions {
                            tr {
                                td.name { @match &session.address { Some(address) => (address), None => (none()) } }
                                td.text { (session.user_agent.as_deref().unwrap_or("unknown")) }
                                td data-label="Since" { (time(session.created_at, now)) }
                                td data-label="Last used" { (time(session.last_used_at, now)) }
                                td data-label="Ends" { (time(session.expires_at, now)) }
                                td {
                                    @if own == Some(session.id) { (badge(Tone::Good, "this one")) }
                                    @else { a.button href={(HERE) "/session/" (session.id) "/end"} data-ask="" { "End" span.hidden { " the session of " (piece::stamp(session.created_at)) } } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What an action answered, or the page with what is wrong. Its forms are at other URLs than the page, and have only secrets.
async fn or_page<T>(visit: &mut Asking, result: Result<T, Problem>) -> Result<Result<T, Response>, Problem> {
    let problem = match result {
        Ok(answer) => return Ok(Ok(answer)),
        Err(problem) if refusal::is_of_form(&problem) => problem,
        Err(problem) => return Err(problem),
    };
    visit.refused = Refused::form(&problem, visit.may.origin.request_id.as_deref().unwrap_or_default());
    match page(visit).await {
        Ok(page) => Ok(Err(refusal::shown(page, problem.into()))),
        Err(_) => Err(problem),
    }
}

/// `POST /console/account/password`.
pub(super) async fn change_password(At(visitor): At, mut act: Acting) -> Result<Response, Failure> {
    let body = json!({
        "password": act.form.get("password").unwrap_or_default(),
        "newPassword": act.form.get("newPassword").unwrap_or_default(),
        "tokens": act.form.get("tokens").is_some(),
    });
    let changed = own::change_password(act.visit.services(), &act.visit.may, &visitor, body).await;
    let answer = match or_page(&mut act.visit, changed).await? {
        Ok(answer) => answer,
        Err(page) => return Ok(page),
    };
    let left: Value =
        serde_json::from_str(answer.body.as_deref().unwrap_or("{}")).map_err(Problem::internal)?;
    let count = left["countOfTokens"].as_i64().unwrap_or_default();
    if count == 0 {
        return Ok(done(HERE, Done::PasswordChanged, None));
    }
    let content = html! {
        h1 { "The password is changed" }
        p { (counted(count, "access token", "access tokens")) " of this account can still be used. Delete those that you do not know." }
        ul.hits { @for token in left["tokens"].as_array().into_iter().flatten() {
            li { (token["name"].as_str().unwrap_or_default()) " " span.muted { (token["role"].as_str().unwrap_or_default()) } }
        } }
        div.buttons { a.button.primary href="/console/token" { "To the access tokens" } a.button href=(HERE) { "To the account" } }
    };
    Ok(act.visit.page(None::<Section>, "The password is changed", &content))
}

/// `GET /console/account/totp`.
pub(super) async fn ask_set_up(visit: Visit<permit::SecondFactor>) -> Result<Response, Failure> {
    let needs_password = second_factor::needs_password(visit.services(), &visit.may).await?;
    let explanation = html! {
        p { (AUTHENTICATOR) }
        @if needs_password { p { "You logged in more than " (FRESH.num_minutes()) " minutes ago: enter your password." } }
    };
    let question = Question {
        title: "Set up a second factor?",
        explanation,
        button: "Show the secret",
        is_grave: false,
        action: &format!("{HERE}/totp"),
        back: HERE,
        fields: html! {
            @if needs_password { (checked(&Asked::default(), &visit.refused, "password", "Password", "password")) }
        },
    };
    let names: &[&str] = if needs_password { &["password"] } else { &[] };
    Ok(visit.ask_for(None::<Section>, &question, names))
}

/// `POST /console/account/totp`: the only page that shows the secret.
pub(super) async fn set_up(At(visitor): At, act: Act<permit::SecondFactor>) -> Result<Response, Failure> {
    let body = act.form.get("password").map(|password| json!({"password": password}));
    let answer = second_factor::set_up(act.visit.services(), &act.visit.may, &visitor, body).await?;
    let shown: Value =
        serde_json::from_str(answer.body.as_deref().unwrap_or("{}")).map_err(Problem::internal)?;
    let [secret, uri] = ["secret", "uri"].map(|name| shown[name].as_str().unwrap_or_default());
    let fields = html! {
        fieldset {
            legend { "Code" }
            p.muted { "Enter the code that the authenticator shows now. The second factor is on from then." }
            (checked(&Asked::default(), &Refused::default(), "code", "Code", "text"))
        }
    };
    let content = html! {
        h1 { "Set up a second factor" }
        p { "Add this secret to your authenticator, or open the address on the device that has it." }
        p.secret { code { (secret) } button.copy type="button" data-copy=(secret) hidden aria-label="Copy the secret" { "copy" } }
        p.secret { code { (uri) } button.copy type="button" data-copy=(uri) hidden aria-label="Copy the address" { "copy" } }
        (act.visit.form(&format!("{HERE}/totp/on"), "Switch it on", HERE, &fields))
    };
    Ok(act.visit.page(None::<Section>, "Set up a second factor", &content))
}

/// `POST /console/account/totp/on`: the only page that shows the recovery codes.
pub(super) async fn switch_on(At(visitor): At, mut act: Acting) -> Result<Response, Failure> {
    act.visit.may.caller.must(Permission::SecondFactor)?;
    let body = json!({"code": act.form.get("code").unwrap_or_default()});
    let on = second_factor::switch_on(act.visit.services(), &act.visit.may, &visitor, body).await;
    let answer = match or_page(&mut act.visit, on).await? {
        Ok(answer) => answer,
        Err(page) => return Ok(page),
    };
    if let Some(account) = act.visit.may.caller.actor.id {
        act.visit.app.tokens.forget(account);
    }
    let shown: Value =
        serde_json::from_str(answer.body.as_deref().unwrap_or("{}")).map_err(Problem::internal)?;
    let content = html! {
        h1 { "The second factor is on" }
        p { "Each of these recovery codes replaces one code, if you lose the authenticator. They are shown on this page only." }
        ul.hits { @for code in shown["recoveryCodes"].as_array().into_iter().flatten() { li { code { (code.as_str().unwrap_or_default()) } } } }
        div.buttons { a.button.primary href=(HERE) { "To the account" } }
    };
    Ok(act.visit.page(None::<Section>, "The second factor is on", &content))
}

/// `POST /console/account/totp/remove`.
pub(super) async fn remove(At(visitor): At, mut act: Acting) -> Result<Response, Failure> {
    act.visit.may.caller.must(Permission::SecondFactor)?;
    let body = json!({"code": act.form.get("code").unwrap_or_default()});
    let removed = second_factor::remove(act.visit.services(), &act.visit.may, &visitor, body).await;
    Ok(match or_page(&mut act.visit, removed).await? {
        Ok(_) => done(HERE, Done::FactorRemoved, None),
        Err(page) => page,
    })
}

/// `GET /console/account/session/{id}/end`.
pub(super) async fn ask_end(Id(id): Id<SessionId>, visit: Asking) -> Response {
    let question = Question {
        title: "End the session?",
        explanation: html! { p { "It is logged out within seconds." } },
        button: "End the session",
        is_grave: false,
        action: &format!("{HERE}/session/{id}/end"),
        back: HERE,
        fields: html! {},
    };
    visit.ask(None::<Section>, &question)
}

/// `POST /console/account/session/{id}/end`.
pub(super) async fn end(Id(id): Id<SessionId>, act: Acting) -> Result<Response, Failure> {
    session::end(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(HERE, Done::SessionEnded, None))
}

/// `POST /console/theme`: the page that it came from, in the theme.
pub(super) async fn choose_theme(act: Act<permit::Read>) -> Result<Response, Failure> {
    let unknown = || Problem::violation("to", "invalid_value", "is not one of the options");
    let theme = act.form.get("to").and_then(Theme::of).ok_or_else(unknown)?;
    let back = act.form.get("back").filter(|back| is_ours(back)).unwrap_or("/console");
    Ok(([(SET_COOKIE, theme.kept())], Redirect::to(back)).into_response())
}
