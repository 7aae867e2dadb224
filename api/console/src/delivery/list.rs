//! The deliveries of one webhook: waiting and ended ones.

use chrono::{DateTime, Utc};
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_domain::webhook::delivery::search::{Counts, Filter, Line, OF_STATES, Page, WINDOW};
use longshore_domain::webhook::event::is_test;
use longshore_domain::webhook::health::{WAITING, Webhook};
use longshore_kernel::figure::AtLeast;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use crate::form::{Asked, OF_PAGE, Refused};
use crate::piece::{
    self, checked, empty, moment_or_none, options, pager, rows, size, state, status, tabs, unreadable, up_to,
};
use crate::visit::Visit;

/// The states of ended deliveries.
const STATES: [DeliveryState; 3] =
    [DeliveryState::Exhausted, DeliveryState::Cancelled, DeliveryState::Delivered];

/// The query parameters of a search, including its page.
const CRITERIA: [&str; 6] = ["state", "event", "entity", "since", "until", "after"];

/// The search for ended deliveries.
pub(crate) async fn wanted<P>(visit: &Visit<P>, asked: &Asked) -> Result<Filter, Problem> {
    Ok(Filter {
        state: asked.among("state", |word| word.parse().ok().filter(|state| STATES.contains(state)))?,
        event: asked.text("event")?,
        entity: visit.thing(asked, "entity").await?,
        since: asked.moment("since")?,
        until: asked.moment("until")?,
        after: asked.id("after")?,
        size: size(asked)?,
    })
}

/// Waiting deliveries that are shown; their list has the rest.
const SHOWN: usize = 10;

/// The waiting deliveries, the next ones.
pub(crate) fn waiting(webhook: &Webhook, deliveries: &[Line], now: DateTime<Utc>) -> Markup {
    let destination =
        Serializer::new(String::new()).append_pair("destination", &webhook.destination).finish();
    let eshop = webhook.eshop_id.map(|id| format!("&eshop={id}")).unwrap_or_default();
    let all = format!("/console/delivery?state=pending{eshop}&{destination}");
    let id = webhook.id;
    html! {
        section aria-labelledby="waiting-title" {
            header.title {
                h2 #waiting-title { "Waiting " span.muted { (up_to(webhook.waiting, WAITING)) } }
                @if deliveries.len() > SHOWN { a.button href=(all) { "All" } }
            }
            @if deliveries.is_empty() {
                (empty("No waiting deliveries.", "All deliveries have ended."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Waiting deliveries, table" {
                    table {
                        thead { tr { th { "Event" } th { "Entity" } th.number { "Attempts" } th { "Last answer" } th { "Due" } } }
                        tbody { @for delivery in deliveries.iter().take(SHOWN) {
                            tr {
                                td { (event(id, delivery)) }
                                td { (entity_of(id, delivery)) }
                                td.number { (delivery.attempt_count) }
                                td { @if let Some(last) = &delivery.last { (status(last)) } }
                                td { (moment_or_none(delivery.next_attempt_at, now)) }
                            }
                        } }
                    }
                }
            }
        }
    }
}

/// The ended deliveries: a search, and a form that sends selected ones again.
pub(crate) fn ended(
    asked: &Asked,
    refused: &Refused,
    webhook: WebhookId,
    counts: &Counts,
    found: &Page,
    may: bool,
    now: DateTime<Utc>,
) -> Markup {
    let here = format!("/console/webhook/{webhook}");
    let words = [("", "any state")].into_iter().chain(STATES.map(|state| (state.as_str(), state.as_str())));
    let first = asked.get("after").map(|_| asked.address(&here, &OF_PAGE, &[]));
    let next = found.next.map(|id| asked.address(&here, &OF_PAGE, &[("after", &id.to_string())]));
    let window = found.cut_short.then_some(WINDOW);
    let all = asked.address(&format!("{here}/redeliver-all"), &OF_PAGE, &[]);
    html! {
        section #ended aria-labelledby="ended-title" {
            h2 #ended-title { "Ended" }
            (states(asked, &here, counts))
            form.search method="get" action=(here) role="search" {
                (options(asked, refused, "state", "State", words))
                (checked(asked, refused, "event", "Event", "search"))
                (checked(asked, refused, "entity", "Entity (SKU, order number or id)", "text"))
                (checked(asked, refused, "since", "Since (UTC)", "datetime-local"))
                (checked(asked, refused, "until", "Before (UTC)", "datetime-local"))
                (rows(asked, refused))
                button.primary type="submit" { "Search" }
                a.button href=(here) { "Clear" }
            }
            @if !refused.is_empty() {
                (unreadable())
            } @else if found.deliveries.is_empty() && CRITERIA.iter().all(|name| asked.get(name).is_none()) {
                (empty("No ended deliveries yet.", "Deliveries are listed here after they are delivered, exhausted or cancelled."))
            } @else if found.deliveries.is_empty() {
                (empty("No ended delivery matches.", "Remove a filter, or send a test."))
            } @else {
                @if may {
                    form method="get" action={(here) "/redeliver"} data-ask="" {
                        (table(webhook, found, may, now))
                        div.buttons {
                            button type="submit" { "Redeliver selected" }
                            a.button href=(all) data-ask="" { "Redeliver all matches" }
                        }
                    }
                } @else {
                    (table(webhook, found, may, now))
                }
            }
            (pager(found.deliveries.len(), first.as_deref(), next.as_deref(), window))
        }
    }
}

