//! The search for orders, with how many are in each status.

use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use longshore_domain::list::fields::expedition::ExpeditionStatus;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::problem::Problem;
use longshore_operate::named::Kind;
use longshore_operate::order::search::{self, COUNTED, Cursor, Filter, Line, Page, WINDOW};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::deed::Deed;
use crate::form::{Asked, OF_PAGE, Refused};
use crate::layout::Section;
use crate::live::{self, Part, Parts, part};
use crate::piece::{
    OLDEST, ORDERS, Way, checked, empty, eshop, is_oldest_first, kept, moment, none, number, options,
    pager_to, plain, rows, select, size, sorting, state, unreadable, up_to,
};
use crate::refresh;
use crate::visit::Visit;

pub(super) const HERE: &str = "/console/order";

/// What of a search is kept by a click on a status.
const KEPT: [&str; 4] = ["eshop", "sort", "size", "refresh"];

/// What is kept of the search while its orders are worked on.
pub(super) const SEARCH: [&str; 8] =
    ["number", "sku", "tracking", "status", "error", "eshop", "sort", "size"];

/// The statuses by what an order waits for.
const GROUPS: [(&str, &[ExpeditionStatus]); 5] = {
    use ExpeditionStatus::{
        AwaitingProcessing, AwaitingReservation, Canceled, CarrierPickedUp, Completion, Delivered, Incorrect,
        OnHold, ProbablyDelivered, ReadyToTakeover, StockOk, TakeOut, WaitingForCancel, WaitingForGoods,
        WaitingForTheCarrier,
    };
    [
        ("you", &[Incorrect, OnHold]),
        ("pieces", &[AwaitingReservation, WaitingForGoods, StockOk]),
        ("warehouse", &[AwaitingProcessing, TakeOut, Completion, WaitingForCancel]),
        ("carrier", &[WaitingForTheCarrier, CarrierPickedUp, ReadyToTakeover, ProbablyDelivered]),
        ("ended", &[Delivered, Canceled]),
    ]
};

/// The orders of the list by the time of what it is sorted by.
const BY_TIME: [(&str, bool); 2] = [("", false), (OLDEST, true)];

/// `GET /console/order`.
pub(crate) async fn show(visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let (wanted, refused) = Refused::of(wanted(&visit, &visit.asked).await)?;
    let [counts, list] = parts(&visit, refused.is_empty().then_some(&wanted)).await?;
    let content = html! {
        header.title {
            h1 { "Orders" }
            (refresh::choice(&visit.asked, HERE))
            div.buttons {
                a.button href={(HERE) "/attention"} { "Needs attention" }
                a.button href="/console/preference" { "Carrier preferences" }
            }
        }
        (part(&counts))
        (form(&visit.asked, &refused))
        (part(&list))
    };
    Ok(visit.list_page(Section::Orders, "Orders", HERE, &refused, &content))
}

/// `GET /console/order/live`.
pub(crate) async fn follow(visit: Visit<permit::Read>) -> Response {
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::Read>) -> Result<Parts, Problem> {
    let wanted = wanted(visit, &visit.asked).await?;
    Ok(parts(visit, Some(&wanted)).await?.into())
}

/// How many orders are in each status, and those that are wanted.
async fn parts(visit: &Visit<permit::Read>, wanted: Option<&Filter>) -> Result<[Part; 2], Problem> {
    let (db, scope, asked) = (visit.db(), visit.scope(), &visit.asked);
    let is_counted = wanted.is_none_or(|wanted| wanted.eshop.is_none());
    let counts = async { if is_counted { search::counts(db, scope).await } else { Ok(Vec::new()) } };
    let (counts, found) = tokio::try_join!(counts, async {
        match wanted {
            Some(wanted) => Ok(Some(search::search(db, scope, wanted).await?)),
            None => Ok(None),
        }
    })?;
    let list = match found.as_ref().zip(wanted) {
        Some((found, wanted)) => html! { (list(visit, wanted, found)) (pages(asked, found)) },
        None => unreadable(),
    };
    let status = wanted.and_then(|wanted| wanted.status);
    Ok([("statuses".into(), statuses(asked, &counts, status)), ("list".into(), list)])
}

/// The search that a form says.
pub(super) async fn wanted<P>(visit: &Visit<P>, asked: &Asked) -> Result<Filter, Problem> {
    let eshop = visit.named(asked, Kind::Eshop, "eshop").await?;
    Ok(Filter {
        number: asked.text("number")?,
        tracking_number: asked.text("tracking")?,
        sku: asked.text("sku")?,
        eshop,
        error: asked.text("error")?,
        status: asked.among("status", |word| word.parse().ok())?,
        after: asked.among("after", |text| text.parse::<Cursor>().ok())?,
        oldest: is_oldest_first(asked)?,
        size: size(asked)?,
    })
}

/// How many are in each status, unless only those of an e-shop are shown; each leads to its orders.
fn statuses(asked: &Asked, counts: &[(ExpeditionStatus, i64)], chosen: Option<ExpeditionStatus>) -> Markup {
    let kept = Asked(asked.0.iter().filter(|(name, _)| KEPT.contains(&name.as_str())).cloned().collect());
    html! {
        nav.groups aria-label="Orders by status" {
            span.switch { a href=(kept.address(HERE, &[], &[])) aria-current=[chosen.is_none().then_some("true")] { "all" } }
            @for (name, statuses) in GROUPS {
                span.switch {
                    span.muted { (name) }
                    @for status in statuses {
                        a href=(kept.address(HERE, &[], &[("status", status.as_str())])) aria-current=[(chosen == Some(*status)).then_some("true")] {
                            (plain(status.as_str()))
                            @if let Some((_, orders)) = counts.iter().find(|(counted, _)| counted == status) { " " (up_to(*orders, COUNTED)) }
                        }
                    }
                }
            }
        }
    }
}

