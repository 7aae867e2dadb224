//! Products: the search, and of one where it is, which orders hold it, and what happened to it.

pub(super) mod bulk;
pub(super) mod list;

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use http::StatusCode;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::ProductId;
use longshore_kernel::problem::Problem;
use longshore_operate::product::{self, Inspection, ORDERS, Order, Stock};
use longshore_operate::timeline::Wanted;
use maud::{Markup, html};

use super::form::Refused;
use super::layout::Section;
use super::piece::{self, Tone, badge, empty, full_time, number, state, time};
use super::timeline;
use super::visit::Visit;

/// `GET /console/product/{id}`.
pub(super) async fn show(Id(id): Id<ProductId>, visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let (period, refused) = Refused::of(timeline::period(&visit.asked))?;
    let wanted = Wanted {
        audit: visit.can(Permission::ReadAudit),
        deliveries: visit.can(Permission::ReadWebhooks),
        since: period.since,
        until: period.until,
        ..Wanted::default()
    };
    let found = product::inspect(visit.db(), visit.scope(), id, &wanted).await?;
    let found = found.ok_or_else(|| Problem::not_found("product"))?;
    let now = visit.now();
    let here = format!("/console/product/{id}");
    let content = html! {
        (standing(&found, now))
        (stocks(&found.stocks, now))
        (orders(&found.orders, now))
        (timeline::draw(&visit.asked, &refused, &here, id.get(), &found.timeline, now))
    };
    let page = visit.page(Section::Products, &found.product.sku, &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

fn standing(found: &Inspection, now: DateTime<Utc>) -> Markup {
    let product = &found.product;
    let pieces = |of: fn(&Stock) -> i64| number(found.stocks.iter().map(of).sum::<i64>());
    html! {
        header.title {
            h1 { (product.name) }
            @if product.active { (badge(Tone::Good, "active")) } @else { (badge(Tone::Quiet, "inactive")) }
            div.buttons { a.button href={"/console/audit?entity=" (product.id)} { "Audit" } }
        }
        dl.facts {
            div { dt { "SKU" } dd { (product.sku) } }
            div { dt { "In stock" } dd { (pieces(|stock| stock.quantity.into())) } }
            div { dt { "Held by orders" } dd { (pieces(|stock| stock.held)) } }
            div { dt { "Missing" } dd { (pieces(|stock| stock.missing)) } }
            div { dt { "On the way" } dd { (pieces(|stock| stock.incoming.into())) } }
        }
        dl.details {
            div { dt { "Organisation" } dd { (piece::organisation(product.organisation_id, &product.organisation)) } }
            div { dt { "Sold in" } dd {
                @if found.eshops.is_empty() { span.muted { "no e-shop" } }
                @for (place, eshop) in found.eshops.iter().enumerate() { @if place > 0 { ", " } (piece::eshop(eshop.id, &eshop.name)) }
            } }
            div { dt { "Internal SKU" } dd { (product.internal_sku) } }
            div { dt { "Type" } dd { (product.kind) } }
            div { dt { "Id" } dd { (piece::id(product.id)) } }
            div { dt { "Version" } dd { (number(product.version)) } }
            div { dt { "Created" } dd { (full_time(product.created_at, now)) } }
            div { dt { "Changed" } dd { (full_time(product.changed_at, now)) } }
        }
    }
}

fn stocks(stocks: &[Stock], now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="stocks-title" {
            h2 #stocks-title { "Stock" }
            @if stocks.is_empty() {
                (empty("No stock.", "A stock sync or a stock advice brings it."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Stock, table" {
                    table.stack {
                        thead { tr {
                            th { "Warehouse" } th.number { "There" } th.number { "Held" } th.number { "Free" } th.number { "Missing" }
                            th.number { "On the way" } th { "Changed" }
                        } }
                        tbody {
                            @for stock in stocks {
                                tr {
                                    td.name { strong { (stock.warehouse) } " " span.muted { (stock.wms) } }
                                    td.number data-label="There" { (number(stock.quantity)) }
                                    td.number data-label="Held" { (number(stock.held)) }
                                    td.number data-label="Free" { (number((i64::from(stock.quantity) - stock.held).max(0))) }
                                    td.number data-label="Missing" { (number(stock.missing)) }
                                    td.number data-label="On the way" { (number(stock.incoming)) }
                                    td data-label="Changed" { (time(stock.changed_at, now)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn orders(orders: &[Order], now: DateTime<Utc>) -> Markup {
    if orders.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="orders-title" {
            h2 #orders-title { "Orders " span.muted { "not packed, newest first" } }
            @if i64::try_from(orders.len()).is_ok_and(|shown| shown >= ORDERS) { p.muted { "The newest " (ORDERS) "." } }
            div.scroll tabindex="0" role="region" aria-label="Orders, table" {
                table.stack {
                    thead { tr { th { "Order" } th { "Status" } th { "Since" } th.number { "Pieces" } th { "E-shop" } } }
                    tbody {
                        @for order in orders {
                            tr {
                                td.name { a href={"/console/order/" (order.id)} { strong { (order.number) } } }
                                td { (state(order.status)) }
                                td data-label="Since" { (time(order.status_since, now)) }
                                td.number data-label="Pieces" { (number(order.quantity)) }
                                td.name data-label="E-shop" { (order.eshop) }
                            }
                        }
                    }
                }
            }
        }
    }
}
