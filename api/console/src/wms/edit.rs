//! The setting of a wms: storing it, and rotating its secret. All go through the use-cases of the API.

use axum::response::Response;
use longshore_domain::expedition::handover::setting::body::IN_FLIGHT;
use longshore_domain::expedition::handover::setting::{self, rotation, store};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::answer::Answer;
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::find;
use crate::form::{Asked, VERSION, integer, unchanged};
use crate::layout::Section;
use crate::piece::{alert, checked, switch};
use crate::secret::{self, Once};
use crate::visit::{Act, Done, Visit, done};

pub(super) type Asking = Visit<permit::WriteWmsSettings>;
pub(super) type Acting = Act<permit::WriteWmsSettings>;

/// The fields of the form, as the body of the API names them.
const FIELDS: [&str; 9] = [
    "baseUrl",
    "active",
    "paused",
    "maxInFlight",
    "since",
    "credentials.type",
    "credentials.username",
    "credentials.password",
    "credentials.token",
];

/// What its secret is for.
const SECRET: &str = "This is the secret of its calls, with which the warehouse verifies their signatures.";

pub(super) fn page(id: WmsId) -> String {
    format!("/console/wms/{id}")
}

/// `GET /console/wms/{id}/edit`.
pub(crate) async fn edit(Id(id): Id<WmsId>, mut visit: Asking) -> Result<Response, Failure> {
    let stored = stored(&visit, id).await?;
    let form = visit.filled(shown(stored.as_ref()));
    let wms = find(&visit, id).await?;
    let waiting = setting::to_become_due(visit.services(), visit.scope(), id).await?;
    let title = format!("Hand-over of {}", wms.name);
    let path = page(id);
    let content = html! {
        p.trail { a href="/console/wms" { "Warehouses" } " / " a href=(path) { (wms.name) } " / setting" }
        h1 { (title) }
        (visit.form(&format!("{path}/edit"), "Store", &path, &fields(&visit, &form, stored.as_ref(), waiting)))
    };
    Ok(visit.page(Section::Warehouses, &title, &content))
}

/// `POST /console/wms/{id}/edit`: where it creates the setting, the only page that shows the secret.
pub(crate) async fn store(Id(id): Id<WmsId>, act: Acting) -> Result<Response, Failure> {
    let visit = &act.visit;
    let stored = stored(visit, id).await?;
    let version = act.form.version();
    let check =
        unchanged(version, "the setting was changed since this form was opened: check it, and send it again");
    let body = body(&act.form, stored.as_ref());
    let answer = store::store(visit.services(), &visit.may, id, body, check).await?;
    if stored.is_none() {
        return Ok(shows_secret(visit, id, "The wms is connected", &answer)?);
    }
    Ok(done(&page(id), Done::WmsStored, None))
}

/// The stored setting, as the API shows it.
pub(super) async fn stored(visit: &Asking, id: WmsId) -> Result<Option<Value>, Problem> {
    match setting::find(visit.services(), visit.scope(), id).await {
        Ok(answer) => {
            let body = answer.body.as_deref().unwrap_or("{}");
            serde_json::from_str(body).map(Some).map_err(Problem::internal)
        }
        // none is stored yet, or no longer; the wms is another thing
        Err(problem) if matches!(problem.kind().status, 404 | 410) => find(visit, id).await.map(|_| None),
        Err(problem) => Err(problem),
    }
}

/// The fields of a form that shows a setting; secrets are not shown.
fn shown(stored: Option<&Value>) -> Asked {
    let Some(stored) = stored else {
        return Asked::of(vec![("active", "true".to_owned()), ("maxInFlight", IN_FLIGHT.to_string())]);
    };
    let text = |name: &str| match &stored[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut shown: Vec<_> =
        [VERSION, "baseUrl", "active", "paused", "maxInFlight"].map(|name| (name, text(name))).into();
    shown.push(("since", since(stored).to_owned()));
    Asked::of(shown)
}

/// Since when orders are handed over, as the field of a form has it, in UTC.
fn since(stored: &Value) -> &str {
    stored["since"].as_str().and_then(|since| since.get(..19)).unwrap_or_default()
}

/// The body of the API that a form says. What is left empty of the credentials keeps the stored ones.
fn body(form: &Asked, stored: Option<&Value>) -> Value {
    let mut body = Map::new();
    for name in ["active", "paused"] {
        body.insert(name.to_owned(), json!(form.get(name) == Some("true")));
    }
    body.insert("baseUrl".to_owned(), json!(form.get("baseUrl").unwrap_or_default()));
    if let Some(text) = form.get("maxInFlight") {
        body.insert("maxInFlight".to_owned(), integer(text));
    }
    // left out, it stays as it is, to the microsecond
    let asked = form.get("since").unwrap_or_default();
    if asked != stored.map_or("", since) {
        body.insert("since".to_owned(), form.moment("since").map_or_else(|_| json!(asked), |at| json!(at)));
    }
    let stored = stored.and_then(|stored| stored.get("credentials"));
    let credentials = secret::given(form, "credentials", stored).map(Value::from).or_else(|| stored.cloned());
    body.extend(credentials.map(|credentials| ("credentials".to_owned(), credentials)));
    body.into()
}

fn fields(visit: &Asking, form: &Asked, stored: Option<&Value>, waiting: i64) -> Markup {
    let refused = &visit.refused;
    html! {
        input type="hidden" name=(VERSION) value=[form.get(VERSION)];
        (alert(refused, &FIELDS))
        fieldset {
            legend { "System of the warehouse" }
            p.muted { "Orders are handed over to this address. Before it leads to another system, ask back what the previous one has." }
            (checked(form, refused, "baseUrl", "Address", "url"))
            (checked(form, refused, "maxInFlight", "Calls at once", "number"))
            @if waiting > 0 {
                p {
                    "Orders that wait for this warehouse, and go on by hand: " strong { (waiting) }
                    ". Once orders are handed over, these are, too, but for those that were created before the time below."
                }
            }
            (switch(form, "active", "Hand orders over; otherwise they go on by hand"))
            (checked(form, refused, "since", "Orders created since (UTC); empty: all", "datetime-local"))
            (switch(form, "paused", "Paused: orders become due, and no call is made"))
        }
        (secret::credentials(visit, form, stored, ["credentials", "Credentials", "Kind"]))
    }
}

/// `GET /console/wms/{id}/rotate`.
pub(crate) async fn ask_rotate(Id(id): Id<WmsId>, visit: Asking) -> Result<Response, Failure> {
    let wms = find(&visit, id).await?;
    let calls = html! { "Calls of " strong { (wms.name) } };
    Ok(secret::ask_rotate(&visit, Section::Warehouses, &page(id), &calls))
}

/// `POST /console/wms/{id}/rotate`: the only page that shows the new secret.
pub(crate) async fn rotate(Id(id): Id<WmsId>, act: Acting) -> Result<Response, Failure> {
    let path = format!("{}/rotate", page(id));
    let answer = secret::act_once(&act, &path, &Value::Null, async |context| {
        rotation::rotate_secret(act.visit.services(), context, id).await
    })
    .await?;
    Ok(shows_secret(&act.visit, id, "The secret is rotated", &answer)?)
}

fn shows_secret(visit: &Asking, id: WmsId, title: &str, answer: &Answer) -> Result<Response, Problem> {
    Once { title, about: SECRET, next: (&page(id), "To the wms") }.page(visit, Section::Warehouses, answer)
}
