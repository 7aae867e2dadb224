//! The search for deliveries, over all webhooks.

use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use longshore_domain::list::criteria::all_of;
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_domain::webhook::event::{TYPES, is_test};
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::problem::Problem;
use longshore_operate::delivery::{self, Cursor, Filter, Line, Order, Page, States, WEBHOOKS, Waits};
use longshore_operate::named::{self, Kind};
use longshore_operate::snapshots::Snapshots;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::form::{Asked, OF_PAGE, Refused};
use crate::layout::Section;
use crate::live::{self, Part, Parts, part};
use crate::piece::{
    self, OLDEST, ORDERS, Way, checked, empty, eshop, is_oldest_first, moment, none, number, options,
    pager_to, rows, select, size, sorting, state, status, tabs, unreadable, unselectable,
};
use crate::visit::Visit;
use crate::{period, refresh};

const HERE: &str = "/console/delivery";

/// The states, in the order in which operators look for them.
const STATES: [DeliveryState; 4] =
    [DeliveryState::Exhausted, DeliveryState::Pending, DeliveryState::Cancelled, DeliveryState::Delivered];

/// What pending deliveries wait for.
const WAITS: [(&str, &str); 3] =
    [("", "any"), (Waits::Due.as_str(), "due now"), (Waits::Retry.as_str(), "waiting for a retry")];

/// The fields that narrow the list.
pub(super) const FILTER: [&str; 7] = ["state", "event", "entity", "destination", "eshop", "since", "until"];

/// The orders of the list by the time of what it is sorted by.
const BY_TIME: [(&str, bool); 2] = [("", false), (OLDEST, true)];

type Asking = Visit<permit::ReadWebhooks>;

/// `GET /console/delivery`.
pub(crate) async fn show(visit: Asking) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (wanted, refused) = Refused::of(wanted(&visit, asked).await)?;
    let [states, list] = parts(&visit, refused.is_empty().then_some(&wanted)).await?;
    let content = html! {
        header.title { h1 { "Deliveries" } (refresh::choice(asked, HERE)) }
        (part(&states))
        (period::choice(asked, HERE, &OF_PAGE))
        (form(asked, &refused))
        (part(&list))
    };
    Ok(visit.list_page(Section::Deliveries, "Deliveries", HERE, &refused, &content))
}

/// `GET /console/delivery/live`.
pub(crate) async fn follow(visit: Asking) -> Response {
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Asking) -> Result<Parts, Problem> {
    let wanted = wanted(visit, &visit.asked).await?;
    Ok(parts(visit, Some(&wanted)).await?.into())
}

/// How many deliveries are in each state, and those that are wanted.
async fn parts(visit: &Asking, wanted: Option<&Filter>) -> Result<[Part; 2], Problem> {
    let counts = async {
        let app = &visit.app;
        Ok(app.kept::<Snapshots>().deliveries(&app.services, visit.scope()).await)
    };
    let (counts, list) = tokio::try_join!(counts, list(visit, wanted))?;
    Ok([("states".into(), states(&visit.asked, counts.as_deref())), list])
}

/// The search that a form says.
pub(super) async fn wanted<P>(visit: &Visit<P>, asked: &Asked) -> Result<Filter, Problem> {
    let (db, scope) = (visit.db(), visit.scope());
    let eshop = visit.named(asked, Kind::Eshop, "eshop").await?;
    let entities = match asked.text("entity")? {
        Some(text) => Some(named::entities(db, scope, "entity", &text).await?),
        None => None,
    };
    let state = asked.among("state", |word| word.parse().ok())?;
    let waits = asked.among("waits", |word| word.parse().ok())?;
    if waits.is_some() && state.is_some_and(|state| state != DeliveryState::Pending) {
        return Err(Problem::violation("waits", "invalid_value", "is for pending deliveries only"));
    }
    Ok(Filter {
        state: state.or(waits.map(|_| DeliveryState::Pending)),
        waits,
        event: asked.text("event")?,
        entities,
        eshop,
        destination: asked.text("destination")?,
        since: period::or_since(asked, visit.now())?,
        until: asked.moment("until")?,
        after: asked.among("after", |text| text.parse::<Cursor>().ok())?,
        oldest: is_oldest_first(asked)?,
        size: size(asked)?,
    })
}

/// What all deliveries of a search match that ended in a state.
pub(super) fn criteria(wanted: &Filter) -> Option<Value> {
    let state = wanted.state.filter(|state| *state != DeliveryState::Pending)?;
    let period = all_of(
        [("gte", wanted.since), ("lt", wanted.until)]
            .map(|(operator, at)| (operator, at.map(|at| json!(at)))),
    );
    let sorted = if wanted.order() == Order::Made { "createdAt" } else { "finishedAt" };
    Some(all_of([
        ("state", Some(json!({"eq": state.as_str()}))),
        ("event", wanted.event.as_ref().map(|event| json!({"eq": event}))),
        ("entity.id", wanted.entities.as_ref().map(|entities| json!({"in": entities}))),
        ("eshop", wanted.eshop.map(|eshop| json!({"eq": eshop}))),
        ("webhook.destination", wanted.destination.as_ref().map(|text| json!({"like": text}))),
        (sorted, Some(period)),
    ]))
}

/// How many are in each state, where that could be counted; each leads to its deliveries.
fn states(asked: &Asked, counts: Option<&States>) -> Markup {
    let words = |count: Option<AtLeast>| count.map(AtLeast::in_words).unwrap_or_default();
    let of = STATES.map(|state| (state.as_str(), words(counts.map(|counts| counts.of(state)))));
    let without: Vec<&str> = OF_PAGE.into_iter().chain(["waits"]).collect();
    tabs(asked, HERE, &without, "state", "Number of deliveries", &words(counts.map(States::all)), &of)
}

