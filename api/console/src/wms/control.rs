//! Testing, pausing and resuming the calls of a wms, and deleting its setting. All go through the use-cases of the API.

use axum::response::Response;
use longshore_domain::expedition::handover::setting::{store, trial};
use longshore_domain::expedition::news::lost;
use longshore_http::extract::{Failure, Id};
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_operate::wms::{LostOrder, lost_order};
use maud::html;
use serde_json::{Map, json};
use uuid::Uuid;

use super::edit::{Acting, Asking, page, stored};
use super::find;
use crate::connection;
use crate::form::unchanged;
use crate::layout::Section;
use crate::visit::{Done, Question, Visit, done};

/// A question about the calls of a wms.
async fn ask(
    visit: &Asking,
    id: WmsId,
    [verb, explanation, step]: [&str; 3],
    is_grave: bool,
) -> Result<Response, Failure> {
    let wms = find(visit, id).await?;
    let path = page(id);
    let question = Question {
        title: &format!("{verb} of {}?", wms.name),
        explanation: html! { p { (explanation) } },
        button: verb,
        is_grave,
        action: &format!("{path}/{step}"),
        back: &path,
        fields: html! {},
    };
    Ok(visit.ask(Section::Warehouses, &question))
}

/// `GET /console/wms/{id}/test`.
pub(crate) async fn ask_test(Id(id): Id<WmsId>, visit: Asking) -> Result<Response, Failure> {
    ask(&visit, id, ["Test the connection", connection::EXPLANATION, "test"], false).await
}

/// `POST /console/wms/{id}/test`.
pub(crate) async fn test(Id(id): Id<WmsId>, act: Acting) -> Result<Response, Failure> {
    trial::test(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(&page(id), Done::ConnectionTested, None))
}

/// `GET /console/wms/{id}/pause`.
pub(crate) async fn ask_pause(Id(id): Id<WmsId>, visit: Asking) -> Result<Response, Failure> {
    let said = "Its system is not called until the calls are resumed. Calls under way end. Orders become due as before, and wait; so do orders that are asked back.";
    ask(&visit, id, ["Pause the calls", said, "pause"], false).await
}

/// `POST /console/wms/{id}/pause`.
pub(crate) async fn pause(Id(id): Id<WmsId>, act: Acting) -> Result<Response, Failure> {
    set_paused(&act, id, true).await?;
    Ok(done(&page(id), Done::WmsPaused, None))
}

/// `GET /console/wms/{id}/resume`.
pub(crate) async fn ask_resume(Id(id): Id<WmsId>, visit: Asking) -> Result<Response, Failure> {
    let said = "Its system is called again, at once.";
    ask(&visit, id, ["Resume the calls", said, "resume"], false).await
}

/// `POST /console/wms/{id}/resume`.
pub(crate) async fn resume(Id(id): Id<WmsId>, act: Acting) -> Result<Response, Failure> {
    set_paused(&act, id, false).await?;
    Ok(done(&page(id), Done::WmsResumed, None))
}

async fn set_paused(act: &Acting, id: WmsId, is_paused: bool) -> Result<(), Problem> {
    let stored = stored(&act.visit, id).await?.ok_or_else(|| Problem::not_found("setting of the wms"))?;
    let mut body = Map::new();
    for name in ["active", "baseUrl", "credentials", "maxInFlight", "since"] {
        body.extend(stored.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    body.insert("paused".to_owned(), json!(is_paused));
    let version = stored["version"].as_i64();
    let check = unchanged(version, "the setting was changed at this moment: try again");
    store::store(act.visit.services(), &act.visit.may, id, body.into(), check).await?;
    Ok(())
}

/// `GET /console/wms/{id}/delete`.
pub(crate) async fn ask_delete(Id(id): Id<WmsId>, visit: Asking) -> Result<Response, Failure> {
    let said = "Its system is not called any more, and its address, credentials and secret are removed. Orders of the wms go on by hand, also those that the warehouse has.";
    ask(&visit, id, ["Delete the setting", said, "delete"], true).await
}

/// `POST /console/wms/{id}/delete`.
pub(crate) async fn delete(Id(id): Id<WmsId>, act: Acting) -> Result<Response, Failure> {
    store::delete(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(&page(id), Done::WmsDeleted, None))
}

async fn lost_of<P>(visit: &Visit<P>, id: Uuid) -> Result<LostOrder, Problem> {
    lost_order(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("lost order"))
}

/// `GET /console/lost-order/{id}/dismiss`.
pub(crate) async fn ask_dismiss(Id(id): Id<Uuid>, visit: Asking) -> Result<Response, Failure> {
    let lost = lost_of(&visit, id).await?;
    let path = page(lost.wms);
    let said = "Only the warehouse has it. It is forgotten here, and nothing is asked of the warehouse: what it ships, it ships. A later report is kept again.";
    let question = Question {
        title: &format!("Dismiss order {}?", lost.expedition),
        explanation: html! { p { (said) } },
        button: "Dismiss",
        is_grave: false,
        action: &format!("/console/lost-order/{id}/dismiss"),
        back: &path,
        fields: html! {},
    };
    Ok(visit.ask(Section::Warehouses, &question))
}

/// `POST /console/lost-order/{id}/dismiss`.
pub(crate) async fn dismiss(Id(id): Id<Uuid>, act: Acting) -> Result<Response, Failure> {
    let lost = lost_of(&act.visit, id).await?;
    lost::dismiss(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(&page(lost.wms), Done::LostOrderDismissed, None))
}