/// How many ended in each state; each leads to its deliveries.
fn states(asked: &Asked, here: &str, counts: &Counts) -> Markup {
    let of = STATES.map(|state| {
        // of what was delivered, the newest are counted; of the others, the newest of these
        let among = if state == DeliveryState::Delivered { counts.newest } else { counts.unsuccessful() };
        AtLeast { count: counts.of(state), is_more: among >= OF_STATES }
    });
    let all: AtLeast = of.into_iter().sum();
    let states = STATES.map(DeliveryState::as_str);
    let of: Vec<_> = states.into_iter().zip(of.map(AtLeast::in_words)).collect();
    tabs(asked, here, &OF_PAGE, "state", "Number of ended deliveries", &all.in_words(), &of)
}

fn table(webhook: WebhookId, found: &Page, may: bool, now: DateTime<Utc>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Ended deliveries, table" {
            table.list {
                thead { tr {
                    @if may { th { span.hidden { "Choose" } } }
                    th { "Event" } th { "State" } th { "Entity" } th.number { "Attempts" } th { "Last answer" } th { "Ended" }
                } }
                tbody { @for delivery in &found.deliveries { (row(webhook, delivery, may, now)) } }
            }
        }
    }
}

fn row(webhook: WebhookId, delivery: &Line, may: bool, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            @if may { td { input type="checkbox" name="id" value=(delivery.id) aria-label={"Select " (kind(delivery)) " " (delivery.id)}; } }
            td { (event(webhook, delivery)) }
            td { (state(delivery.state)) }
            td { (entity_of(webhook, delivery)) }
            td.number { (delivery.attempt_count) }
            td { @if let Some(last) = &delivery.last { (status(last)) } }
            td { (moment_or_none(delivery.finished_at, now)) }
        }
    }
}

fn kind(delivery: &Line) -> &str {
    delivery.event.as_deref().unwrap_or("expired")
}

/// The event, which leads to the delivery.
fn event(webhook: WebhookId, delivery: &Line) -> Markup {
    html! {
        a href={"/console/delivery/" (delivery.id)} { (kind(delivery)) }
        (super::example(delivery.event.as_deref(), is_of_test(webhook, delivery)))
    }
}

fn is_of_test(webhook: WebhookId, delivery: &Line) -> bool {
    delivery.entity.is_some_and(|entity| is_test(webhook, entity))
}

/// The entity of the event of a delivery. The name in an example is not that of its webhook.
fn entity_of(webhook: WebhookId, delivery: &Line) -> Markup {
    entity(delivery.entity, delivery.name.as_deref().filter(|_| !is_of_test(webhook, delivery)))
}

/// The entity of an event, by its name if it has one.
pub(super) fn entity(id: Option<Uuid>, name: Option<&str>) -> Markup {
    html! {
        @match (id, name) {
            (Some(id), Some(name)) => a href={"/console/find?q=" (id)} { (name) },
            (Some(id), None) => (piece::id(id)),
            (None, _) => {},
        }
    }
}
