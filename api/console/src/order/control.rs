//! The operations on an order, each after a confirmation.

use axum::response::Response;
use longshore_domain::expedition::command::{self, Command, REASON_LENGTH};
use longshore_domain::expedition::{edit, progress};
use longshore_domain::list::fields::expedition::ExpeditionStatus as Status;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::answer::Outcome;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use longshore_operate::order::inspection::{self, Order};
use maud::{Markup, html};
use serde_json::json;

use super::where_it_is;
use crate::layout::Section;
use crate::piece::{options, plain, worded};
use crate::visit::{Act, Done, Question, Visit, done};

pub(super) type Asking = Visit<permit::WriteExpeditions>;
pub(super) type Acting = Act<permit::WriteExpeditions>;

/// What can be done with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    Process,
    Report,
    Rebook,
    Unbook,
    Rollback,
    Cancel,
    Delete,
}

impl Operation {
    /// All of them, in the order of their buttons.
    pub(super) const ALL: [Self; 8] = [
        Self::Send,
        Self::Process,
        Self::Report,
        Self::Rebook,
        Self::Unbook,
        Self::Rollback,
        Self::Cancel,
        Self::Delete,
    ];

    /// The last part of its URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Process => "process",
            Self::Report => "status",
            Self::Rebook => "rebook",
            Self::Unbook => "unbook",
            Self::Rollback => "rollback",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
        }
    }

    /// The label of its buttons.
    pub(super) fn button(self) -> &'static str {
        match self {
            Self::Send => "Send",
            Self::Process => "Confirm",
            Self::Report => "Report status",
            Self::Rebook => "Rebook",
            Self::Unbook => "Unbook",
            Self::Rollback => "Hold",
            Self::Cancel => "Cancel order",
            Self::Delete => "Delete",
        }
    }

    /// Whether it cannot be undone.
    pub(super) fn is_grave(self) -> bool {
        matches!(self, Self::Cancel | Self::Delete)
    }

    /// What it asks of the visitor.
    pub(super) fn permission(self) -> Permission {
        match self {
            Self::Report => Permission::ReportExpeditions,
            _ => Permission::WriteExpeditions,
        }
    }

    /// Whether it is the usual next step.
    pub(super) fn is_next(self, status: Status) -> bool {
        match self {
            Self::Send => status.is_editable(),
            Self::Process => status == Status::StockOk,
            Self::Report => status.place().is_some(),
            _ => false,
        }
    }

    /// Whether the status of an order allows it. The use-case decides; this only leaves out buttons.
    pub(super) fn is_possible(self, order: &Order) -> bool {
        let status = order.status;
        let is_asked_back = status == Status::WaitingForCancel;
        let has_ended = status == Status::Canceled || status.is_packed();
        let is_begun = status.is_handed_over(order.handover) && status != Status::AwaitingProcessing;
        match self {
            Self::Send => status.is_editable(),
            Self::Process => status == Status::StockOk,
            Self::Report => !reportable(status).is_empty(),
            Self::Rebook => status.is_waiting() || status == Status::StockOk,
            Self::Unbook => (status.is_waiting() && !order.is_paused) || status == Status::StockOk,
            Self::Rollback => status != Status::OnHold && !has_ended && !is_begun,
            // a warehouse that keeps a cancelled one can be asked again
            Self::Cancel => {
                (!has_ended && !is_asked_back)
                    || (status == Status::Canceled && order.contents_unknown == Some(true))
            }
            Self::Delete => {
                (status.is_editable() || status == Status::Canceled) && order.contents_unknown.is_none()
            }
        }
    }
}

/// The statuses that can be reported of an order, the next one first.
fn reportable(status: Status) -> Vec<Status> {
    let Some(place) = status.place() else { return Vec::new() };
    let mut next = Status::LINE[place + 1..].to_vec();
    if !status.is_packed() {
        next.push(Status::Incorrect);
    }
    next
}

/// The fields of the operations, as the bodies of the API name them.
const FIELDS: [&str; 3] = ["reason", "status", "errors[0].message"];

/// Maximum characters of what is wrong with an order.
const MESSAGE_LENGTH: usize = 255;

pub(super) fn page(id: ExpeditionId) -> String {
    format!("/console/order/{id}")
}

pub(super) async fn find<P>(visit: &Visit<P>, id: ExpeditionId) -> Result<Order, Problem> {
    inspection::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("expedition"))
}

async fn ask<P>(
    visit: &Visit<P>,
    id: ExpeditionId,
    operation: Operation,
    title: &str,
    explanation: Markup,
    fields: impl FnOnce(&Order) -> Markup,
) -> Result<Response, Failure> {
    let order = find(visit, id).await?;
    let back = page(id);
    let question = Question {
        title,
        explanation: html! {
            p { "Order " strong { (order.number) } " of " (order.eshop) ". " (where_it_is(&order)) }
            (explanation)
        },
        button: operation.button(),
        is_grave: operation.is_grave(),
        action: &format!("{back}/{}", operation.path()),
        back: &back,
        fields: fields(&order),
    };
    Ok(visit.ask_for(Section::Orders, &question, &FIELDS))
}

async fn run(act: &Acting, id: ExpeditionId, command: &Command, deed: Done) -> Result<Response, Failure> {
    let answer = command::run(act.visit.services(), &act.visit.may, id, command).await?;
    // the warehouse has it, and is asked to give it back
    let deed = if answer.outcome == Outcome::Accepted { Done::OrderAskedBack } else { deed };
    Ok(done(&page(id), deed, None))
}