/// What all orders of a search match, where it names a status; nothing where criteria do not say what else it names.
pub(super) fn criteria(wanted: &Filter) -> Option<Value> {
    let Filter {
        number: None,
        tracking_number: None,
        sku: None,
        error: None,
        status: Some(status),
        eshop,
        ..
    } = wanted
    else {
        return None;
    };
    let mut criteria = json!({"status": {"eq": status.as_str()}});
    if let Some(eshop) = eshop {
        criteria["eshop"] = json!({"eq": eshop});
    }
    Some(criteria)
}

fn form(asked: &Asked, refused: &Refused) -> Markup {
    let words = ExpeditionStatus::WORDS.map(|word| (word, plain(word)));
    let statuses = words.iter().map(|(word, text)| (*word, text.as_str()));
    html! {
        form.search method="get" action=(HERE) role="search" {
            (checked(asked, refused, "number", "Number or external id", "search"))
            (checked(asked, refused, "sku", "SKU (not packed)", "search"))
            (checked(asked, refused, "tracking", "Tracking number", "search"))
            (options(asked, refused, "status", "Status", [("", "any status")].into_iter().chain(statuses)))
            (checked(asked, refused, "error", "Error contains", "search"))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
            details open[["eshop", "sort", "size"].iter().any(|name| asked.get(name).is_some())] {
                summary { "More" }
                div {
                    (checked(asked, refused, "eshop", "E-shop (name or id)", "text"))
                    (options(asked, refused, "sort", "Order", ORDERS))
                    (rows(asked, refused))
                }
            }
        }
    }
}

/// The orders; where the visitor may, with check boxes and what can be done with those that are checked, or with all of a status.
fn list(visit: &Visit<permit::Read>, wanted: &Filter, found: &Page) -> Markup {
    let asked = &visit.asked;
    let may = visit.can(Permission::WriteExpeditions) && !found.orders.is_empty();
    let table = table(asked, found, may, visit.now());
    if !may {
        return table;
    }
    html! {
        form method="get" action={(HERE) "/send"} data-ask="" {
            (kept(asked, &SEARCH))
            (table)
            div.buttons {
                @for deed in Deed::ALL {
                    button type="submit" formaction=(deed.address()) { (deed.verb()) " selected" }
                }
                @if criteria(wanted).is_some() {
                    @for deed in Deed::ALL {
                        a.button href=(asked.address(&deed.address(), &OF_PAGE, &[("all", "true")])) data-ask="" { (deed.verb()) " all that match" }
                    }
                }
            }
        }
    }
}

fn table(asked: &Asked, found: &Page, choose: bool, now: DateTime<Utc>) -> Markup {
    if found.orders.is_empty() {
        return empty(
            "No order matches.",
            "Numbers and SKUs must match entirely. Remove a filter, or check the spelling.",
        );
    }
    let by_status = found.by_status;
    html! {
        div.scroll tabindex="0" role="region" aria-label="Orders, table" {
            table.list.stack {
                thead { tr {
                    th { "Order" } th { "Status" } th { "Waits for, or error" }
                    @if by_status { (sorting(asked, HERE, "Since", &BY_TIME)) } @else { th { "Since" } }
                    th.number { "Pieces" } th { "E-shop" } th { "Tracking" }
                    @if by_status { th { "Created" } } @else { (sorting(asked, HERE, "Created", &BY_TIME)) }
                } }
                tbody { @for order in &found.orders { (row(order, choose, now)) } }
            }
        }
    }
}

fn row(order: &Line, choose: bool, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.name { @if choose { (select("id", order.id, &order.number)) } a href={(HERE) "/" (order.id)} { strong { (order.number) } } }
            td { (state(order.status)) }
            td.text.clip title=[order.error.as_deref()] {
                @match (&order.error, &order.waits_for) {
                    (Some(error), _) => span { (error) },
                    (None, Some(sku)) => span { (sku) },
                    (None, None) if order.is_paused => span { "paused" },
                    (None, None) => {},
                }
            }
            td data-label="Since" { (moment(order.status_since, now)) }
            td.number data-label="Pieces" { (number(order.pieces)) }
            td.name data-label="E-shop" { (eshop(order.eshop_id, &order.eshop)) }
            td.name data-label="Tracking" { @match &order.tracking_number { Some(tracking) => (tracking), None => (none()) } }
            td data-label="Created" { (moment(order.created_at, now)) }
        }
    }
}

fn pages(asked: &Asked, found: &Page) -> Markup {
    let first = asked.get("after").map(|_| asked.address(HERE, &OF_PAGE, &[]));
    let next = found.next.map(|place| asked.address(HERE, &OF_PAGE, &[("after", &place.to_string())]));
    let window = found.cut_short.then_some(WINDOW);
    pager_to(Way::of(asked), found.orders.len(), first.as_deref(), next.as_deref(), window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, statuses)| statuses.iter().copied()).collect();
        grouped.sort_unstable();
        let mut all = ExpeditionStatus::ALL;
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
}
