//! The search for orders, with how many are in each status.

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use http::StatusCode;
use longshore_http::extract::{Failure, permit};
use longshore_shared::kernel::problem::Problem;
use longshore_shared::list::fields::expedition::ExpeditionStatus;
use longshore_shared::operate::named;
use longshore_shared::operate::order::COUNTED;
use longshore_shared::operate::order::search::{self, Filter, Line, Page, Place, WINDOW};
use maud::{Markup, html};

use crate::form::{Asked, Refused};
use crate::layout::Section;
use crate::piece::{checked, empty, eshop, none, number, options, pager, rows, size, state, time, up_to};
use crate::visit::Visit;

const HERE: &str = "/console/order";

/// `GET /console/order`.
pub(crate) async fn show(visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let (wanted, refused) = Refused::of(wanted(&visit).await)?;
    let (counts, found) = tokio::try_join!(search::counts(visit.db(), visit.scope()), async {
        if refused.is_empty() {
            search::search(visit.db(), visit.scope(), &wanted).await
        } else {
            Ok(Page::default())
        }
    })?;
    let content = html! {
        header.title {
            h1 { "Orders" }
            div.buttons {
                a.button href={(HERE) "/attention"} { "Needs attention" }
                a.button href="/console/preference" { "Carrier preferences" }
            }
        }
        (statuses(&counts, wanted.status))
        (form(&visit.asked, &refused))
        @if refused.is_empty() {
            (table(&found, visit.now()))
            (pages(&visit.asked, &found))
        } @else {
            (empty("The search cannot be read.", "Correct the marked field."))
        }
    };
    let page = visit.page(Section::Orders, "Orders", &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

async fn wanted(visit: &Visit<permit::Read>) -> Result<Filter, Problem> {
    let asked = &visit.asked;
    let eshop = match asked.text("eshop")? {
        Some(text) => Some(named::eshop(visit.db(), visit.scope(), "eshop", &text).await?),
        None => None,
    };
    Ok(Filter {
        number: asked.text("number")?,
        tracking_number: asked.text("tracking")?,
        sku: asked.text("sku")?,
        eshop,
        status: asked.among("status", |word| word.parse().ok())?,
        after: asked.among("after", |text| text.parse::<Place>().ok())?,
        size: size(asked)?,
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

fn form(asked: &Asked, refused: &Refused) -> Markup {
    let statuses = ExpeditionStatus::WORDS.iter().map(|word| (*word, *word));
    html! {
        form.search method="get" action=(HERE) role="search" {
            (checked(asked, refused, "number", "Number or external id", "search"))
            (checked(asked, refused, "sku", "SKU (not packed)", "search"))
            (checked(asked, refused, "tracking", "Tracking number", "search"))
            (options(asked, refused, "status", "Status", [("", "any status")].into_iter().chain(statuses)))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
            details open[asked.get("eshop").is_some() || asked.get("size").is_some()] {
                summary { "More" }
                div {
                    (checked(asked, refused, "eshop", "E-shop (name or id)", "text"))
                    (rows(asked, refused))
                }
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