fn no_fields(_: &Order) -> Markup {
    html! {}
}

/// `GET /console/order/{id}/send`.
pub(crate) async fn ask_send(Id(id): Id<ExpeditionId>, visit: Asking) -> Result<Response, Failure> {
    let said =
        html! { p { "It is checked, and booked if all of it is in stock. Otherwise it waits in its turn." } };
    ask(&visit, id, Operation::Send, "Send the order?", said, no_fields).await
}

/// `POST /console/order/{id}/send`.
pub(crate) async fn send(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    run(&act, id, &Command::Send { rebook: false }, Done::OrderSent).await
}

/// `GET /console/order/{id}/process`.
pub(crate) async fn ask_process(Id(id): Id<ExpeditionId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "All of it is booked. After the confirmation, the warehouse can begin." } };
    ask(&visit, id, Operation::Process, "Confirm the order?", said, no_fields).await
}

/// `POST /console/order/{id}/process`.
pub(crate) async fn process(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    run(&act, id, &Command::Process, Done::OrderProcessed).await
}

/// What becomes of an order that was handed over.
const ASKED_FIRST: &str = "If the system of the warehouse has the order, it is asked to give it back first. If it keeps the order, nothing changes.";

/// `GET /console/order/{id}/rollback`.
pub(crate) async fn ask_rollback(Id(id): Id<ExpeditionId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! {
        p { "Its pieces are given back, and other orders can get them. It keeps its turn, and can be changed and sent again." }
        p { (ASKED_FIRST) }
    };
    ask(&visit, id, Operation::Rollback, "Hold the order?", said, no_fields).await
}

/// `POST /console/order/{id}/rollback`.
pub(crate) async fn rollback(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    run(&act, id, &Command::Rollback, Done::OrderHeld).await
}

/// `GET /console/order/{id}/cancel`.
pub(crate) async fn ask_cancel(Id(id): Id<ExpeditionId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "Its pieces are given back. This cannot be undone." } p { (ASKED_FIRST) } };
    let field = |_: &Order| {
        worded(&visit.asked, &visit.refused, "reason", "Reason, for the audit (optional)", REASON_LENGTH)
    };
    ask(&visit, id, Operation::Cancel, "Cancel the order?", said, field).await
}

/// `POST /console/order/{id}/cancel`.
pub(crate) async fn cancel(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    let body = act.form.get("reason").map(|reason| json!({"reason": reason}));
    let command = command::read(body, command::cancel_body())?;
    run(&act, id, &command, Done::OrderCancelled).await
}

/// `GET /console/order/{id}/rebook`.
pub(crate) async fn ask_rebook(Id(id): Id<ExpeditionId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "Its pieces are given back, and it is booked again. If others wait for these pieces, it is served in turn." } };
    ask(&visit, id, Operation::Rebook, "Rebook the order?", said, no_fields).await
}

/// `POST /console/order/{id}/rebook`.
pub(crate) async fn rebook(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    run(&act, id, &Command::Rebook, Done::OrderRebooked).await
}

/// `GET /console/order/{id}/unbook`.
pub(crate) async fn ask_unbook(Id(id): Id<ExpeditionId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "Its pieces are given back, and it is passed over until it is booked again, or taken back and sent." } };
    ask(&visit, id, Operation::Unbook, "Unbook the order?", said, no_fields).await
}

/// `POST /console/order/{id}/unbook`.
pub(crate) async fn unbook(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    run(&act, id, &Command::Unbook, Done::OrderUnbooked).await
}

/// `GET /console/order/{id}/delete`.
pub(crate) async fn ask_delete(Id(id): Id<ExpeditionId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "The order is removed, and its number is free again. This cannot be undone." } };
    ask(&visit, id, Operation::Delete, "Delete the order?", said, no_fields).await
}

/// `POST /console/order/{id}/delete`.
pub(crate) async fn delete(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    edit::delete(act.visit.services(), &act.visit.may, id, |_| Ok(())).await?;
    Ok(done("/console/order", Done::OrderDeleted, None))
}

/// `GET /console/order/{id}/status`.
pub(crate) async fn ask_status(
    Id(id): Id<ExpeditionId>,
    visit: Visit<permit::ReportExpeditions>,
) -> Result<Response, Failure> {
    let said = html! {
        p { "Says what the warehouse did. From \"" (plain(Status::WaitingForTheCarrier.as_str())) "\" on, everything that was ordered leaves the stock. This cannot be undone." }
    };
    let fields = |order: &Order| {
        let next = reportable(order.status);
        let words: Vec<_> = next.iter().map(|status| (status.as_str(), plain(status.as_str()))).collect();
        html! {
            (options(&visit.asked, &visit.refused, "status", "Status", words.iter().map(|(word, text)| (*word, text.as_str()))))
            @if next.contains(&Status::Incorrect) {
                (worded(&visit.asked, &visit.refused, "errors[0].message", "What is wrong, for incorrect", MESSAGE_LENGTH))
            }
        }
    };
    ask(&visit, id, Operation::Report, "Report a status?", said, fields).await
}

/// `POST /console/order/{id}/status`.
pub(crate) async fn report(
    Id(id): Id<ExpeditionId>,
    act: Act<permit::ReportExpeditions>,
) -> Result<Response, Failure> {
    let mut body = json!({"status": act.form.get("status")});
    if let Some(message) = act.form.get("errors[0].message") {
        body["errors"] = json!([{"message": message}]);
    }
    progress::report(act.visit.services(), &act.visit.may, id, body, |_| Ok(())).await?;
    Ok(done(&page(id), Done::OrderReported, None))
}
