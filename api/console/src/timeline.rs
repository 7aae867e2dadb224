//! A timeline: what happened to a thing, with the period that is shown.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use longshore_shared::kernel::problem::Problem;
use longshore_shared::operate::timeline::{Delivery, Entry, Movement, News, Record, SHOWN, Timeline};
use maud::{Markup, html};
use uuid::Uuid;

use super::form::{Asked, Refused};
use super::piece::{
    self, Tone, badge, checked, empty, full_time, milliseconds, number, page_of, state, status,
};

/// A period; open where it has no bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Period {
    pub(super) since: Option<DateTime<Utc>>,
    pub(super) until: Option<DateTime<Utc>>,
}

/// The period that is asked for: a day, or bounds.
pub(super) fn period(asked: &Asked) -> Result<Period, Problem> {
    if let Some((since, until)) = asked.day("day")? {
        return Ok(Period { since: Some(since), until: Some(until) });
    }
    Ok(Period { since: asked.moment("since")?, until: asked.moment("until")? })
}

/// The timeline of the page at `here`; `own` is the thing that it is about.
pub(super) fn draw(
    asked: &Asked,
    refused: &Refused,
    here: &str,
    own: Uuid,
    timeline: &Timeline,
    now: DateTime<Utc>,
) -> Markup {
    let without = ["day", "since", "until"];
    let all = asked.address(here, &without, &[]);
    let since = |days: i64| {
        let at = bound(now - TimeDelta::days(days));
        asked.address(here, &without, &[("since", &at)])
    };
    let older = timeline.older.map(|at| asked.address(here, &["day", "until"], &[("until", &bound(at))]));
    html! {
        section #timeline aria-labelledby="timeline-title" {
            h2 #timeline-title { "What happened " span.muted { "newest first, times in UTC" } }
            form.search method="get" action=(here) role="search" aria-label="Period of the timeline" {
                (checked(asked, refused, "day", "Day", "date"))
                (checked(asked, refused, "since", "Since (UTC)", "datetime-local"))
                (checked(asked, refused, "until", "Before (UTC)", "datetime-local"))
                button.primary type="submit" { "Show" }
                a.button href=(since(1)) { "24 h" }
                a.button href=(since(7)) { "7 days" }
                a.button href=(all) { "All" }
            }
            @if !refused.is_empty() {
                (empty("The period cannot be read.", "Correct the marked field."))
            } @else if timeline.entries.is_empty() {
                (empty("Nothing happened in this period.", "Choose another day. Deliveries are kept for 30 days, the audit for two years."))
            } @else {
                ol.timeline.events { @for entry in &timeline.entries { (line(entry, own, now)) } }
                @if let Some(older) = older {
                    nav.pager aria-label="Pages of the timeline" {
                        span.muted { "At most " (SHOWN) " entries a page." }
                        a.button href=(older) rel="next" { "Older" }
                    }
                }
            }
        }
    }
}

/// A bound as the field of a form has it.
fn bound(at: DateTime<Utc>) -> String {
    // rounded up: the second of the last entry is shown again rather than cut
    let next = at + TimeDelta::seconds(i64::from(at.timestamp_subsec_nanos() > 0));
    next.to_rfc3339_opts(SecondsFormat::Secs, true).trim_end_matches('Z').to_owned()
}

fn line(entry: &Entry, own: Uuid, now: DateTime<Utc>) -> Markup {
    html! {
        li {
            (full_time(entry.at(), now)) " "
            @match entry {
                Entry::Record(record) => (of_record(record, own)),
                Entry::Movement(movement) => (of_movement(movement, own)),
                Entry::News(news) => (of_news(news)),
                Entry::Delivery(delivery) => (of_delivery(delivery)),
            }
        }
    }
}

fn of_record(record: &Record, own: Uuid) -> Markup {
    let change = |field: &str| {
        let [from, to] = [0, 1].map(|place| record.changes[field][place].as_str());
        Some((from?, to?))
    };
    html! {
        @match &record.order {
            Some(number) if record.entity != own => {
                a href=(page_of(&record.entity_type, record.entity)) { "Order " (number) } " "
            }
            _ => {}
        }
        strong { (record.action) }
        @if let Some((from, to)) = change("status") { ": " (from) " → " (to) }
        " by " (record.actor) " " span.muted { (record.actor_type) }
        @if let Some(reason) = record.changes["reason"][1].as_str() { ". Reason: " (reason) }
        @if let Some(job) = record.job {
            ", " a href={"/console/job/" (job)} { (record.job_kind.as_deref().unwrap_or("job")) }
        } @else if let Some(request) = &record.request_id {
            ", " a href={"/console/audit?request=" (request)} { "request" }
        }
        @if record.changes.as_object().is_some_and(|changes| !changes.is_empty()) {
            details { summary { (piece::fields(&record.changes)) } (piece::json(&record.changes)) }
        }
    }
}

fn of_news(news: &News) -> Markup {
    html! {
        (badge(Tone::Busy, "news")) " " (news.wms.as_deref().unwrap_or("a deleted wms")) " reported " code { (news.id) }
        @if news.contradicts { " " span.refused { "It was packed, although it should not have been." } }
    }
}

fn of_movement(movement: &Movement, own: Uuid) -> Markup {
    let signed = |pieces: i32| if pieces > 0 { format!("+{}", number(pieces)) } else { number(pieces) };
    let is_of_order = movement.expedition.is_some_and(|id| id.get() == own);
    let place = [movement.warehouse.as_deref(), movement.wms.as_deref()];
    let place: Vec<_> = place.into_iter().flatten().collect();
    html! {
        (badge(Tone::Busy, "stock")) " " strong {
            (movement.kind)
            @if movement.quantity != 0 { " " (signed(movement.quantity)) }
            @if movement.incoming != 0 { " " (signed(movement.incoming)) " on the way" }
        }
        @if let Some(sku) = movement.sku.as_deref().filter(|_| is_of_order) { " of " (sku) }
        @if !place.is_empty() { " in " (place.join(", ")) }
        @if let Some(advice) = &movement.advice { ", advice " (advice) }
        @if let Some(id) = movement.expedition.filter(|_| !is_of_order) {
            ", " a href={"/console/order/" (id)} { "order " (movement.order.as_deref().unwrap_or("deleted")) }
        }
        " by " (movement.actor)
    }
}

fn of_delivery(delivery: &Delivery) -> Markup {
    let took = delivery.last.as_ref().and_then(|last| last["durationMs"].as_f64());
    let error = delivery.last.as_ref().and_then(|last| last["error"].as_str());
    let where_to: Cow<'_, str> = delivery.destination.as_deref().unwrap_or("deleted webhook").into();
    html! {
        a href={"/console/delivery/" (delivery.id)} { (delivery.event) } " to "
        a href={"/console/webhook/" (delivery.webhook)} { (where_to) } " " (state(delivery.state))
        @if let Some(last) = &delivery.last {
            " answer " (status(last))
            @if let Some(ms) = took { " " span.muted { "in " (milliseconds(ms)) } }
            @if delivery.attempts > 1 { " " span.muted { "attempt " (delivery.attempts) } }
        }
        @if let Some(error) = error { " " span.refused { (error) } }
    }
}
