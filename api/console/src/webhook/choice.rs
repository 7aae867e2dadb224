//! Which events: the part that forms and pages of webhooks and of readers have in common, and of whose.

use axum::response::Response;
use longshore_domain::list;
use longshore_domain::list::resource::Resource;
use longshore_domain::webhook::event::{SUBSCRIBABLE, TYPES};
use longshore_domain::webhook::subscription::{self, Tried};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_operate::{eshop, organisation};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::form::{Asked, full};
use crate::layout::Section;
use crate::piece::{checked, counted, number, options};
use crate::visit::{Act, Visit};

/// Of whose events a new one is told: of an e-shop, or of an organisation.
pub(crate) struct Of {
    /// Its field of the API, and of the address of its page.
    field: &'static str,
    id: Uuid,
    name: String,
}

impl Of {
    pub(crate) async fn eshop<P>(visit: &Visit<P>, id: EshopId) -> Result<Self, Problem> {
        let found = eshop::find(visit.db(), visit.scope(), id).await?;
        let name = found.ok_or_else(|| Problem::not_found("e-shop"))?.name;
        Ok(Self { field: "eshop", id: id.get(), name })
    }

    pub(crate) async fn organisation<P>(visit: &Visit<P>, id: OrganisationId) -> Result<Self, Problem> {
        let found = organisation::find(visit.db(), visit.scope(), id).await?;
        let name = found.ok_or_else(|| Problem::not_found("organisation"))?.name;
        Ok(Self { field: "organisation", id: id.get(), name })
    }

    pub(crate) fn page(&self) -> String {
        format!("/console/{}/{}", self.field, self.id)
    }

    pub(crate) fn member(&self) -> (&'static str, Value) {
        (self.field, json!(self.id))
    }

    /// The page with the form of a new one: `what` is its word, also in the address.
    pub(crate) fn page_of_new<P>(&self, visit: &Visit<P>, what: &str, fields: &Markup) -> Response {
        let (back, title) = (self.page(), format!("New {what}"));
        let content = html! {
            p.trail { a href=(back) { (self.name) } " / new " (what) }
            h1 { (title) " of " (self.name) @if self.field == "organisation" { ", all e-shops" } }
            (visit.form(&format!("{back}/{what}"), "Create", &back, fields))
        };
        visit.page(Section::Webhooks, &title, &content)
    }
}

/// A stored record, as the API shows it: all of the same version.
pub(crate) async fn stored<P>(
    visit: &Visit<P>,
    resource: &'static Resource,
    id: impl Into<Uuid>,
) -> Result<Value, Problem> {
    let found = list::find(&visit.db().main, resource, visit.scope(), id).await?;
    let found = found.ok_or_else(|| Problem::not_found(resource.name))?;
    serde_json::from_str(&found.json).map_err(Problem::internal)
}

/// Of whose events a stored one is told.
pub(crate) fn of_stored(stored: &Value) -> (&'static str, &Value) {
    let field = if stored["eshop"].is_null() { "organisation" } else { "eshop" };
    (field, &stored[field])
}

/// A stored value as a field has it.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The fields as they are stored.
pub(crate) fn filled(stored: &Value) -> impl Iterator<Item = (&'static str, String)> {
    let several = stored["events"].as_array().filter(|_| stored["event"].is_null());
    let events = several.into_iter().flatten().map(|event| ("events", text(event)));
    let selected =
        stored["select"].as_array().map(|names| names.iter().map(text).collect::<Vec<_>>().join(", "));
    // an empty field means all of them; this one is sent in any case
    let selected = selected.map(|names| if names.is_empty() { "id".to_owned() } else { names });
    let named = ["event", "criteria"].map(|name| (name, text(&stored[name])));
    named.into_iter().chain(events).chain(selected.map(|names| ("select", names)))
}

/// The members of the body of the API that say it.
pub(crate) fn body(form: &Asked) -> Map<String, Value> {
    let mut body = Map::new();
    let (event, events) = (form.get("event"), form.all("events").collect::<Vec<_>>());
    // both, where both are chosen: the rule of the API refuses them, unless they say the same
    body.extend(event.map(|event| ("event".to_owned(), json!(event))));
    if event.is_none() || !events.is_empty() {
        body.insert("events".to_owned(), json!(events));
    }
    // what is no JSON is refused by the rule of the API
    let criteria =
        form.get("criteria").map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
    body.insert("criteria".to_owned(), criteria.unwrap_or_default());
    let select = form.get("select").map(|names| names.split(',').map(str::trim).collect::<Vec<_>>());
    body.insert("select".to_owned(), json!(select));
    body
}

/// What a webhook with the events of the form would have been told of, where its button for that was pressed.
pub(crate) async fn tried<P>(act: &Act<P>, (field, id): (&str, &Value)) -> Result<Option<Tried>, Problem> {
    if act.form.get("try").is_none() {
        return Ok(None);
    }
    // it looks at what webhooks were told of
    act.visit.may.caller.must(Permission::ReadWebhooks)?;
    let mut body = body(&act.form);
    body.insert(field.to_owned(), id.clone());
    subscription::try_out(act.visit.services(), act.visit.scope(), body.into()).await.map(Some)
}

/// The fields, with the button that tries them.
pub(crate) fn fields<P>(visit: &Visit<P>, form: &Asked, tried: Option<&Tried>) -> Markup {
    let refused = &visit.refused;
    html! {
        // what Enter presses: the first button
        button type="submit" hidden {}
        (options(form, refused, "event", "Event", SUBSCRIBABLE.iter().map(|name| (*name, *name)).chain([("", "several, checked below")])))
        details open[form.get("event").is_none()] {
            summary { "Several events" }
            @for kind in TYPES {
                label.switch-box {
                    input type="checkbox" name="events" value=(kind.name) checked[form.all("events").any(|event| event == kind.name)];
                    code { (kind.name) } span.muted { (kind.when) }
                }
            }
            @if let Some(wrong) = refused.message("events") { span.wrong { (full(wrong)) } }
        }
        details open[["criteria", "select"].iter().any(|name| form.get(name).is_some()) || tried.is_some()] {
            summary { "Only some of these events, or a part of each" }
            (checked(form, refused, "criteria", "Criteria: {\"data.fields.quantity\": {\"lte\": 5}}", "text"))
            (checked(form, refused, "select", "Fields that are sent: quantity, warehouse; empty: all", "text"))
            @if visit.can(Permission::ReadWebhooks) { button type="submit" name="try" value="1" { "Try" } }
            @if let Some(tried) = tried { (shown(tried)) }
        }
    }
}

/// What matched, and the beginning of it.
fn shown(tried: &Tried) -> Markup {
    html! {
        p role="status" {
            @if tried.looked == 0 { "No such event is among the newest that webhooks of this e-shop, or organisation, were told of." }
            @else { (number(tried.matched)) " of the newest " (counted(tried.looked, "event", "events")) " match." }
        }
        @for example in &tried.examples { pre.wrapped tabindex="0" { code { (example.get()) } } }
    }
}

/// The details of a page that say it.
pub(crate) fn details(event: &str, criteria: Option<&Value>, selected: Option<&[String]>) -> Markup {
    html! {
        div { dt { "Event" } dd { code { (event) } } }
        @if let Some(criteria) = criteria { div { dt { "Criteria" } dd { code { (criteria) } } } }
        @if let Some(names) = selected { div { dt { "Sent" } dd { "ids and business keys" @for name in names { ", " code { (name) } } } } }
    }
}
