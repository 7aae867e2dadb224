//! What can be done with several orders at once: a job does it with each, in the order of the list.

use axum::response::Response;
use longshore_domain::expedition::bulk::accept;
use longshore_domain::job::kind::{
    CancelExpeditions, ProcessExpeditions, RollBackExpeditions, SendExpeditions,
};
use longshore_http::extract::Failure;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use maud::html;

use super::control::{Acting, Asking};
use super::deed::Deed;
use super::list::{HERE, kept};
use crate::form::Asked;
use crate::job;
use crate::layout::Section;
use crate::piece::{LONGEST, counted};
use crate::visit::{Done, Question, done};

fn chosen(asked: &Asked) -> Result<Vec<ExpeditionId>, Problem> {
    let ids = asked.ids("id")?;
    if (1..=LONGEST).contains(&ids.len()) {
        return Ok(ids);
    }
    Err(Problem::violation("", "invalid_count", format!("select 1 to {LONGEST} orders")))
}

fn ask(visit: &Asking, deed: Deed) -> Result<Response, Failure> {
    let ids = chosen(&visit.asked)?;
    let orders = counted(i64::try_from(ids.len()).unwrap_or(i64::MAX), "order", "orders");
    let (operation, verb) = (deed.operation(), deed.verb());
    let question = Question {
        title: &format!("{verb} {orders}?"),
        explanation: html! { p { (deed.says()) } p { "A job does it with each. The page of the job lists those that their status does not allow." } },
        button: &format!("{verb} {orders}"),
        is_grave: operation.is_grave(),
        action: &format!("{HERE}/{}", operation.path()),
        back: &visit.asked.address(HERE, &["id"], &[]),
        fields: html! { @for id in &ids { input type="hidden" name="id" value=(id); } (kept(&visit.asked)) },
    };
    Ok(visit.ask(Section::Orders, &question))
}

async fn run(act: &Acting, deed: Deed) -> Result<Response, Failure> {
    let (services, context) = (act.visit.services(), &act.visit.may);
    let ids = chosen(&act.form)?;
    let answer = match deed {
        Deed::Send => accept(services, context, SendExpeditions, ids).await?,
        Deed::Process => accept(services, context, ProcessExpeditions, ids).await?,
        Deed::Hold => accept(services, context, RollBackExpeditions, ids).await?,
        Deed::Cancel => accept(services, context, CancelExpeditions, ids).await?,
    };
    Ok(done(&job::page(&answer)?, Done::OrdersRunning, None))
}

/// `GET /console/order/send?id=…`.
pub(crate) async fn ask_send(visit: Asking) -> Result<Response, Failure> {
    ask(&visit, Deed::Send)
}

/// `POST /console/order/send`.
pub(crate) async fn send(act: Acting) -> Result<Response, Failure> {
    run(&act, Deed::Send).await
}

/// `GET /console/order/process?id=…`.
pub(crate) async fn ask_process(visit: Asking) -> Result<Response, Failure> {
    ask(&visit, Deed::Process)
}

/// `POST /console/order/process`.
pub(crate) async fn process(act: Acting) -> Result<Response, Failure> {
    run(&act, Deed::Process).await
}

/// `GET /console/order/rollback?id=…`.
pub(crate) async fn ask_rollback(visit: Asking) -> Result<Response, Failure> {
    ask(&visit, Deed::Hold)
}

/// `POST /console/order/rollback`.
pub(crate) async fn rollback(act: Acting) -> Result<Response, Failure> {
    run(&act, Deed::Hold).await
}

/// `GET /console/order/cancel?id=…`.
pub(crate) async fn ask_cancel(visit: Asking) -> Result<Response, Failure> {
    ask(&visit, Deed::Cancel)
}

/// `POST /console/order/cancel`.
pub(crate) async fn cancel(act: Acting) -> Result<Response, Failure> {
    run(&act, Deed::Cancel).await
}
