//! Secrets in forms and on pages: credentials that a form keeps where they are left empty, and a secret that is shown once.
//!
//! A page that shows a secret is the answer of a form. Its form has a one-time key ([`one_time_key`]), so that a reload of the
//! page makes no other secret ([`act_once`]).

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_http::extract::run_once;
use longshore_kernel::answer::Answer;
use longshore_kernel::context::Context;
use longshore_kernel::crypto::sha256;
use longshore_kernel::idempotency::Key;
use longshore_kernel::ids::random_id;
use longshore_kernel::problem::{IDEMPOTENCY_KEY_REUSED, Problem, REQUEST_IN_PROGRESS};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::form::Asked;
use super::layout::Section;
use super::piece::{checked, counted, full_time, options};
use super::visit::{Act, Question, Visit};

/// What a form says of the credentials in `object`; nothing where it leaves all of them empty. Beside one that is typed, what is
/// left empty is as it is `stored`, masked, unless another kind is chosen.
pub(super) fn given(form: &Asked, object: &str, stored: Option<&Value>) -> Option<Map<String, Value>> {
    // what was typed before another kind was chosen is not meant
    let named: &[&str] = match form.get(&format!("{object}.type")) {
        Some("none") => &["type"],
        Some("basic") => &["type", "username", "password"],
        Some("bearer") => &["type", "token"],
        _ => &["type", "username", "password", "token"],
    };
    let given: Map<String, Value> = named
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), json!(form.get(&format!("{object}.{name}"))?))))
        .collect();
    if given.is_empty() {
        return None;
    }
    let mut credentials = stored
        .and_then(Value::as_object)
        .filter(|stored| given.get("type").is_none_or(|kind| stored.get("type") == Some(kind)))
        // where none are stored, nothing says of which kind the typed ones are
        .filter(|stored| stored.get("type").is_none_or(|kind| kind != "none"))
        .cloned()
        .unwrap_or_default();
    credentials.extend(given);
    Some(credentials)
}

/// Whether a field is a secret, which no page shows once it was typed.
pub(super) fn is_secret(name: &str) -> bool {
    matches!(name.rsplit('.').next(), Some("password" | "newPassword" | "token" | "code"))
}

/// The fields for the credentials in `object`, with what their kind is called; what is `stored` is not shown. The style sheet shows the fields
/// of the chosen kind.
pub(super) fn credentials<P>(
    visit: &Visit<P>,
    form: &Asked,
    stored: Option<&Value>,
    [object, legend, kind]: [&str; 3],
) -> Markup {
    let refused = &visit.refused;
    let is_stored = stored.is_some();
    let stored_kind = stored.and_then(|stored| stored[object]["type"].as_str()).unwrap_or("none");
    let name = |field: &str| format!("{object}.{field}");
    let types = [
        ("", if is_stored { "as stored" } else { "none" }),
        ("none", "none"),
        ("basic", "user name and password"),
        ("bearer", "token"),
    ];
    html! {
        fieldset.credentials.{ "stored-" (stored_kind) } {
            legend { (legend) }
            @if is_stored { p.muted { "Empty fields keep what is stored, which is never shown. A new address of another host needs them again." } }
            span.of-kind { (options(form, refused, &name("type"), kind, types)) }
            span.of-basic {
                (checked(form, refused, &name("username"), "User name", "text"))
                (checked(&Asked::default(), refused, &name("password"), "Password", "password"))
            }
            span.of-bearer { (checked(&Asked::default(), refused, &name("token"), "Token", "password")) }
        }
    }
}

/// Asks whether to rotate the secret that signs these calls.
pub(super) fn ask_rotate<P>(visit: &Visit<P>, section: Section, back: &str, calls: &Markup) -> Response {
    let question = Question {
        title: "Rotate the secret?",
        explanation: html! {
            p { (calls) " are signed with the new secret and, for one more day, with the present one as well." }
            p { "The new secret is shown once, on the next page." }
        },
        button: "Rotate the secret",
        is_grave: false,
        action: &format!("{back}/rotate"),
        back,
        fields: one_time_key(visit),
    };
    visit.ask(section, &question)
}

