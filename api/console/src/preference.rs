//! Carrier preferences: the list in the order in which they are looked at, and deleting one.

mod condition;
pub(super) mod edit;

use axum::response::Response;
use longshore_domain::shipping::preference as stored;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_operate::preference::{self, Preference, SHOWN};
use maud::{Markup, html};
use uuid::Uuid;

use super::form::{VERSION, unchanged};
use super::layout::Section;
use super::piece::{self, Tone, badge, empty};
use super::visit::{Act, Done, Question, Visit, done};

const HERE: &str = "/console/preference";

/// What is said where another one has stored the preference since the form was opened.
const CHANGED: &str = "the preference was changed since this form was opened: check it, and send it again";

type Asking = Visit<permit::WritePreferences>;
type Acting = Act<permit::WritePreferences>;

/// Those of an organisation.
fn of(organisation: OrganisationId) -> String {
    format!("{HERE}?organisation={organisation}")
}

/// `GET /console/preference`.
pub(super) async fn show(visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let organisation: Option<OrganisationId> = visit.asked.id("organisation")?;
    let mut found = preference::list(visit.db(), visit.scope(), organisation).await?;
    let is_more = found.len() > SHOWN;
    found.truncate(SHOWN);
    let may = visit.can(Permission::WritePreferences);
    let query = organisation.map_or_else(String::new, |id| format!("?organisation={id}"));
    let content = html! {
        header.title {
            h1 { "Carrier preferences" }
            div.buttons {
                @if may { a.button.primary href={(HERE) "/new" (query)} { "New preference" } }
                @if organisation.is_some() { a.button href=(HERE) { "All organisations" } }
            }
        }
        p.muted { "They choose the carrier of an order that is sent without one: the first whose conditions hold. Those of the e-shop are looked at first, then those of every e-shop." }
        @if is_more { p.muted { "The first " (SHOWN) ". The page of an organisation leads to its own." } }
        (table(&found, may))
    };
    Ok(visit.page(Section::Warehouses, "Carrier preferences", &content))
}

fn table(found: &[Preference], may: bool) -> Markup {
    if found.is_empty() {
        return empty(
            "No carrier preferences.",
            "An order that is sent without a carrier is incorrect, until one is chosen for it.",
        );
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Carrier preferences, table" {
            table.list.stack {
                thead { tr {
                    th { "For" } th.number { "Position" } th { "Carrier" } th { "Conditions" } th { "Organisation" }
                    @if may { th { span.hidden { "Change" } } }
                } }
                tbody { @for preference in found { (row(preference, may)) } }
            }
        }
    }
}

fn row(preference: &Preference, may: bool) -> Markup {
    let conditions = condition::in_words(&preference.conditions);
    let path = format!("{HERE}/{}", preference.id);
    html! {
        tr {
            td.name { strong { (for_whom(preference)) } @if !preference.active { " " (badge(Tone::Quiet, "inactive")) } }
            td.number data-label="Position" { (preference.position) }
            td.name data-label="Carrier" {
                (carrier(preference))
                @if !preference.is_carrier_usable { " " (badge(Tone::Warn, "not usable")) }
            }
            td.text data-label="Conditions" { @if conditions.is_empty() { span.muted { "every order" } } @else { (conditions.join("; ")) } }
            td.name data-label="Organisation" { (piece::organisation(preference.organisation_id, &preference.organisation)) }
            @if may {
                td {
                    div.buttons {
                        a.button href={(path) "/edit"} { "Edit" span.hidden { " " (said(preference)) } }
                        a.button.danger href={(path) "/delete"} data-ask="" { "Delete" span.hidden { " " (said(preference)) } }
                    }
                }
            }
        }
    }
}

fn for_whom(preference: &Preference) -> &str {
    preference.eshop.as_deref().unwrap_or("every e-shop")
}

fn carrier(preference: &Preference) -> String {
    match &preference.service {
        Some(service) => format!("{}, {service}", preference.carrier),
        None => preference.carrier.clone(),
    }
}

/// A preference, in a few words.
fn said(preference: &Preference) -> String {
    format!("position {} of {}: {}", preference.position, for_whom(preference), carrier(preference))
}

async fn find(visit: &Asking, id: Uuid) -> Result<Preference, Problem> {
    let found = preference::find(visit.db(), visit.scope(), id).await?;
    found.ok_or_else(|| Problem::not_found("carrier preference"))
}

/// `GET /console/preference/{id}/delete`.
pub(super) async fn ask_delete(Id(id): Id, visit: Asking) -> Result<Response, Failure> {
    let found = find(&visit, id).await?;
    let question = Question {
        title: "Delete the carrier preference?",
        explanation: html! {
            p { strong { (carrier(&found)) } " at position " (found.position) " of " (for_whom(&found)) ", " (found.organisation) "." }
            p { "Orders that were shipped by it keep their carrier. Others are shipped by what follows it." }
        },
        button: "Delete the preference",
        is_grave: true,
        action: &format!("{HERE}/{id}/delete"),
        back: &of(found.organisation_id),
        fields: html! { input type="hidden" name=(VERSION) value=(found.version); },
    };
    Ok(visit.ask(Section::Warehouses, &question))
}

/// `POST /console/preference/{id}/delete`.
pub(super) async fn delete(Id(id): Id, act: Acting) -> Result<Response, Failure> {
    let organisation = find(&act.visit, id).await?.organisation_id;
    let version = act.form.version();
    stored::delete(act.visit.services(), &act.visit.may, id, unchanged(version, CHANGED)).await?;
    Ok(done(&of(organisation), Done::PreferenceDeleted, None))
}
