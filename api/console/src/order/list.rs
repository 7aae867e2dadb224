//! The search for orders, with how many are in each status.

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_http::extract::{Failure, permit};
use longshore_shared::kernel::problem::Problem;
use longshore_shared::list::fields::expedition::ExpeditionStatus;
use longshore_shared::operate::order::COUNTED;
use longshore_shared::operate::order::search::{self, Filter, Line, Page, Place, WINDOW};
use maud::{Markup, html};

use crate::form::Asked;
use crate::layout::Section;
use crate::piece::{choice, empty, eshop, field, none, number, pager, state, time, up_to};
use crate::visit::Visit;

const HERE: &str = "/console/order";

/// `GET /console/order`.
pub(crate) async fn show(visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let wanted = wanted(&visit.asked)?;
    let (counts, found) = tokio::try_join!(
        search::counts(visit.db(), visit.scope()),
        search::search(visit.db(), visit.scope(), &wanted),
    )?;
    let content = html! {
        header.title {
            h1 { "Orders" }
            div.buttons {
                a.button href={(HERE) "/attention"} { "Needs attention" }
                a.button href="/console/preference" { "Carrier preferences" }
            }
        }
        (statuses(&counts, wanted.status))
        (form(&visit.asked))
        (table(&found, visit.now()))
        (pages(&visit.asked, &found))
    };
    Ok(visit.page(Section::Orders, "Orders", &content))
}

fn wanted(asked: &Asked) -> Result<Filter, Problem> {
    Ok(Filter {
        number: asked.text("number")?,
        tracking_number: asked.text("tracking")?,
        sku: asked.text("sku")?,
        eshop: asked.id("eshop")?,
        status: asked.among("status", |word| word.parse().ok())?,
        after: asked.among("after", |text| text.parse::<Place>().ok())?,
    })
}

/// How many are in each status; each leads to its orders.
fn statuses(counts: &[(ExpeditionStatus, i64)], chosen: Option<ExpeditionStatus>) -> Markup {
    html! {
        nav.switch aria-label="Orders by status" {
            a href=(HERE) aria-current=[chosen.is_none().then_some("true")] { "all" }
            @for (status, orders) in counts {
                a href={(HERE) "?status=" (status.as_str())} aria-current=[(chosen == Some(*status)).then_some("true")] {
                    (status.as_str()) " " (up_to(*orders, COUNTED))
                }
            }
        }
    }
}

fn form(asked: &Asked) -> Markup {
    html! {
        form.search method="get" action=(HERE) role="search" {
            (field("number", "Number or external id", "search", asked.get("number")))
            (field("sku", "SKU (not packed)", "search", asked.get("sku")))
            (field("tracking", "Tracking number", "search", asked.get("tracking")))
            (choice("status", "Status", "any status", ExpeditionStatus::WORDS, asked.get("status")))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
            details open[asked.get("eshop").is_some()] {
                summary { "More" }
                div { (field("eshop", "E-shop (id)", "text", asked.get("eshop"))) }
            }
        }
    }
}

fn table(found: &Page, now: DateTime<Utc>) -> Markup {
    if found.orders.is_empty() {
        return empty(
            "No order matches.",
            "Numbers and SKUs must match entirely. Remove a filter, or check the spelling.",
        );
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Orders, table" {
            table.list.stack {
                thead { tr {
                    th { "Order" } th { "Status" } th { "Waits for, or error" } th { "Since" } th.number { "Pieces" } th { "E-shop" } th { "Tracking" }
                    th { "Created" }
                } }
                tbody { @for order in &found.orders { (row(order, now)) } }
            }
        }
    }
}

fn row(order: &Line, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.name { a href={(HERE) "/" (order.id)} { strong { (order.number) } } }
            td { (state(order.status)) }
            td.text.clip title=[order.error.as_deref()] {
                @match (&order.error, &order.waits_for) {
                    (Some(error), _) => span { (error) },
                    (None, Some(sku)) => span { (sku) },
                    (None, None) if order.is_paused => span { "paused" },
                    (None, None) => {},
                }
            }
            td data-label="Since" { (time(order.status_since, now)) }
            td.number data-label="Pieces" { (number(order.pieces)) }
            td.name data-label="E-shop" { (eshop(order.eshop_id, &order.eshop)) }
            td.name data-label="Tracking" { @match &order.tracking_number { Some(tracking) => (tracking), None => (none()) } }
            td data-label="Created" { (time(order.created_at, now)) }
        }
    }
}

fn pages(asked: &Asked, found: &Page) -> Markup {
    let first = asked.get("after").map(|_| asked.address(HERE, &["after", "done"], &[]));
    let next =
        found.next.map(|place| asked.address(HERE, &["after", "done"], &[("after", &place.to_string())]));
    let window = found.cut_short.then_some(WINDOW);
    pager(found.orders.len(), first.as_deref(), next.as_deref(), window)
}