/// How many secrets were rotated away and still sign, and until when.
pub(super) fn former(secrets: i64, until: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    let verb = if secrets == 1 { "signs" } else { "sign" };
    html! { (counted(secrets, "former secret", "former secrets")) " still " (verb) ", until " (full_time(until, now)) }
}

/// The field of the one-time key of a form.
pub(super) const ONE_TIME_KEY: &str = "one_time_key";

/// The key by which a form acts once, however often it is sent. A form that was refused keeps it, since it may have acted nevertheless;
/// one that has acted with other values gets another.
pub(super) fn one_time_key<P>(visit: &Visit<P>) -> Markup {
    let keeps = !visit.refused.is_empty() && !visit.refused.is(&IDEMPOTENCY_KEY_REUSED);
    let kept = visit.asked.get(ONE_TIME_KEY).filter(|_| keeps).map(str::to_owned);
    html! { input type="hidden" name=(ONE_TIME_KEY) value=(kept.unwrap_or_else(|| random_id().to_string())); }
}

/// Runs a use-case whose answer shows a secret, unless the form was sent before: then its answer is that of the first time,
/// without the secret. `body` is what the form says; `path` is where it is sent.
pub(super) async fn act_once<P, F>(
    act: &Act<P>,
    path: &str,
    body: &Value,
    use_case: F,
) -> Result<Answer, Problem>
where
    F: AsyncFnOnce(&Context) -> Result<Answer, Problem>,
{
    let context = act.visit.may.0.clone();
    // a page of an earlier release has none
    let Some(key) = act.form.id::<Uuid>(ONE_TIME_KEY)? else { return use_case(&context).await };
    let key = key.to_string();
    let key = Key::new(&context.caller, "POST", path, &key);
    let body_hash = sha256(body.to_string().as_bytes());
    let answered = run_once(act.visit.services(), context, &key, &body_hash, use_case).await;
    Ok(answered.map_err(taken)?.answer)
}

/// Why a key cannot be claimed, in the words of a form.
fn taken(problem: Problem) -> Problem {
    let code = problem.kind().code;
    if code == REQUEST_IN_PROGRESS.code {
        Problem::new(&REQUEST_IN_PROGRESS, "this form was sent a moment ago, and is still being executed")
    } else if code == IDEMPOTENCY_KEY_REUSED.code {
        let detail = "this form was sent before with other values, which took effect. Sent again, these take effect, too";
        Problem::new(&IDEMPOTENCY_KEY_REUSED, detail)
    } else {
        problem
    }
}

/// A page that shows the secret of an answer, once; for a form that was sent again, it says that.
#[derive(Debug)]
pub(super) struct Once<'o> {
    pub(super) title: &'o str,
    /// What the secret is for.
    pub(super) about: &'o str,
    /// The page to go on to, and its name.
    pub(super) next: (&'o str, &'o str),
}

impl Once<'_> {
    pub(super) fn page<P>(
        &self,
        visit: &Visit<P>,
        section: Section,
        answer: &Answer,
    ) -> Result<Response, Problem> {
        let shown: Value =
            serde_json::from_str(answer.body.as_deref().unwrap_or("{}")).map_err(Problem::internal)?;
        let Some(secret) = shown["secret"].as_str() else { return Ok(self.repeated(visit, section)) };
        let content = html! {
            h1 { (self.title) }
            p { (self.about) " It is shown on this page only." }
            p.secret { code { (secret) } button.copy type="button" data-copy=(secret) hidden aria-label="Copy the secret" { "copy" } }
            div.buttons { a.button.primary href=(self.next.0) { (self.next.1) } }
        };
        Ok(visit.page(section, self.title, &content))
    }

    /// The page of a form that was sent again: the answer of the first time had the secret.
    fn repeated<P>(&self, visit: &Visit<P>, section: Section) -> Response {
        let title = format!("{} already", self.title);
        let content = html! {
            h1 { (title) }
            p { "The form was sent again, and nothing changed. The secret was shown once. If it is lost, rotate it." }
            div.buttons { a.button.primary href=(self.next.0) { (self.next.1) } }
        };
        visit.page(section, &title, &content)
    }
}
