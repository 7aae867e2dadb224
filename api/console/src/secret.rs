//! Secrets in forms and on pages: credentials that a form keeps where they are left empty, and a secret that is shown once.

use axum::response::Response;
use longshore_shared::kernel::answer::Answer;
use longshore_shared::kernel::problem::Problem;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::form::{Asked, Refused};
use super::layout::Section;
use super::piece::{checked, options};
use super::visit::{Question, Visit};

/// What a form says of the credentials of a setting; nothing where it leaves all of them empty.
pub(super) fn given(form: &Asked) -> Option<Map<String, Value>> {
    let given: Map<String, Value> = ["type", "username", "password", "token"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), json!(form.get(&format!("credentials.{name}"))?))))
        .collect();
    (!given.is_empty()).then_some(given)
}

/// The fields for them; what is stored is not shown.
pub(super) fn credentials(is_stored: bool, form: &Asked, refused: &Refused, kind: &str) -> Markup {
    let types = [
        ("", if is_stored { "as stored" } else { "none" }),
        ("none", "none"),
        ("basic", "user name and password"),
        ("bearer", "token"),
    ];
    html! {
        fieldset {
            legend { "Credentials" }
            @if is_stored { p.muted { "Empty fields keep what is stored, which is never shown. A new address of another host needs them again." } }
            (options(form, refused, "credentials.type", kind, types))
            (checked(&Asked::default(), refused, "credentials.username", "User name", "text"))
            (checked(&Asked::default(), refused, "credentials.password", "Password", "password"))
            (checked(&Asked::default(), refused, "credentials.token", "Token", "password"))
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
        fields: html! {},
    };
    visit.ask(section, &question)
}

/// A page that shows the secret of an answer, once.
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
        let secret = shown["secret"].as_str().unwrap_or_default();
        let content = html! {
            h1 { (self.title) }
            p { (self.about) " It is shown on this page only." }
            p.secret { code { (secret) } button.copy type="button" data-copy=(secret) hidden aria-label="Copy the secret" { "copy" } }
            div.buttons { a.button.primary href=(self.next.0) { (self.next.1) } }
        };
        Ok(visit.page(section, self.title, &content))
    }
}
