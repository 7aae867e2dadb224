//! Orders: the search, what needs attention, and the details of one order.

pub(super) mod attention;
pub(super) mod bulk;
pub(super) mod control;
mod deed;
pub(super) mod edit;
pub(super) mod list;
pub(super) mod waits;

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use http::StatusCode;
use longshore_domain::list::fields::expedition::{ExpeditionStatus as Status, HandoverState};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use longshore_operate::order::inspection::{self, Inspection, Item, Order, PARCELS, Parcel};
use longshore_operate::timeline::Wanted;
use maud::{Markup, html};
use serde_json::Value;

use self::control::Operation;
use super::form::Refused;
use super::layout::Section;
use super::live::{self, Parts};
use super::piece::{self, full_time, none, number, state, time};
use super::timeline::{self, Period};
use super::visit::Visit;
use super::wms::SET_BACK;

/// `GET /console/order/{id}`.
pub(super) async fn show(Id(id): Id<ExpeditionId>, visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let (wanted, refused) = Refused::of(wanted(&visit))?;
    let found = find(&visit, id, &wanted).await?;
    let mut content = html! {
        p.trail { a href="/console/order" { "Orders" } " / " (piece::eshop(found.order.eshop_id, &found.order.eshop)) }
    };
    for (id, part) in parts_of(&visit, &found, &refused) {
        content = html! { (content) div #(id) { (part) } };
    }
    let title = format!("Order {}", found.order.number);
    let live = visit.asked.address(&format!("/console/order/{id}/live"), &["done", "count"], &[]);
    let has_ended = matches!(found.order.status, Status::Delivered | Status::Canceled);
    if !refused.is_empty() {
        let page = visit.page(Section::Orders, &title, &content);
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    Ok(if has_ended {
        visit.page(Section::Orders, &title, &content)
    } else {
        visit.live_page(Section::Orders, &title, &live, &content)
    })
}

async fn find(visit: &Visit<permit::Read>, id: ExpeditionId, wanted: &Wanted) -> Result<Inspection, Problem> {
    let found = inspection::inspect(visit.db(), visit.scope(), id, wanted).await?;
    let mut found = found.ok_or_else(|| Problem::not_found("expedition"))?;
    if !visit.can(Permission::ReadAudit) {
        found.timeline.only_statuses();
    }
    Ok(found)
}

/// What of the timeline the visitor may see and asks for. A reader of an order sees how its status changed.
fn wanted(visit: &Visit<permit::Read>) -> Result<Wanted, Problem> {
    let Period { since, until } = timeline::period(&visit.asked)?;
    Ok(Wanted {
        audit: true,
        deliveries: visit.can(Permission::ReadWebhooks),
        since,
        until,
        ..Wanted::default()
    })
}

/// `GET /console/order/{id}/live`.
pub(super) async fn follow(Id(id): Id<ExpeditionId>, mut visit: Visit<permit::Read>) -> Response {
    visit.subject = Some(id.get());
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::Read>) -> Result<Parts, Problem> {
    let id = visit.subject.ok_or_else(|| Problem::not_found("expedition"))?;
    let found = find(visit, id.into(), &wanted(visit)?).await?;
    Ok(parts_of(visit, &found, &Refused::default()))
}

fn parts_of(visit: &Visit<permit::Read>, found: &Inspection, refused: &Refused) -> Parts {
    let now = visit.now();
    vec![
        ("standing".into(), standing(visit, found, now)),
        ("waits".into(), waits::draw(found, visit.can(Permission::WriteExpeditions), now)),
        ("items".into(), items(found)),
        ("parcels".into(), parcels(found, now)),
        ("history".into(), history(visit, found, refused, now)),
    ]
}

/// What happened to it.
fn history(visit: &Visit<permit::Read>, found: &Inspection, refused: &Refused, now: DateTime<Utc>) -> Markup {
    let id = found.order.id;
    html! {
        (timeline::draw(&visit.asked, refused, &format!("/console/order/{id}"), id.get(), &found.timeline, now))
        @if visit.can(Permission::ReadWebhooks) && found.listeners == 0 {
            p.muted { "No webhook of the e-shop listens to orders. No event of this order is sent." }
        }
    }
}

fn standing(visit: &Visit<permit::Read>, found: &Inspection, now: DateTime<Utc>) -> Markup {
    let order = &found.order;
    html! {
        header.title {
            h1 { "Order " (order.number) }
            (state(order.status))
            (controls(visit, order))
        }
        @if visit.can(Permission::ReadAudit) { p.trail { a href={"/console/audit?entity=" (order.id)} { "Audit" } } }
        p { (where_it_is(order)) " " span.muted { "Since " (full_time(order.status_since, now)) "." } }
        (errors(order))
        dl.facts {
            div { dt { "Pieces" } dd { (number(order.pieces)) } }
            div { dt { "Items" } dd { (number(i64::try_from(found.items.len()).unwrap_or(i64::MAX))) } }
            div { dt { "Priority" } dd { (order.priority) } }
            div { dt { "Packed" } dd { (piece::time_or_none(order.packed_at, now)) } }
            div { dt { "Left" } dd { (piece::time_or_none(order.sent_at, now)) } }
            div { dt { "Delivered" } dd { (piece::time_or_none(order.delivered_at, now)) } }
        }
        dl.details {
            div { dt { "E-shop" } dd { (piece::eshop(order.eshop_id, &order.eshop)) ", " (piece::organisation(order.organisation_id, &order.organisation)) } }
            div { dt { "External id" } dd { (text(order.external_id.as_deref())) } }
            div { dt { "Shipped from" } dd { (order.warehouse) ", " (wms(visit, order)) } }
            div { dt { "Carrier" } dd { (text(order.carrier.as_deref())) @if let Some(service) = &order.carrier_service { ", " (service) }
                @if let Some(position) = order.chosen_by { " " span.muted { "chosen by " a href={"/console/preference?organisation=" (order.organisation_id)} { "the preference at position " (position) } } } } }
            @if order.handover.is_some() || order.contents_unknown.is_some() {
                div { dt { "Hand-over" } dd { (handover(order, now)) } }
            }
            div { dt { "Delivered to" } dd { (text(order.country.as_deref())) } }
            div { dt { "Tracking" } dd { (text(order.tracking_number.as_deref())) } }
            div { dt { "To leave on" } dd { @match order.required_date { Some(date) => (date), None => (none()) } } }
            div { dt { "Created" } dd { (full_time(order.created_at, now)) } }
            div { dt { "Version" } dd { (order.version) " " span.muted { "changed " (time(order.changed_at, now)) } } }
        }
    }
}

/// Its wms, with the page of its setting for those who may read it.
fn wms(visit: &Visit<permit::Read>, order: &Order) -> Markup {
    html! {
        @if visit.can(Permission::ReadWmsSettings) { a href={"/console/wms/" (order.wms_id)} { (order.wms) } } @else { (order.wms) }
    }
}

/// Where its hand-over to the system of the warehouse is.
fn handover(order: &Order, now: DateTime<Utc>) -> Markup {
    let what = order.handover.map(|state| match state {
        HandoverState::Pending => "Due: the warehouse has not been called.",
        HandoverState::Sending if order.handover_error.is_some() => "Called; the warehouse has not taken it.",
        HandoverState::Sending => "Called; the warehouse has not answered.",
        HandoverState::Accepted => "The warehouse has it.",
        HandoverState::Withdrawing => "Asked back; the warehouse has not answered.",
        HandoverState::Refused => "The warehouse refused it.",
        HandoverState::Withdrawn => "The warehouse has given it back.",
    });
    let doubt = order.contents_unknown.map(|is_there| {
        if is_there {
            "It may have other items or another address there: ask the warehouse."
        } else {
            "The database was set back, and the warehouse may have it: it is asked before the order is held, cancelled or handed over."
        }
    });
    html! {
        @if let Some(what) = what { (what) " " }
        @if order.is_set_back { span.refused { (SET_BACK) } " " }
        @if let Some(doubt) = doubt { span.refused { (doubt) } }
        @if let Some(since) = order.handover_since { " " span.muted { "Since " (time(since, now)) "." } }
        @if let Some(error) = &order.handover_error { " " span.refused { (error) } }
        @if let Some(next) = order.handover_next_attempt_at.filter(|_| order.handover_attempts > Some(0)) {
            " " span.muted { "Next call " (time(next, now)) "." }
        }
        span.muted {
            @if let Some(number) = order.handover_number { " Number " (number) "." }
            @if let Some(id) = &order.wms_internal_id { " The warehouse calls it " (id) "." }
        }
    }
}

/// The operations that are possible now, for those who may.
fn controls(visit: &Visit<permit::Read>, order: &Order) -> Markup {
    let possible: Vec<_> = Operation::ALL
        .into_iter()
        .filter(|operation| operation.is_possible(order) && visit.can(operation.permission()))
        .collect();
    let is_open = order.status.is_editable() || order.status.is_amendable(order.handover);
    let can_edit = is_open && visit.can(Permission::WriteExpeditions);
    html! {
        @if can_edit || !possible.is_empty() {
            div.buttons {
                @if can_edit { a.button href={"/console/order/" (order.id) "/edit"} { "Edit" } }
                @for operation in possible {
                    a.button
                        .primary[operation.is_next(order.status)]
                        .danger[operation.is_grave()]
                        href={"/console/order/" (order.id) "/" (operation.path())} data-ask="" { (operation.button()) }
                }
            }
        }
    }
}

/// Where an order is, in a sentence.
fn where_it_is(order: &Order) -> Markup {
    let sentence = match order.status {
        Status::OnHold => "It is on hold: it has not been sent, or was taken back.",
        Status::Incorrect => "It was sent and refused. Correct it, and send it again.",
        Status::AwaitingReservation if order.is_paused => {
            "Its reservation is paused: it is passed over until it is booked again."
        }
        Status::AwaitingReservation => "It is sent, and its turn has not come.",
        Status::WaitingForGoods => "It waits for goods.",
        Status::StockOk => "All of it is booked. It waits for its confirmation.",
        Status::AwaitingProcessing
            if matches!(order.handover, Some(HandoverState::Pending | HandoverState::Sending)) =>
        {
            "All of it is booked. The system of the warehouse has not taken it."
        }
        Status::AwaitingProcessing => "All of it is booked. The warehouse can begin.",
        Status::TakeOut => "The warehouse is picking it.",
        Status::Completion => "The warehouse is packing it.",
        Status::WaitingForTheCarrier => "It is packed, and waits for the carrier.",
        Status::CarrierPickedUp => "It is on its way.",
        Status::ReadyToTakeover => "It is at the pickup place.",
        Status::ProbablyDelivered => {
            "It was on its way, and nothing more was heard of it: it was probably delivered."
        }
        Status::Delivered => "It is delivered.",
        Status::WaitingForCancel => "Cancelling was asked for. The warehouse has not answered.",
        Status::Canceled => "It is cancelled.",
    };
    html! {
        strong { (sentence) }
        @if order.expedited_completely == Some(false) { " " span.refused { "Not everything that was ordered was packed." } }
    }
}

fn errors(order: &Order) -> Markup {
    let errors: Vec<&Value> = order.errors.iter().filter_map(Value::as_array).flatten().collect();
    html! {
        @if !errors.is_empty() {
            div.error {
                strong { @if order.status == Status::Incorrect { "Errors" } @else { "Errors of the last time it was sent" } }
                ul {
                    @for error in &errors {
                        li {
                            @if let Some(path) = error["propertyPath"].as_str().filter(|path| !path.is_empty()) { code { (path) } " " }
                            (error["message"].as_str().unwrap_or_default())
                            @if let Some(code) = error["code"].as_str() { " " span.muted { (code) } }
                        }
                    }
                }
            }
        }
    }
}

fn text(text: Option<&str>) -> Markup {
    html! { @match text { Some(text) => (text), None => (none()) } }
}

fn items(found: &Inspection) -> Markup {
    let status = found.order.status;
    html! {
        section aria-labelledby="items-title" {
            h2 #items-title { "Items" }
            div.scroll tabindex="0" role="region" aria-label="Items, table" {
                table.stack {
                    thead { tr {
                        th { "SKU" } th { "Product" } th.number { "Ordered" } th.number { "Booked" } th.number { "Missing" } th.number { "Packed" }
                        th { "Of bundle" }
                    } }
                    tbody { @for item in &found.items { (item_row(item, status)) } }
                }
            }
        }
    }
}

fn item_row(item: &Item, status: Status) -> Markup {
    let missing = item.missing(status);
    html! {
        tr {
            td.name { @match &item.sku {
                Some(sku) => a href={"/console/product/" (item.product)} { strong { (sku) } },
                None => strong { "deleted product" },
            } }
            td.name { (item.name.as_deref().unwrap_or_default()) }
            td.number data-label="Ordered" { (number(item.quantity)) }
            td.number data-label="Booked" { (number(item.booked(status))) }
            td.number data-label="Missing" { @match missing {
                Some(0) => "0",
                Some(missing) => span.refused { (number(missing)) },
                None => (none()),
            } }
            td.number data-label="Packed" { @match item.expedited { Some(packed) => (number(packed)), None => (none()) } }
            td.name data-label="Of bundle" { (text(item.bundle.as_deref())) }
        }
    }
}

fn parcels(found: &Inspection, now: DateTime<Utc>) -> Markup {
    if found.parcels.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="parcels-title" {
            h2 #parcels-title { "Parcels" }
            @if i64::try_from(found.parcels.len()).is_ok_and(|shown| shown >= PARCELS) { p.muted { "The first " (PARCELS) "." } }
            div.scroll tabindex="0" role="region" aria-label="Parcels, table" {
                table.stack {
                    thead { tr { th { "Parcel" } th { "Tracking number" } th { "Carrier's number" } th { "Address" } th { "Reported" } } }
                    tbody { @for parcel in &found.parcels { (parcel_row(parcel, now)) } }
                }
            }
        }
    }
}

fn parcel_row(parcel: &Parcel, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.name { strong { (parcel.number) } }
            td.name data-label="Tracking number" { (text(parcel.tracking_number.as_deref())) }
            td.name data-label="Carrier's number" { (text(parcel.carrier_tracking_number.as_deref())) }
            // as text: the address comes from others
            td.text data-label="Address" { (text(parcel.tracking_url.as_deref())) }
            td data-label="Reported" { (time(parcel.created_at, now)) }
        }
    }
}
