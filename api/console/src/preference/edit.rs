//! Creating and changing a carrier preference. Both go through the use-cases of the API.

use axum::response::Response;
use longshore_domain::record;
use longshore_domain::shipping::preference::CarrierPreference;
use longshore_http::extract::{Failure, Id};
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_operate::preference::{self, Choices};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Acting, Asking, CHANGED, HERE, condition, find, of};
use crate::form::{Asked, Refused, VERSION, integer, unchanged};
use crate::layout::Section;
use crate::piece::{alert, checked, empty, options, switch};
use crate::visit::{Done, done};

/// The fields of the form besides the conditions, as the body of the API names them.
const FIELDS: [&str; 5] = ["eshop", "position", "active", "carrier", "carrierService"];

/// A page of an organisation's preference.
struct Page<'p> {
    organisation: OrganisationId,
    /// Its path, and what its button says.
    action: &'p str,
    button: &'p str,
    title: &'p str,
}

impl Page<'_> {
    async fn show(&self, visit: &Asking, form: &Asked) -> Result<Response, Problem> {
        let choices = choices(visit, self.organisation).await?;
        let back = of(self.organisation);
        let fields = html! {
            input type="hidden" name="organisation" value=(self.organisation);
            (fields(&choices, form, &visit.refused))
        };
        let content = html! {
            p.trail { a href=(back) { "Carrier preferences" } " / " (choices.organisation) }
            h1 { (self.title) }
            (visit.form(self.action, self.button, &back, &fields))
        };
        Ok(visit.page(Section::Warehouses, self.title, &content))
    }
}

async fn choices(visit: &Asking, organisation: OrganisationId) -> Result<Choices, Problem> {
    let found = preference::choices(visit.db(), visit.scope(), organisation).await?;
    found.ok_or_else(|| Problem::not_found("organisation"))
}

/// `GET /console/preference/new`: without an organisation, which one, unless there is only one.
pub(crate) async fn new(mut visit: Asking) -> Result<Response, Failure> {
    let organisation = match visit.asked.id("organisation")? {
        Some(organisation) => organisation,
        None => match visit.scope().organisations() {
            Some([organisation]) => *organisation,
            _ => return Ok(which(&visit).await?),
        },
    };
    let next = choices(&visit, organisation).await?.next;
    let form = visit.filled(Asked::of(vec![("active", "true".to_owned()), ("position", next.to_string())]));
    let page = Page {
        organisation,
        action: "/console/preference/new",
        button: "Create",
        title: "New carrier preference",
    };
    Ok(page.show(&visit, &form).await?)
}

async fn which(visit: &Asking) -> Result<Response, Problem> {
    let organisations = preference::organisations(visit.db(), visit.scope()).await?;
    let organisations: Vec<(String, String)> =
        organisations.into_iter().map(|(id, name)| (id.to_string(), name)).collect();
    let words = organisations.iter().map(|(id, name)| (id.as_str(), name.as_str()));
    let content = html! {
        p.trail { a href=(HERE) { "Carrier preferences" } " / new" }
        h1 { "New carrier preference" }
        @if organisations.is_empty() {
            (empty("No organisation.", "Organisations are created with the API."))
        } @else {
            form.editor method="get" action={(HERE) "/new"} {
                fieldset {
                    legend { "For which organisation" }
                    (options(&Asked::default(), &Refused::default(), "organisation", "Organisation", words))
                }
                div.buttons { button.primary type="submit" { "Continue" } a.button href=(HERE) { "Back" } }
            }
        }
    };
    Ok(visit.page(Section::Warehouses, "New carrier preference", &content))
}

/// `POST /console/preference/new`.
pub(crate) async fn create(act: Acting) -> Result<Response, Failure> {
    let organisation: OrganisationId = act
        .form
        .id("organisation")?
        .ok_or_else(|| Problem::violation("organisation", "required", "is required"))?;
    let mut body = body(&act.form);
    body.insert("organisation".to_owned(), json!(organisation));
    record::create::<CarrierPreference>(act.visit.services(), &act.visit.may, body.into()).await?;
    Ok(done(&of(organisation), Done::PreferenceStored, None))
}

