//! What can be done with several orders at once: a job does it with each, in the order of the list.

use axum::response::Response;
use longshore_domain::expedition::bulk::accept;
use longshore_domain::job::kind::{
    CancelExpeditions, ProcessExpeditions, RollBackExpeditions, SendExpeditions,
};
use longshore_http::extract::{Failure, Segment};
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

/// `GET /console/order/bulk/{deed}?id=…`.
pub(crate) async fn ask(Segment(deed): Segment, visit: Asking) -> Result<Response, Failure> {
    let deed = Deed::named(&deed)?;
    let ids = chosen(&visit.asked)?;
    let orders = counted(i64::try_from(ids.len()).unwrap_or(i64::MAX), "order", "orders");
    let (operation, verb) = (deed.operation(), deed.verb());
    let question = Question {
        title: &format!("{verb} {orders}?"),
        explanation: html! { p { (deed.says()) } p { "A job does it with each. The page of the job lists those that their status does not allow." } },
        button: &format!("{verb} {orders}"),
        is_grave: operation.is_grave(),
        action: &deed.address(),
        back: &visit.asked.address(HERE, &["id"], &[]),
        fields: html! { @for id in &ids { input type="hidden" name="id" value=(id); } (kept(&visit.asked)) },
    };
    Ok(visit.ask(Section::Orders, &question))
}

/// `POST /console/order/bulk/{deed}`.
pub(crate) async fn run(Segment(deed): Segment, act: Acting) -> Result<Response, Failure> {
    let deed = Deed::named(&deed)?;
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
