//! Creating and changing a webhook, and rotating its secret. All go through the use-cases of the API.

use axum::response::Response;
use longshore_domain::list;
use longshore_domain::list::fields::subscription::WEBHOOK;
use longshore_domain::webhook::event::{SUBSCRIBABLE, TYPES};
use longshore_domain::webhook::subscription::{self, Tried};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::answer::Answer;
use longshore_kernel::ids::{EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_operate::{eshop, organisation};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::form::{Asked, VERSION, full, integer, unchanged};
use crate::layout::Section;
use crate::piece::{alert, checked, counted, number, options, switch};
use crate::secret::{self, Once};
use crate::visit::{Act, Done, Visit, done};

type Asking = Visit<permit::WriteWebhooks>;
type Acting = Act<permit::WriteWebhooks>;

/// The fields of the form, as the body of the API names them.
const FIELDS: [&str; 14] = [
    "event",
    "events",
    "criteria",
    "select",
    "destination",
    "maxInFlight",
    "ordered",
    "batch.maxEvents",
    "batch.maxWaitMs",
    "maxPerSecond",
    "authentication.type",
    "authentication.username",
    "authentication.password",
    "authentication.token",
];

/// What a new webhook is told of: an e-shop, or an organisation.
struct Of {
    /// Its field of the API, and of the address of its page.
    field: &'static str,
    id: Uuid,
    name: String,
}

impl Of {
    async fn eshop(visit: &Asking, id: EshopId) -> Result<Self, Problem> {
        let found = eshop::find(visit.db(), visit.scope(), id).await?;
        let name = found.ok_or_else(|| Problem::not_found("e-shop"))?.name;
        Ok(Self { field: "eshop", id: id.get(), name })
    }

    async fn organisation(visit: &Asking, id: OrganisationId) -> Result<Self, Problem> {
        let found = organisation::find(visit.db(), visit.scope(), id).await?;
        let name = found.ok_or_else(|| Problem::not_found("organisation"))?.name;
        Ok(Self { field: "organisation", id: id.get(), name })
    }

    fn page(&self) -> String {
        format!("/console/{}/{}", self.field, self.id)
    }

    fn member(&self) -> (&'static str, Value) {
        (self.field, json!(self.id))
    }
}

/// `GET /console/eshop/{id}/webhook`.
pub(crate) async fn new(Id(id): Id<EshopId>, visit: Asking) -> Result<Response, Failure> {
    let of = Of::eshop(&visit, id).await?;
    Ok(page_of_empty(visit, &of))
}

/// `GET /console/organisation/{id}/webhook`.
pub(crate) async fn new_of_all(Id(id): Id<OrganisationId>, visit: Asking) -> Result<Response, Failure> {
    let of = Of::organisation(&visit, id).await?;
    Ok(page_of_empty(visit, &of))
}

fn page_of_empty(mut visit: Asking, of: &Of) -> Response {
    let form = visit.filled(Asked::of(vec![("event", "*".to_owned()), ("maxInFlight", "16".to_owned())]));
    page_of_new(&visit, of, &form, None)
}

fn page_of_new(visit: &Asking, of: &Of, form: &Asked, tried: Option<&Tried>) -> Response {
    let back = of.page();
    let content = html! {
        p.trail { a href=(back) { (of.name) } " / new webhook" }
        h1 { "New webhook of " (of.name) @if of.field == "organisation" { ", all e-shops" } }
        (visit.form(&format!("{back}/webhook"), "Create", &back, &fields(visit, form, None, tried)))
    };
    visit.page(Section::Webhooks, "New webhook", &content)
}

/// `POST /console/eshop/{id}/webhook`: the only page that shows the secret.
pub(crate) async fn create(Id(id): Id<EshopId>, act: Acting) -> Result<Response, Failure> {
    let of = Of::eshop(&act.visit, id).await?;
    create_of(&act, &of).await
}

/// `POST /console/organisation/{id}/webhook`: the only page that shows the secret.
pub(crate) async fn create_of_all(Id(id): Id<OrganisationId>, act: Acting) -> Result<Response, Failure> {
    let of = Of::organisation(&act.visit, id).await?;
    create_of(&act, &of).await
}

async fn create_of(act: &Acting, of: &Of) -> Result<Response, Failure> {
    let (field, id) = of.member();
    if let Some(tried) = tried(act, (field, &id)).await? {
        return Ok(page_of_new(&act.visit, of, &act.form, Some(&tried)));
    }
    let mut body = body(&act.form, None);
    body.insert(field.to_owned(), id);
    let body = Value::from(body);
    let answer = secret::act_once(act, &format!("{}/webhook", of.page()), &body, async |context| {
        subscription::create(act.visit.services(), context, body.clone()).await
    })
    .await?;
    Ok(shows_secret(&act.visit, &answer, "The webhook is created")?)
}

/// `GET /console/webhook/{id}/edit`.
pub(crate) async fn edit(Id(id): Id<WebhookId>, mut visit: Asking) -> Result<Response, Failure> {
    let stored = stored(&visit, id).await?;
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let names = [VERSION, "event", "criteria", "destination", "maxInFlight", "maxPerSecond", "ordered"];
    let selected =
        stored["select"].as_array().map(|names| names.iter().map(text).collect::<Vec<_>>().join(", "));
    // an empty field means all of them; this one is sent in any case
    let selected = selected.map(|names| if names.is_empty() { "id".to_owned() } else { names });
    let several = stored["events"].as_array().filter(|_| stored["event"].is_null());
    let events = several.into_iter().flatten().map(|event| ("events", text(event)));
    let batch = [("batch.maxEvents", "/batch/maxEvents"), ("batch.maxWaitMs", "/batch/maxWaitMs")];
    let batch = batch.map(|(name, path)| (name, stored.pointer(path).map(text).unwrap_or_default()));
    let filled = names.iter().map(|name| (*name, text(&stored[*name]))).chain(batch).chain(events);
    let filled = filled.chain(selected.map(|names| ("select", names)));
    let form = visit.filled(Asked::of(filled.collect()));
    Ok(page_of_stored(&visit, id, &form, &stored, None))
}

fn page_of_stored(
    visit: &Asking,
    id: WebhookId,
    form: &Asked,
    stored: &Value,
    tried: Option<&Tried>,
) -> Response {
    let (back, destination) =
        (format!("/console/webhook/{id}"), stored["destination"].as_str().unwrap_or_default());
    let content = html! {
        p.trail { a href="/console/webhook" { "Webhooks" } " / " a href=(back) { (destination) } " / edit" }
        h1 { "Edit the webhook" }
        (visit.form(&format!("{back}/edit"), "Store", &back, &fields(visit, form, Some(stored), tried)))
    };
    visit.page(Section::Webhooks, "Edit the webhook", &content)
}

/// The stored webhook, as the API shows it: all of the same version.
async fn stored(visit: &Asking, id: WebhookId) -> Result<Value, Problem> {
    let found = list::find(&visit.db().main, &WEBHOOK, visit.scope(), id).await?;
    let found = found.ok_or_else(|| Problem::not_found("webhook"))?;
    serde_json::from_str(&found.json).map_err(Problem::internal)
}

/// `POST /console/webhook/{id}/edit`.
pub(crate) async fn store(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    let stored = stored(&act.visit, id).await?;
    let field = if stored["eshop"].is_null() { "organisation" } else { "eshop" };
    if let Some(tried) = tried(&act, (field, &stored[field])).await? {
        return Ok(page_of_stored(&act.visit, id, &act.form, &stored, Some(&tried)));
    }
    let version = act.form.version();
    let check =
        unchanged(version, "the webhook was changed since this form was opened: check it, and send it again");
    let body = body(&act.form, stored.get("authentication")).into();
    subscription::update(act.visit.services(), &act.visit.may, id, body, check).await?;
    Ok(done(&format!("/console/webhook/{id}"), Done::WebhookStored, None))
}

/// What a webhook with the events of the form would have been told of, where its button for that was pressed.
async fn tried(act: &Acting, (field, id): (&str, &Value)) -> Result<Option<Tried>, Problem> {
    if act.form.get("try").is_none() {
        return Ok(None);
    }
    let mut body = choice(&act.form);
    body.insert(field.to_owned(), id.clone());
    subscription::try_out(act.visit.services(), act.visit.scope(), body.into()).await.map(Some)
}

/// The members of the body of the API that say of which events it is.
fn choice(form: &Asked) -> Map<String, Value> {
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

/// The body of the API that a form says. What is left empty of the authentication stays as it is stored.
fn body(form: &Asked, stored: Option<&Value>) -> Map<String, Value> {
    let mut body = choice(form);
    body.insert("destination".to_owned(), json!(form.get("destination").unwrap_or_default()));
    body.extend(form.get("maxInFlight").map(|most| ("maxInFlight".to_owned(), integer(most))));
    let batch = [("maxEvents", "batch.maxEvents"), ("maxWaitMs", "batch.maxWaitMs")];
    let batch =
        batch.into_iter().filter_map(|(name, field)| Some((name.to_owned(), integer(form.get(field)?))));
    let batch = Some(batch.collect::<Map<_, _>>()).filter(|batch| !batch.is_empty());
    // as JSON has it: neither infinite nor no number, which would be null
    let rate = form.get("maxPerSecond").map(|text| text.parse().map_or_else(|_| json!(text), Value::Number));
    body.insert("maxPerSecond".to_owned(), rate.unwrap_or_default());
    body.insert("batch".to_owned(), batch.map_or(Value::Null, Value::from));
    body.insert("ordered".to_owned(), json!(form.get("ordered") == Some("true")));
    let given = secret::given(form, "authentication", stored);
    body.extend(given.map(|given| ("authentication".to_owned(), Value::from(given))));
    body
}

fn fields(visit: &Asking, form: &Asked, stored: Option<&Value>, tried: Option<&Tried>) -> Markup {
    let refused = &visit.refused;
    html! {
        @if stored.is_some() { input type="hidden" name=(VERSION) value=[form.get(VERSION)]; } @else { (secret::one_time_key(visit)) }
        (alert(refused, &FIELDS))
        // what Enter presses: the first button
        button type="submit" hidden {}
        fieldset {
            legend { "Destination" }
            (checked(form, refused, "destination", "Address", "url"))
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
                button type="submit" name="try" value="1" { "Try" }
                @if let Some(tried) = tried { (shown(tried)) }
            }
        }
        fieldset {
            legend { "Delivery" }
            (checked(form, refused, "maxInFlight", "Calls at once", "number"))
            (checked(form, refused, "maxPerSecond", "Calls a second, 0.1 to 1,000; empty: any number", "text"))
            (switch(form, "ordered", "In order: one at a time, and a failure holds the rest"))
            (checked(form, refused, "batch.maxEvents", "Events a call, up to 500", "number"))
            (checked(form, refused, "batch.maxWaitMs", "The first waits for others, ms", "number"))
            p.muted { "Without a number, each event has a call of its own. With 100, the receiver gets batches: 10,000 changes arrive in 100 calls." }
        }
        (secret::credentials(visit, form, stored, ["authentication", "Authentication", "Kind"]))
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

/// `GET /console/webhook/{id}/rotate`.
pub(crate) async fn ask_rotate(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let found = visit.webhook(id).await?;
    let calls = html! { "Calls to " code { (found.destination) } };
    Ok(secret::ask_rotate(&visit, Section::Webhooks, &format!("/console/webhook/{id}"), &calls))
}

/// `POST /console/webhook/{id}/rotate`: the only page that shows the new secret.
pub(crate) async fn rotate(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    let answer =
        secret::act_once(&act, &format!("/console/webhook/{id}/rotate"), &Value::Null, async |context| {
            subscription::rotate_secret(act.visit.services(), context, id).await
        })
        .await?;
    Ok(shows_secret(&act.visit, &answer, "The secret is rotated")?)
}

/// The page that shows a secret, once.
fn shows_secret(visit: &Asking, answer: &Answer, title: &str) -> Result<Response, Problem> {
    let shown: Value =
        serde_json::from_str(answer.body.as_deref().unwrap_or("{}")).map_err(Problem::internal)?;
    let page = format!("/console/webhook/{}", shown["id"].as_str().unwrap_or_default());
    let about = "This is its secret, with which receivers verify signatures.";
    Once { title, about, next: (&page, "To the webhook") }.page(visit, Section::Webhooks, answer)
}