/// `GET /console/preference/{id}/edit`.
pub(crate) async fn edit(Id(id): Id, mut visit: Asking) -> Result<Response, Failure> {
    let found = find(&visit, id).await?;
    let mut fields = vec![
        (VERSION, found.version.to_string()),
        ("eshop", found.eshop_id.map(|id| id.to_string()).unwrap_or_default()),
        ("position", found.position.to_string()),
        ("active", found.active.to_string()),
        ("carrier", choice(found.carrier_id, found.service_id)),
    ];
    fields.extend(condition::shown(&found.conditions));
    let form = visit.filled(Asked::of(fields));
    let (organisation, action) = (found.organisation_id, format!("{HERE}/{id}/edit"));
    let page = Page { organisation, action: &action, button: "Store", title: "Edit the carrier preference" };
    Ok(page.show(&visit, &form).await?)
}

/// `POST /console/preference/{id}/edit`.
pub(crate) async fn store(Id(id): Id, act: Acting) -> Result<Response, Failure> {
    let visit = &act.visit;
    let found = find(visit, id).await?;
    let version = act.form.version();
    let mut body = body(&act.form);
    // what is shown and may no longer be given stays: a carrier that the organisation cannot use any more
    if act.form.get("carrier") == Some(choice(found.carrier_id, found.service_id).as_str()) {
        body.remove("carrier");
        body.remove("carrierService");
    }
    let check = unchanged(version, CHANGED);
    record::update::<CarrierPreference>(visit.services(), &visit.may, id, body.into(), check).await?;
    Ok(done(&of(found.organisation_id), Done::PreferenceStored, None))
}

/// A carrier and a service of it, as one option of the form: without script, no list follows another.
pub(crate) fn choice(carrier: Uuid, service: Option<Uuid>) -> String {
    service.map_or_else(|| carrier.to_string(), |service| format!("{carrier} {service}"))
}

/// The body of the API that a form says, without its organisation.
fn body(form: &Asked) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("eshop".to_owned(), json!(form.get("eshop")));
    // what is no number is refused by the rule of the API, at its path
    let position = form.get("position").map(integer);
    body.extend(position.map(|position| ("position".to_owned(), position)));
    body.insert("active".to_owned(), json!(form.get("active") == Some("true")));
    let chosen = form.get("carrier").unwrap_or_default();
    let (carrier, service) = chosen.split_once(' ').map_or((chosen, None), |(one, other)| (one, Some(other)));
    if !carrier.is_empty() {
        body.insert("carrier".to_owned(), json!(carrier));
    }
    body.insert("carrierService".to_owned(), json!(service));
    body.insert("conditions".to_owned(), condition::body(form));
    body
}

fn fields(choices: &Choices, form: &Asked, refused: &Refused) -> Markup {
    let names: Vec<&str> =
        FIELDS.into_iter().filter(|name| *name != "carrierService").chain(condition::FIELDS).collect();
    let eshops: Vec<(String, &str)> =
        choices.eshops.iter().map(|(id, name)| (id.to_string(), name.as_str())).collect();
    let eshops =
        [("", "every e-shop")].into_iter().chain(eshops.iter().map(|(id, name)| (id.as_str(), *name)));
    let carriers = carriers(choices, form, "choose a carrier", false);
    let carriers = carriers.iter().map(|(value, text)| (value.as_str(), text.as_str()));
    html! {
        input type="hidden" name=(VERSION) value=[form.get(VERSION)];
        (alert(refused, &names))
        fieldset {
            legend { "Preference" }
            (options(form, refused, "eshop", "For the orders of", eshops))
            (checked(form, refused, "position", "Position: the lowest is looked at first", "number"))
            (options(form, refused, "carrier", "Carrier, and its service", carriers))
            (switch(form, "active", "Active"))
        }
        (condition::fields(form, refused))
    }
}

/// What can be chosen, with what is chosen, which may no longer be possible, and with no carrier, where that can be chosen or is.
pub(crate) fn carriers(
    choices: &Choices,
    form: &Asked,
    none: &str,
    is_optional: bool,
) -> Vec<(String, String)> {
    let mut carriers: Vec<(String, String)> = choices
        .carriers
        .iter()
        .map(|carrier| {
            let name = carrier
                .service
                .as_ref()
                .map_or_else(|| carrier.name.clone(), |service| format!("{}, {service}", carrier.name));
            (choice(carrier.id, carrier.service_id), name)
        })
        .collect();
    let chosen = form.get("carrier");
    if let Some(chosen) = chosen.filter(|chosen| carriers.iter().all(|(value, _)| value != chosen)) {
        carriers.insert(0, (chosen.to_owned(), "as stored: can no longer be used".to_owned()));
    }
    if is_optional || chosen.is_none() {
        carriers.insert(0, (String::new(), none.to_owned()));
    }
    carriers
}
