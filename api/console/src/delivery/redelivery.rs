//! Redelivery of one delivery, of selected ones, or of all that match a search.

use axum::response::Response;
use longshore_domain::job::chosen::Chosen;
use longshore_domain::list::fields::delivery::DELIVERY;
use longshore_domain::webhook::delivery::{self as deliveries, search};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_kernel::problem::Problem;
use maud::html;

use super::{all, find, wanted};
use crate::form::Asked;
use crate::layout::Section;
use crate::piece::{counted, kept, number};
use crate::visit::{Act, Done, Question, Visit, done};
use crate::{bulk, job, period};

type Asking = Visit<permit::WriteWebhooks>;
type Acting = Act<permit::WriteWebhooks>;

/// `GET /console/delivery/{id}/redeliver`.
pub(crate) async fn ask(Id(id): Id<DeliveryId>, visit: Asking) -> Result<Response, Failure> {
    let found = find(&visit, id).await?;
    let page = format!("/console/delivery/{id}");
    let question = Question {
        title: "Redeliver the event?",
        explanation: html! {
            p { "A new delivery of the same event goes to " code { (found.destination.as_deref().unwrap_or("its webhook")) }
                ", with the same " code { "webhook-id" } "." }
        },
        button: "Redeliver",
        is_grave: false,
        action: &format!("{page}/redeliver"),
        back: &page,
        fields: html! {},
    };
    Ok(visit.ask(Section::Deliveries, &question))
}

/// `POST /console/delivery/{id}/redeliver`.
pub(crate) async fn redeliver(Id(id): Id<DeliveryId>, act: Acting) -> Result<Response, Failure> {
    let found = find(&act.visit, id).await?;
    deliveries::redeliver(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(&format!("/console/webhook/{}", found.webhook_id), Done::Redelivered, Some(1)))
}

/// `GET /console/delivery/redeliver?id=…`, of any webhooks; or `?all=true` with the search of the list.
pub(crate) async fn ask_any(visit: Asking) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let search = asked.get("all").map(|_| period::fixed(asked, visit.now())).transpose()?;
    let chosen = chosen(&visit, search.as_ref().unwrap_or(asked)).await?;
    let (count, fields) = bulk::counted(&visit, &chosen).await?;
    let question = Question {
        title: &format!("Redeliver {}?", counted(count, "delivery", "deliveries")),
        explanation: html! { p { "A job sends each event again to the destination of its webhook." } },
        button: "Redeliver",
        is_grave: false,
        action: "/console/delivery/redeliver",
        back: &asked.address("/console/delivery", &["id", "all", "expect"], &[]),
        fields: html! { (fields) @if let Some(search) = &search { (kept(search, &all::FILTER)) } (bulk::try_first()) },
    };
    Ok(visit.ask(Section::Deliveries, &question))
}

/// Those that were selected, or all that match the search of the list.
async fn chosen(visit: &Asking, asked: &Asked) -> Result<Chosen, Problem> {
    if asked.get("all").is_none() {
        return Ok(selected(asked)?.into());
    }
    let without = || Problem::violation("state", "required", "must be a state in which deliveries end");
    let criteria = all::criteria(&all::wanted(visit, asked).await?).ok_or_else(without)?;
    bulk::matching(&DELIVERY, criteria, asked)
}

/// `POST /console/delivery/redeliver`.
pub(crate) async fn redeliver_any(act: Acting) -> Result<Response, Failure> {
    let chosen = chosen(&act.visit, &act.form).await?;
    let bulk = bulk::asked(&act.form, chosen);
    let answer = deliveries::accept(act.visit.services(), &act.visit.may, bulk).await?;
    Ok(done(&job::page(&answer)?, Done::Redelivering, None))
}

/// `GET /console/webhook/{id}/redeliver?id=…`.
pub(crate) async fn ask_selected(Id(webhook): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let found = visit.webhook(webhook).await?;
    let ids = selected(&visit.asked)?;
    let page = format!("/console/webhook/{webhook}");
    let question = Question {
        title: &format!("Redeliver {}?", counted(count_of(&ids), "delivery", "deliveries")),
        explanation: html! { p { "A job sends each event again to " code { (found.destination) } "." } },
        button: "Redeliver",
        is_grave: false,
        action: &format!("{page}/redeliver"),
        back: &page,
        fields: html! { @for id in &ids { input type="hidden" name="id" value=(id); } },
    };
    Ok(visit.ask(Section::Webhooks, &question))
}

/// `POST /console/webhook/{id}/redeliver`.
pub(crate) async fn redeliver_selected(Id(webhook): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    let ids = selected(&act.form)?;
    act.visit.webhook(webhook).await?;
    let answer = deliveries::accept(act.visit.services(), &act.visit.may, ids).await?;
    Ok(done(&job::page(&answer)?, Done::Redelivering, None))
}

fn selected(asked: &Asked) -> Result<Vec<DeliveryId>, Problem> {
    bulk::selected(asked, "deliveries")
}

fn count_of(ids: &[DeliveryId]) -> i64 {
    i64::try_from(ids.len()).unwrap_or(i64::MAX)
}

/// The fields of a search.
const CRITERIA: [&str; 5] = ["state", "event", "entity", "since", "until"];

/// `GET /console/webhook/{id}/redeliver-all?…`, with the criteria of the search.
pub(crate) async fn ask_matching(Id(webhook): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let found = visit.webhook(webhook).await?;
    let wanted = wanted(&visit, &visit.asked).await?;
    let count = search::count_matching(visit.db(), webhook, &wanted).await?;
    let page = format!("/console/webhook/{webhook}");
    if count == 0 {
        let said = "no matching delivery can be sent again";
        return Err(Problem::violation("", "invalid_count", said).into());
    }
    let title = if count >= search::COUNTED {
        format!("Redeliver {} deliveries or more?", number(search::COUNTED))
    } else {
        format!("Redeliver {}?", counted(count, "delivery", "deliveries"))
    };
    let question = Question {
        title: &title,
        explanation: html! {
            p { "A job sends all matching events again to " code { (found.destination) } ", each event once." }
            (bulk::filters(&visit.asked, &CRITERIA, "all deliveries that are kept"))
        },
        button: "Redeliver",
        is_grave: true,
        action: &format!("{page}/redeliver-all"),
        back: &page,
        fields: kept(&visit.asked, &CRITERIA),
    };
    Ok(visit.ask(Section::Webhooks, &question))
}

/// `POST /console/webhook/{id}/redeliver-all`.
pub(crate) async fn redeliver_matching(Id(webhook): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    act.visit.webhook(webhook).await?;
    let wanted = wanted(&act.visit, &act.form).await?;
    let answer = search::redeliver_matching(act.visit.services(), &act.visit.may, webhook, &wanted).await?;
    Ok(done(&job::page(&answer)?, Done::Redelivering, None))
}