fn form(asked: &Asked, refused: &Refused) -> Markup {
    let more = ["waits", "eshop", "since", "until", "sort", "size"];
    let is_narrow = more.iter().any(|name| asked.get(name).is_some());
    let states = [("", "any state")].into_iter().chain(STATES.map(|state| (state.as_str(), state.as_str())));
    let types = [("", "any event")].into_iter().chain(TYPES.iter().map(|kind| (kind.name, kind.name)));
    html! {
        form.search method="get" action=(HERE) role="search" {
            // a period that was chosen remains, unless the form has another
            @if let Some(hours) = asked.get(period::FIELD) { input type="hidden" name=(period::FIELD) value=(hours); }
            (options(asked, refused, "state", "State", states))
            (options(asked, refused, "event", "Event", types))
            (checked(asked, refused, "entity", "SKU, order number or id", "search"))
            (checked(asked, refused, "destination", "Destination contains", "search"))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
            details open[is_narrow] {
                summary { "More" }
                div {
                    (options(asked, refused, "waits", "Pending ones", WAITS))
                    (checked(asked, refused, "eshop", "E-shop (name or id)", "text"))
                    (checked(asked, refused, "since", "Since (UTC)", "datetime-local"))
                    (checked(asked, refused, "until", "Before (UTC)", "datetime-local"))
                    (options(asked, refused, "sort", "Order", ORDERS))
                    (rows(asked, refused))
                }
            }
        }
    }
}

/// The deliveries that are wanted.
async fn list(visit: &Asking, wanted: Option<&Filter>) -> Result<Part, Problem> {
    let Some(wanted) = wanted else { return Ok(("list".into(), unreadable())) };
    let found = delivery::search(visit.db(), visit.scope(), wanted).await?;
    let content = html! {
        @if found.too_many_webhooks {
            p.muted { "Of the deliveries to more than " (WEBHOOKS) " webhooks, those of " (WEBHOOKS + 1) " are listed. Choose an e-shop or a destination to see others." }
        }
        // what waits is sent anyway
        @let may = visit.can(Permission::WriteWebhooks) && found.deliveries.iter().any(|one| one.finished_at.is_some());
        @if may {
            form method="get" action={(HERE) "/redeliver"} data-ask="" {
                (table(&visit.asked, wanted.order(), &found, true, visit.now()))
                div.buttons {
                    button type="submit" { "Redeliver selected" }
                    @if criteria(wanted).is_some() {
                        a.button href=(visit.asked.address(&format!("{HERE}/redeliver"), &OF_PAGE, &[("all", "true")])) data-ask="" { "Redeliver all that match" }
                    }
                }
            }
        } @else {
            (table(&visit.asked, wanted.order(), &found, false, visit.now()))
        }
        (pages(&visit.asked, wanted, &found))
    };
    Ok(("list".into(), content))
}

fn table(asked: &Asked, order: Order, found: &Page, choose: bool, now: DateTime<Utc>) -> Markup {
    if found.deliveries.is_empty() {
        return empty("No delivery matches.", "Remove a filter, or search an earlier time.");
    }
    let head = |label: &str, is_order: bool| {
        if is_order {
            sorting(asked, HERE, label, &BY_TIME)
        } else {
            html! { th { (label) } }
        }
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Deliveries, table" {
            table.list.stack {
                thead { tr {
                    th { "Event" } th { "State" } th { "Destination" } th { "Entity" } th.number { "Attempts" } th { "Last answer" }
                    (head("Made", order == Order::Made)) (head("Ended or due", order == Order::Ended)) th { "E-shop" }
                } }
                tbody { @for delivery in &found.deliveries { (row(delivery, choose, now)) } }
            }
        }
    }
}

fn row(delivery: &Line, choose: bool, now: DateTime<Utc>) -> Markup {
    let event = delivery.event.as_deref().unwrap_or("expired");
    let is_test = delivery.entity.is_some_and(|entity| is_test(delivery.webhook_id, entity));
    html! {
        tr {
            td {
                @if choose {
                    @if delivery.finished_at.is_some() { (select("id", delivery.id, event)) } @else { (unselectable("It waits, and is sent anyway")) }
                }
                a href={(HERE) "/" (delivery.id)} { (event) }
                (super::example(Some(event), is_test))
            }
            td { (state(delivery.state)) }
            td.text { a href={"/console/webhook/" (delivery.webhook_id)} { (delivery.destination.as_deref().unwrap_or("deleted webhook")) } }
            td data-label="Entity" { (super::list::entity(delivery.entity, delivery.name.as_deref().filter(|_| !is_test))) }
            td.number data-label="Attempts" { (number(delivery.attempt_count)) }
            td { @if let Some(last) = &delivery.last { (status(last)) } }
            td data-label="Made" { (moment(delivery.created_at, now)) }
            td data-label="Ended or due" { (piece::moment_or_none(delivery.finished_at.or(delivery.next_attempt_at), now)) }
            td.name data-label="E-shop" { @match delivery.eshop_id.zip(delivery.eshop.as_deref()) { Some((id, name)) => (eshop(id, name)), None if delivery.eshop_id.is_none() => span.muted { "all e-shops" }, None => (none()) } }
        }
    }
}

fn pages(asked: &Asked, wanted: &Filter, found: &Page) -> Markup {
    let first = asked.get("after").map(|_| asked.address(HERE, &OF_PAGE, &[]));
    let next = found.next.map(|place| asked.address(HERE, &OF_PAGE, &[("after", &place.to_string())]));
    let window = if found.cut_short { wanted.window() } else { None };
    pager_to(Way::of(asked), found.deliveries.len(), first.as_deref(), next.as_deref(), window)
}
