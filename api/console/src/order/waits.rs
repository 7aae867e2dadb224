//! What a waiting order lacks, and shipping it from a place that has it.

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_domain::expedition::command::{self, Command};
use longshore_domain::expedition::edit;
use longshore_http::extract::{Failure, Id};
use longshore_kernel::ids::{ExpeditionId, WarehouseId, WmsId};
use longshore_kernel::problem::{Problem, WRONG_STATUS};
use longshore_operate::order::inspection::{AHEAD, Elsewhere, Inspection, LACKS, Order};
use longshore_operate::order::place::{self, Place};
use maud::{Markup, html};
use serde_json::json;

use super::control::{Acting, Asking, find, page};
use super::edit::CHANGED;
use crate::form::{Asked, VERSION, unchanged};
use crate::layout::Section;
use crate::piece::{empty, none, number, plain, time, up_to};
use crate::visit::{Done, Question, done};

/// What a waiting order lacks, when that comes, and where else it is.
pub(super) fn draw(found: &Inspection, may: bool, now: DateTime<Utc>) -> Markup {
    let order = &found.order;
    if !order.status.is_waiting() {
        return html! {};
    }
    html! {
        section aria-labelledby="waits-title" {
            h2 #waits-title { "Waits for" }
            @if order.is_paused {
                p { "Nothing: it is passed over until it is booked again, or taken back and sent." }
            } @else {
                p {
                    @match &order.waits_for {
                        Some(sku) => { "Looked at again when there is enough of " strong { (sku) } ". " }
                        None => {}
                    }
                    @match found.ahead {
                        0 => { "No order is served before it." }
                        1 => { "1 order that waits for the same is served before it." }
                        many => { (up_to(many, AHEAD)) " orders that wait for the same are served before it." }
                    }
                }
                @if order.is_marked { p { "The stock is marked: the allocator looks at it within a second." } }
            }
            @if found.lacks.is_empty() {
                (empty("Nothing is missing.", "There is enough of each product. Orders that are earlier in turn are served first."))
            } @else {
                (lacks(found, may, now))
                @if i64::try_from(found.lacks.len()).is_ok_and(|shown| shown >= LACKS) { p.muted { "The first " (LACKS) " missing products." } }
            }
        }
    }
}

fn lacks(found: &Inspection, may: bool, now: DateTime<Utc>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Missing products, table" {
            table.stack {
                thead { tr { th { "SKU" } th.number { "Needed" } th.number { "Free here" } th { "On its way" } th { "Elsewhere" } } }
                tbody {
                    @for lack in &found.lacks {
                        tr {
                            td.name { a href={"/console/product/" (lack.product)} { strong { (lack.sku) } } }
                            td.number data-label="Needed" { (number(lack.needed)) }
                            td.number data-label="Free here" { (number(lack.free)) }
                            td.text data-label="On its way" {
                                @if lack.advices.is_empty() { "No open stock advice announces it." }
                                @for advice in &lack.advices {
                                    div {
                                        (number(advice.open)) " expected on " (advice.expected_at.format("%Y-%m-%d")) " "
                                        span.muted { "(" (time(advice.expected_at, now)) ", advice " (advice.internal_id) ", " (plain(&advice.status)) ")" }
                                    }
                                }
                            }
                            td.text data-label="Elsewhere" {
                                @if lack.elsewhere.is_empty() { (none()) }
                                @for stock in &lack.elsewhere {
                                    div {
                                        (number(stock.free)) " free in " (stock.warehouse) ", " (stock.wms) ". "
                                        @if may && stock.is_served { (button(&found.order, stock)) }
                                    }
                                }
                                @if !lack.elsewhere.is_empty() { div.muted { "Stock in another place does not serve this order." } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Ships the order from a place that has what it lacks.
fn button(order: &Order, stock: &Elsewhere) -> Markup {
    let asked = Asked::of(vec![
        ("warehouse", stock.warehouse_id.to_string()),
        ("wms", stock.wms_id.to_string()),
        (VERSION, order.version.to_string()),
    ]);
    let address = asked.address(&format!("/console/order/{}/ship-from", order.id), &[], &[]);
    html! { a.button href=(address) data-ask="" { "Ship from " (stock.warehouse) } }
}

/// The place that a form names, if the e-shop of the order is shipped from there.
async fn other_place(visit: &Asking, asked: &Asked, order: &Order) -> Result<Place, Problem> {
    let (warehouse, wms): (Option<WarehouseId>, Option<WmsId>) = (asked.id("warehouse")?, asked.id("wms")?);
    let places = place::of_eshop(visit.db(), visit.scope(), order.eshop_id).await?;
    let is_asked = |place: &Place| (Some(place.warehouse_id), Some(place.wms_id)) == (warehouse, wms);
    places.into_iter().find(is_asked).ok_or_else(|| {
        Problem::violation(
            "warehouse",
            "unknown_reference",
            "must be a place that the e-shop is shipped from",
        )
    })
}

/// `GET /console/order/{id}/ship-from?warehouse=…&wms=…`.
pub(crate) async fn ask_ship_from(Id(id): Id<ExpeditionId>, visit: Asking) -> Result<Response, Failure> {
    let order = find(&visit, id).await?;
    let to = other_place(&visit, &visit.asked, &order).await?;
    let back = page(id);
    let version = visit.asked.version().unwrap_or(order.version);
    let question = Question {
        title: &format!("Ship order {} from {}?", order.number, to.warehouse),
        explanation: html! {
            p { "It leaves " (order.warehouse) ", " (order.wms) ", is shipped from " strong { (to.warehouse) ", " (to.wms) } ", and is sent again. It keeps its turn." }
            p { "What it has booked is given back. If something is missing there, it waits for it." }
        },
        button: &format!("Ship from {}", to.warehouse),
        is_grave: false,
        action: &format!("{back}/ship-from"),
        back: &back,
        fields: html! {
            input type="hidden" name=(VERSION) value=(version);
            input type="hidden" name="warehouse" value=(to.warehouse_id);
            input type="hidden" name="wms" value=(to.wms_id);
        },
    };
    Ok(visit.ask(Section::Orders, &question))
}

/// `POST /console/order/{id}/ship-from`: a sent order is held, changed and sent again, as the API does it.
pub(crate) async fn ship_from(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    let (visit, services) = (&act.visit, act.visit.services());
    let order = find(visit, id).await?;
    let to = other_place(visit, &act.form, &order).await?;
    unchanged(act.form.version(), CHANGED)(order.version)?;
    if !order.status.is_waiting() {
        let status = plain(order.status.as_str());
        let detail = format!("only an order that waits is moved like this, and its status is \"{status}\"");
        return Err(Problem::new(&WRONG_STATUS, detail).into());
    }
    command::run(services, &visit.may, id, &Command::Rollback).await?;
    let body = json!({"warehouse": to.warehouse_id, "wms": to.wms_id});
    let moved = edit::update(services, &visit.may, id, body, |_| Ok(())).await;
    // whatever came of the change, the order goes on
    command::run(services, &visit.may, id, &Command::Send { rebook: false }).await?;
    moved?;
    Ok(done(&page(id), Done::OrderMoved, None))
}
