//! Orders and stocks that need attention.

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::Permission;
use longshore_operate as operate;
use longshore_operate::order::attention::{self, Attention, WAITING};
use maud::{Markup, html};

use crate::form::{Asked, CHARACTERS};
use crate::layout::Section;
use crate::piece::{empty, number, time, time_or_none, up_to};
use crate::visit::Visit;

/// `GET /console/order/attention`.
pub(crate) async fn show(visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let may = visit.can(Permission::ReadQueues);
    let (found, lines) = tokio::try_join!(attention::read(visit.db(), visit.scope()), async {
        if may {
            operate::attention::of_orders(visit.services(), visit.scope()).await.map(Some)
        } else {
            Ok(None)
        }
    })?;
    let now = visit.now();
    let content = html! {
        p.trail { a href="/console/order" { "Orders" } " / needs attention" }
        h1 { "What needs attention" }
        @if let Some(lines) = &lines { (crate::attention::of_orders(&visit, lines)) }
        (silent(&found, visit.can(Permission::ReadWmsSettings), now))
        (refused(&found, now))
        (awaited(&found, now))
        (marked(&found, now))
        (short(&found))
    };
    Ok(visit.page(Section::Orders, "Orders that need attention", &content))
}

fn section(id: &str, title: &str, name: &str, head: &Markup, rows: &[Markup], otherwise: &Markup) -> Markup {
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (title) }
            @if rows.is_empty() {
                (otherwise)
            } @else {
                div.scroll tabindex="0" role="region" aria-label=(name) {
                    table.stack { thead { (head) } tbody { @for row in rows { (row) } } }
                }
            }
        }
    }
}

fn silent(found: &Attention, linked: bool, now: DateTime<Utc>) -> Markup {
    let head = html! { tr {
        th { "Warehouse" } th { "System" } th.number { "Orders waiting" } th { "Waits longest" } th.number { "Cancels unanswered" }
    } };
    let row = |warehouse: &attention::Silent| {
        html! {
            tr {
                td.name { strong { @if linked { a href={"/console/wms/" (warehouse.wms_id)} { (warehouse.wms) } } @else { (warehouse.wms) } } " " span.muted { (warehouse.organisation) } }
                td.text {
                    @if warehouse.is_paused { "Paused. " }
                    @match warehouse.failing_since {
                        Some(since) => { span.refused { "Failing " (time(since, now)) } },
                        None => "Answers",
                    }
                    @if let Some(error) = &warehouse.error { ": " (error) }
                }
                td.number data-label="Orders waiting" { (up_to(warehouse.waiting, WAITING)) }
                td data-label="Waits longest" { (time_or_none(warehouse.waiting_since, now)) }
                td.number data-label="Cancels unanswered" {
                    @match warehouse.first_unanswered {
                        Some(first) => a href={"/console/order/" (first)} { (up_to(warehouse.unanswered, WAITING)) },
                        None => "0",
                    }
                }
            }
        }
    };
    let rows: Vec<_> = found.silent.iter().map(row).collect();
    let otherwise = empty(
        "Every warehouse answers.",
        "A warehouse is listed here if its system fails, has kept an order waiting for five minutes, or has not answered a cancel for an hour.",
    );
    section("silent-title", "Hand-over", "Warehouses, table", &head, &rows, &otherwise)
}

/// The list of all orders with an error. It says as much of the error as a field of a search may have.
fn of_error(group: &attention::Refused) -> String {
    let error = [group.path.as_str(), group.message.as_str()].join(" ");
    let error: String = error.trim().chars().take(CHARACTERS).collect();
    Asked::of(vec![("error", error)]).address("/console/order", &[], &[])
}

fn refused(found: &Attention, now: DateTime<Utc>) -> Markup {
    let head = html! { tr { th { "Error" } th { "Says" } th.number { "Orders" } th { "First" } } };
    let row = |group: &attention::Refused| {
        html! {
            tr {
                td.name { code { (group.code) } " " (group.path) }
                td.text { (group.message) }
                td.number data-label="Orders" { a href=(of_error(group)) { (number(group.orders)) } }
                td data-label="First" { a href={"/console/order/" (group.first)} { "refused " (time(group.since, now)) } }
            }
        }
    };
    let rows: Vec<_> = found.refused.iter().map(row).collect();
    let otherwise =
        empty("No incorrect orders.", "Orders that were refused are listed here, by their error.");
    section("refused-title", "Incorrect, by error", "Incorrect orders, table", &head, &rows, &otherwise)
}

fn awaited(found: &Attention, now: DateTime<Utc>) -> Markup {
    let head = html! { tr {
        th { "SKU" } th { "Place" } th.number { "Orders" } th.number { "Pieces wanted" } th.number { "Announced" } th { "Waits longest" }
    } };
    let row = |stock: &attention::Awaited| {
        html! {
            tr {
                td.name { a href={"/console/order?status=waiting_for_goods&sku=" (query(&stock.sku))} { (stock.sku) } }
                td.name { (stock.warehouse) ", " (stock.wms) }
                td.number data-label="Orders" { (number(stock.orders)) }
                td.number data-label="Pieces wanted" { (number(stock.pieces)) }
                td.number data-label="Announced" { (number(stock.incoming)) }
                td data-label="Waits longest" { a href={"/console/order/" (stock.first)} { "since " (time(stock.since, now)) } }
            }
        }
    };
    let rows: Vec<_> = found.awaited.iter().map(row).collect();
    let otherwise = empty(
        "No order waits for goods.",
        "Products that orders wait for are listed here, the longest wait first.",
    );
    section("awaited-title", "Waiting longest for goods", "Awaited products, table", &head, &rows, &otherwise)
}

fn marked(found: &Attention, now: DateTime<Utc>) -> Markup {
    let head = html! { tr { th { "SKU" } th { "Place" } th { "Marked" } } };
    let row = |stock: &attention::Marked| {
        html! {
            tr {
                td.name { strong { (stock.sku) } }
                td.name { (stock.warehouse) ", " (stock.wms) }
                td data-label="Marked" { (time(stock.since, now)) }
            }
        }
    };
    let rows: Vec<_> = found.marked.iter().map(row).collect();
    let otherwise = empty(
        "No old marks.",
        "Stocks that have waited for the allocator for over a minute are listed here.",
    );
    section("marked-title", "Marked for over a minute", "Marked stocks, table", &head, &rows, &otherwise)
}

fn short(found: &Attention) -> Markup {
    let head = html! { tr { th { "SKU" } th { "Place" } th.number { "In stock" } th.number { "Held by orders being picked" } th { "One of them" } } };
    let row = |stock: &attention::Short| {
        html! {
            tr {
                td.name { strong { (stock.sku) } }
                td.name { (stock.warehouse) ", " (stock.wms) }
                td.number data-label="In stock" { (number(stock.quantity)) }
                td.number data-label="Held" { span.refused { (number(stock.held)) } }
                td { a href={"/console/order/" (stock.order)} { (stock.order_number) } }
            }
        }
    };
    let rows: Vec<_> = found.short.iter().map(row).collect();
    let otherwise = empty(
        "No stock is short.",
        "A stock is listed here if orders that are being picked hold more pieces than it has.",
    );
    section(
        "short-title",
        "Fewer pieces than are being picked",
        "Short stocks, table",
        &head,
        &rows,
        &otherwise,
    )
}

/// A text as part of a query.
fn query(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
