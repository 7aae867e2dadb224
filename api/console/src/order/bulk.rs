//! What can be done with several orders at once: a job does it with each, in the order of the list, or with all that match in turn.

use axum::response::Response;
use longshore_domain::expedition::bulk::accept;
use longshore_domain::job::chosen::Chosen;
use longshore_domain::job::kind::{
    CancelExpeditions, ProcessExpeditions, RollBackExpeditions, SendExpeditions,
};
use longshore_domain::list::fields::expedition::EXPEDITION;
use longshore_http::extract::{Failure, Segment};
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use maud::html;

use super::control::{Acting, Asking};
use super::deed::Deed;
use super::list::{HERE, SEARCH, criteria, wanted};
use crate::form::Asked;
use crate::layout::Section;
use crate::piece::{counted, kept};
use crate::visit::{Done, Question, done};
use crate::{bulk, job};

/// The orders of an operation: those that were selected, or all that match the search.
async fn chosen(visit: &Asking, asked: &Asked) -> Result<Chosen, Problem> {
    if asked.get("all").is_none() {
        return Ok(bulk::selected::<ExpeditionId>(asked, "orders")?.into());
    }
    let nothing =
        || Problem::violation("status", "required", "is required, and no other filter but the e-shop");
    bulk::matching(&EXPEDITION, criteria(&wanted(visit, asked).await?).ok_or_else(nothing)?, asked)
}

/// `GET /console/order/bulk/{deed}?id=…`, or `?all=true` with the search of the list.
pub(crate) async fn ask(Segment(deed): Segment, visit: Asking) -> Result<Response, Failure> {
    let deed = Deed::named(&deed)?;
    let chosen = chosen(&visit, &visit.asked).await?;
    let (count, fields) = bulk::counted(&visit, &chosen).await?;
    let orders = counted(count, "order", "orders");
    let (operation, verb) = (deed.operation(), deed.verb());
    let question = Question {
        title: &format!("{verb} {orders}?"),
        explanation: html! { p { (deed.says()) } p { "A job does it with each. The page of the job lists those that their status does not allow." } },
        button: &format!("{verb} {orders}"),
        is_grave: operation.is_grave(),
        action: &deed.address(),
        back: &visit.asked.address(HERE, &["id", "all", "expect"], &[]),
        fields: html! { (fields) (kept(&visit.asked, &SEARCH)) (bulk::try_first()) },
    };
    Ok(visit.ask(Section::Orders, &question))
}

/// `POST /console/order/bulk/{deed}`.
pub(crate) async fn run(Segment(deed): Segment, act: Acting) -> Result<Response, Failure> {
    let deed = Deed::named(&deed)?;
    let (services, context) = (act.visit.services(), &act.visit.may);
    let bulk = bulk::asked(&act.form, chosen(&act.visit, &act.form).await?);
    let answer = match deed {
        Deed::Send => accept(services, context, SendExpeditions, bulk).await?,
        Deed::Process => accept(services, context, ProcessExpeditions, bulk).await?,
        Deed::Hold => accept(services, context, RollBackExpeditions, bulk).await?,
        Deed::Cancel => accept(services, context, CancelExpeditions, bulk).await?,
    };
    Ok(done(&job::page(&answer)?, Done::OrdersRunning, None))
}
