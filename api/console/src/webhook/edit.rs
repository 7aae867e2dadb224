//! Creating and changing a webhook, and rotating its secret. All go through the use-cases of the API.

use axum::response::Response;
use longshore_domain::list;
use longshore_domain::list::fields::subscription::WEBHOOK;
use longshore_domain::webhook::event::{SUBSCRIBABLE, TYPES};
use longshore_domain::webhook::subscription;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::answer::Answer;
use longshore_kernel::ids::{EshopId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_operate::eshop;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::form::{Asked, VERSION, full, integer, unchanged};
use crate::layout::Section;
use crate::piece::{self, alert, checked, options, switch};
use crate::secret::{self, Once};
use crate::visit::{Act, Done, Visit, done};

type Asking = Visit<permit::WriteWebhooks>;
type Acting = Act<permit::WriteWebhooks>;

/// The fields of the form, as the body of the API names them.
const FIELDS: [&str; 12] = [
    "event",
    "events",
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

/// `GET /console/eshop/{id}/webhook`.
pub(crate) async fn new(Id(id): Id<EshopId>, mut visit: Asking) -> Result<Response, Failure> {
    let form = visit.filled(Asked::of(vec![("event", "*".to_owned()), ("maxInFlight", "16".to_owned())]));
    let eshop =
        eshop::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("e-shop"))?;
    let back = format!("/console/eshop/{id}");
    let content = html! {
        p.trail { (piece::eshop(id, &eshop.name)) " / new webhook" }
        h1 { "New webhook of " (eshop.name) }
        (visit.form(&format!("{back}/webhook"), "Create", &back, &fields(&visit, &form, None)))
    };
    Ok(visit.page(Section::Webhooks, "New webhook", &content))
}

/// `POST /console/eshop/{id}/webhook`: the only page that shows the secret.
pub(crate) async fn create(Id(id): Id<EshopId>, act: Acting) -> Result<Response, Failure> {
    let mut body = body(&act.form, None);
    body.insert("eshop".to_owned(), json!(id));
    let body = Value::from(body);
    let answer = secret::act_once(&act, &format!("/console/eshop/{id}/webhook"), &body, async |context| {
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
    let names = [VERSION, "event", "destination", "maxInFlight", "maxPerSecond", "ordered"];
    let several = stored["events"].as_array().filter(|_| stored["event"].is_null());
    let events = several.into_iter().flatten().map(|event| ("events", text(event)));
    let batch = [("batch.maxEvents", "/batch/maxEvents"), ("batch.maxWaitMs", "/batch/maxWaitMs")];
    let batch = batch.map(|(name, path)| (name, stored.pointer(path).map(text).unwrap_or_default()));
    let filled = names.iter().map(|name| (*name, text(&stored[*name]))).chain(batch).chain(events);
    let form = visit.filled(Asked::of(filled.collect()));
    let (back, destination) = (format!("/console/webhook/{id}"), text(&stored["destination"]));
    let content = html! {
        p.trail { a href="/console/webhook" { "Webhooks" } " / " a href=(back) { (destination) } " / edit" }
        h1 { "Edit the webhook" }
        (visit.form(&format!("{back}/edit"), "Store", &back, &fields(&visit, &form, Some(&stored))))
    };
    Ok(visit.page(Section::Webhooks, "Edit the webhook", &content))
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
    let version = act.form.version();
    let check =
        unchanged(version, "the webhook was changed since this form was opened: check it, and send it again");
    let body = body(&act.form, stored.get("authentication")).into();
    subscription::update(act.visit.services(), &act.visit.may, id, body, check).await?;
    Ok(done(&format!("/console/webhook/{id}"), Done::WebhookStored, None))
}

/// The body of the API that a form says. What is left empty of the authentication stays as it is stored.
fn body(form: &Asked, stored: Option<&Value>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("destination".to_owned(), json!(form.get("destination").unwrap_or_default()));
    let (event, events) = (form.get("event"), form.all("events").collect::<Vec<_>>());
    // both, where both are chosen: the rule of the API refuses them, unless they say the same
    body.extend(event.map(|event| ("event".to_owned(), json!(event))));
    if event.is_none() || !events.is_empty() {
        body.insert("events".to_owned(), json!(events));
    }
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

fn fields(visit: &Asking, form: &Asked, stored: Option<&Value>) -> Markup {
    let refused = &visit.refused;
    html! {
        @if stored.is_some() { input type="hidden" name=(VERSION) value=[form.get(VERSION)]; } @else { (secret::one_time_key(visit)) }
        (alert(refused, &FIELDS))
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
