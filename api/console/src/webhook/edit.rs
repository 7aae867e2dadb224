//! Creating and changing a webhook, and rotating its secret. All go through the use-cases of the API.

use axum::response::Response;
use longshore_domain::list::fields::subscription::WEBHOOK;
use longshore_domain::webhook::subscription::{self, Tried};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::answer::Answer;
use longshore_kernel::ids::{EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::form::{Asked, VERSION, integer, unchanged};
use crate::layout::Section;
use crate::piece::{alert, checked, switch};
use crate::secret::{self, Once};
use crate::visit::{Act, Done, Visit, done};
use crate::webhook::choice::{self, Of, text};

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
    of.page_of_new(visit, "webhook", &fields(visit, form, None, tried))
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
    if let Some(tried) = choice::tried(act, (field, &id)).await? {
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
    let stored = choice::stored(&visit, &WEBHOOK, id).await?;
    let names = [VERSION, "destination", "maxInFlight", "maxPerSecond", "ordered"];
    let batch = [("batch.maxEvents", "/batch/maxEvents"), ("batch.maxWaitMs", "/batch/maxWaitMs")];
    let batch = batch.map(|(name, path)| (name, stored.pointer(path).map(text).unwrap_or_default()));
    let filled = names.iter().map(|name| (*name, text(&stored[*name]))).chain(batch);
    let form = visit.filled(Asked::of(filled.chain(choice::filled(&stored)).collect()));
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

/// `POST /console/webhook/{id}/edit`.
pub(crate) async fn store(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    let stored = choice::stored(&act.visit, &WEBHOOK, id).await?;
    if let Some(tried) = choice::tried(&act, choice::of_stored(&stored)).await? {
        return Ok(page_of_stored(&act.visit, id, &act.form, &stored, Some(&tried)));
    }
    let version = act.form.version();
    let check =
        unchanged(version, "the webhook was changed since this form was opened: check it, and send it again");
    let body = body(&act.form, stored.get("authentication")).into();
    subscription::update(act.visit.services(), &act.visit.may, id, body, check).await?;
    Ok(done(&format!("/console/webhook/{id}"), Done::WebhookStored, None))
}

/// The body of the API that a form says. What is left empty of the authentication stays as it is stored.
fn body(form: &Asked, stored: Option<&Value>) -> Map<String, Value> {
    let mut body = choice::body(form);
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
        fieldset {
            legend { "Destination" }
            (checked(form, refused, "destination", "Address", "url"))
            (choice::fields(visit, form, tried))
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
