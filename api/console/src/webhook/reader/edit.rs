//! Creating, changing and deleting a reader. All go through the use-cases of the API.

use axum::response::Response;
use longshore_domain::list::fields::event_reader::EVENT_READER;
use longshore_domain::webhook::reader;
use longshore_domain::webhook::subscription::Tried;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::ids::{EshopId, EventReaderId, OrganisationId};
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{HERE, find};
use crate::form::{Asked, VERSION, unchanged};
use crate::layout::Section;
use crate::piece::{alert, checked};
use crate::visit::{Act, Done, Question, Visit, done};
use crate::webhook::choice::{self, Of, text};

type Asking = Visit<permit::WriteReaders>;
type Acting = Act<permit::WriteReaders>;

/// The fields of the form, as the body of the API names them.
const FIELDS: [&str; 5] = ["name", "event", "events", "criteria", "select"];

/// `GET /console/eshop/{id}/reader`.
pub(crate) async fn new(Id(id): Id<EshopId>, visit: Asking) -> Result<Response, Failure> {
    let of = Of::eshop(&visit, id).await?;
    Ok(page_of_empty(visit, &of))
}

/// `GET /console/organisation/{id}/reader`.
pub(crate) async fn new_of_all(Id(id): Id<OrganisationId>, visit: Asking) -> Result<Response, Failure> {
    let of = Of::organisation(&visit, id).await?;
    Ok(page_of_empty(visit, &of))
}

fn page_of_empty(mut visit: Asking, of: &Of) -> Response {
    let form = visit.filled(Asked::of(vec![("event", "*".to_owned())]));
    page_of_new(&visit, of, &form, None)
}

fn page_of_new(visit: &Asking, of: &Of, form: &Asked, tried: Option<&Tried>) -> Response {
    of.page_of_new(visit, "reader", &fields(visit, form, tried))
}

/// `POST /console/eshop/{id}/reader`.
pub(crate) async fn create(Id(id): Id<EshopId>, act: Acting) -> Result<Response, Failure> {
    let of = Of::eshop(&act.visit, id).await?;
    create_of(&act, &of).await
}

/// `POST /console/organisation/{id}/reader`.
pub(crate) async fn create_of_all(Id(id): Id<OrganisationId>, act: Acting) -> Result<Response, Failure> {
    let of = Of::organisation(&act.visit, id).await?;
    create_of(&act, &of).await
}

async fn create_of(act: &Acting, of: &Of) -> Result<Response, Failure> {
    let (field, id) = of.member();
    if let Some(tried) = choice::tried(act, (field, &id)).await? {
        return Ok(page_of_new(&act.visit, of, &act.form, Some(&tried)));
    }
    let mut body = body(&act.form);
    body.insert(field.to_owned(), id);
    let answer = reader::create(act.visit.services(), &act.visit.may, body.into()).await?;
    let made: Value =
        serde_json::from_str(answer.body.as_deref().unwrap_or("{}")).map_err(Problem::internal)?;
    let page = format!("{HERE}/{}", made["id"].as_str().unwrap_or_default());
    Ok(done(&page, Done::ReaderStored, None))
}

/// `GET /console/reader/{id}/edit`.
pub(crate) async fn edit(Id(id): Id<EventReaderId>, mut visit: Asking) -> Result<Response, Failure> {
    let stored = choice::stored(&visit, &EVENT_READER, id).await?;
    let filled = [VERSION, "name"].map(|name| (name, text(&stored[name])));
    let form = visit.filled(Asked::of(filled.into_iter().chain(choice::filled(&stored)).collect()));
    Ok(page_of_stored(&visit, id, &form, &stored, None))
}

fn page_of_stored(
    visit: &Asking,
    id: EventReaderId,
    form: &Asked,
    stored: &Value,
    tried: Option<&Tried>,
) -> Response {
    let (back, name) = (format!("{HERE}/{id}"), stored["name"].as_str().unwrap_or_default());
    let content = html! {
        p.trail { a href=(HERE) { "Readers" } " / " a href=(back) { (name) } " / edit" }
        h1 { "Edit the reader" }
        (visit.form(&format!("{back}/edit"), "Store", &back, &fields(visit, form, tried)))
    };
    visit.page(Section::Webhooks, "Edit the reader", &content)
}

/// `POST /console/reader/{id}/edit`.
pub(crate) async fn store(Id(id): Id<EventReaderId>, act: Acting) -> Result<Response, Failure> {
    let stored = choice::stored(&act.visit, &EVENT_READER, id).await?;
    if let Some(tried) = choice::tried(&act, choice::of_stored(&stored)).await? {
        return Ok(page_of_stored(&act.visit, id, &act.form, &stored, Some(&tried)));
    }
    let version = act.form.version();
    let check =
        unchanged(version, "the reader was changed since this form was opened: check it, and send it again");
    let body = body(&act.form).into();
    reader::update(act.visit.services(), &act.visit.may, id, body, check).await?;
    Ok(done(&format!("{HERE}/{id}"), Done::ReaderStored, None))
}

/// The body of the API that a form says.
fn body(form: &Asked) -> Map<String, Value> {
    let mut body = choice::body(form);
    body.insert("name".to_owned(), json!(form.get("name").unwrap_or_default()));
    body
}

fn fields(visit: &Asking, form: &Asked, tried: Option<&Tried>) -> Markup {
    let refused = &visit.refused;
    html! {
        @if let Some(version) = form.get(VERSION) { input type="hidden" name=(VERSION) value=(version); }
        (alert(refused, &FIELDS))
        fieldset {
            legend { "Events" }
            (checked(form, refused, "name", "Name", "text"))
            (choice::fields(visit, form, tried))
        }
    }
}

/// `GET /console/reader/{id}/delete`.
pub(crate) async fn ask_delete(Id(id): Id<EventReaderId>, visit: Asking) -> Result<Response, Failure> {
    let found = find(&visit, id).await?;
    let page = format!("{HERE}/{id}");
    let question = Question {
        title: "Delete the reader?",
        explanation: html! {
            p { strong { (found.name) } " of " (found.whose()) "." }
            p { "Its place is lost." }
        },
        button: "Delete the reader",
        is_grave: true,
        action: &format!("{page}/delete"),
        back: &page,
        fields: html! {},
    };
    Ok(visit.ask(Section::Webhooks, &question))
}

/// `POST /console/reader/{id}/delete`.
pub(crate) async fn delete(Id(id): Id<EventReaderId>, act: Acting) -> Result<Response, Failure> {
    reader::delete(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(HERE, Done::ReaderDeleted, None))
}
