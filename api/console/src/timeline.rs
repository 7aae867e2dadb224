//! A timeline: what happened to a thing, with the period that is shown.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use longshore_domain::job::kind::JobKind;
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_kernel::access::Permission;
use longshore_kernel::problem::Problem;
use longshore_operate::timeline::{
    Called, Delivery, Entry, Health, Jobs, Movement, News, Record, SHOWN, Timeline, Turn, Wanted,
};
use maud::{Markup, html};
use serde_json::Value;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use super::address;
use super::form::{Asked, Refused};
use super::piece::{
    self, Tone, badge, checked, counted, empty, full_time, milliseconds, number, plain, state, status, took,
};
use super::visit::Visit;

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

/// The parts of the timelines of e-shops and organisations: the word in an address, and the name.
const PARTS: [(&str, &str); 4] =
    [("", "Everything"), ("changes", "Changes"), ("jobs", "Jobs"), ("health", "Failures")];

/// What of the timeline of an e-shop or an organisation is asked for, and may be shown.
pub(super) fn wanted<P>(visit: &Visit<P>) -> Result<Wanted, Problem> {
    let asked = &visit.asked;
    let Period { since, until } = period(asked)?;
    let known = |word: &str| PARTS.iter().find(|(known, _)| *known == word).map(|(known, _)| *known);
    let part = asked.among("part", known)?;
    let is = |own: &str, may: Permission| part.is_none_or(|part| part == own) && visit.can(may);
    Ok(Wanted {
        audit: is("changes", Permission::ReadAudit),
        deliveries: is("health", Permission::ReadWebhooks),
        jobs: is("jobs", Permission::ReadJobs),
        settings: is("health", Permission::ReadSettings),
        systems: is("health", Permission::ReadWmsSettings),
        since,
        until,
    })
}

/// The choice of a part of the timeline.
fn parts(asked: &Asked, here: &str) -> Markup {
    let chosen = asked.get("part").unwrap_or_default();
    let address = |word: &str| {
        let part = [("part", word)];
        format!("{}#timeline", asked.address(here, &["part"], if word.is_empty() { &[] } else { &part }))
    };
    html! {
        nav.switch aria-label="Part of the timeline" {
            @for (word, name) in PARTS { a href=(address(word)) aria-current=[(chosen == word).then_some("true")] { (name) } }
        }
    }
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
    let has_parts = ["/console/eshop/", "/console/organisation/"].iter().any(|page| here.starts_with(page));
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
            @if has_parts { (parts(asked, here)) }
            form.search method="get" action=(here) role="search" aria-label="Period of the timeline" {
                @if let Some(part) = asked.get("part") { input type="hidden" name="part" value=(part); }
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
                (empty("Nothing happened in this period.", "Choose another day."))
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
                Entry::Jobs(jobs) => (of_jobs(jobs, own)),
                Entry::Health(health) => (of_health(health)),
            }
        }
    }
}

fn of_record(record: &Record, own: Uuid) -> Markup {
    // what is created has none before
    let status = record.changes["status"][1].as_str();
    let status = status.map(|to| (record.changes["status"][0].as_str().unwrap_or("new"), to));
    let only = only_change(&record.changes);
    html! {
        @match &record.order {
            Some(number) if record.entity != own => {
                a href=(address::of_record(&record.entity_type, record.entity)) { "Order " (number) } " "
            }
            _ => {}
        }
        strong { (record.action) }
        @if let Some(name) = record.name.as_deref().filter(|_| record.entity != own) {
            " of " a href=(address::of_record(&record.entity_type, record.entity)) { (name) }
        }
        @if let Some((from, to)) = status { ": " (plain(from)) " → " (plain(to)) }
        @else if let Some((field, [from, to])) = &only { ": " (field) " " (from) " → " (to) }
        " by " (record.actor) " " span.muted { (record.actor_type) }
        @if let Some(reason) = record.changes["reason"][1].as_str() { ". Reason: " (reason) }
        @if let Some(job) = record.job {
            ", " a href={"/console/job/" (job)} { (plain(record.job_kind.as_deref().unwrap_or("job"))) }
        } @else if let Some(request) = &record.request_id {
            ", " a href={"/console/audit?request=" (request)} { "request" }
        }
        @if only.is_none() && record.changes.as_object().is_some_and(|changes| !changes.is_empty()) {
            details { summary { (piece::fields(&record.changes)) } (piece::json(&record.changes)) }
        }
    }
}

/// Characters of a value that a line shows.
const VALUE: usize = 60;

/// The only field that changed, with what it was and what it is; nothing where a line has no room for these.
pub(super) fn only_change(changes: &Value) -> Option<(&str, [String; 2])> {
    let (field, pair) = changes.as_object().filter(|changes| changes.len() == 1)?.iter().next()?;
    let [from, to] = pair.as_array()?.as_slice() else { return None };
    let shown = |value: &Value| match value {
        Value::Null => Some("–".to_owned()),
        Value::String(text) if text.chars().count() <= VALUE => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    Some((field, [shown(from)?, shown(to)?]))
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
            @match movement.came_to.filter(|_| movement.kind == "counted") {
                Some(pieces) => { " " (number(pieces - i64::from(movement.quantity))) " → " (number(pieces)) },
                None => @if movement.quantity != 0 { " " (signed(movement.quantity)) },
            }
            @if movement.incoming != 0 { " " (signed(movement.incoming)) " on the way" }
        }
        @if let Some(sku) = movement.sku.as_deref().filter(|_| is_of_order) { " of " (sku) }
        @if !place.is_empty() { " in " (place.join(", ")) }
        @if let Some(advice) = &movement.advice { ", advice " (advice) }
        @if let Some(id) = movement.expedition.filter(|_| !is_of_order) {
            ", " a href={"/console/order/" (id)} { "order " (movement.order.as_deref().unwrap_or("deleted")) }
        }
        @if let Some(actor) = &movement.actor { " by " (actor) }
    }
}

/// A delivery that ended within so many seconds was on time.
const ON_TIME: i64 = 5;

fn of_delivery(delivery: &Delivery) -> Markup {
    let called = delivery.last.as_ref().and_then(|last| last["durationMs"].as_f64());
    let error = delivery.last.as_ref().and_then(|last| last["error"].as_str());
    let where_to: Cow<'_, str> = delivery.destination.as_deref().unwrap_or("deleted webhook").into();
    html! {
        a href={"/console/delivery/" (delivery.id)} { (delivery.event) } " to "
        a href={"/console/webhook/" (delivery.webhook)} { (where_to) } " " (state(delivery.state)) (ended_late(delivery))
        @if let Some(last) = &delivery.last {
            @if delivery.attempts > 1 { ", attempt " (delivery.attempts) }
            ", answer " (status(last))
            @if let Some(ms) = called { " " span.muted { "in " (milliseconds(ms)) } }
        }
        @if let Some(error) = error { " " span.refused { (error) } }
    }
}

/// When a delivery ended, where that was later than it should be: its line stands where it was made.
fn ended_late(delivery: &Delivery) -> Markup {
    let late = delivery.finished_at.filter(|at| (*at - delivery.at).num_seconds() > ON_TIME);
    let Some(at) = late else { return html! {} };
    let is_same_day = at.date_naive() == delivery.at.date_naive();
    // the script writes the local time in the same form
    let form = if is_same_day { "%H:%M:%S" } else { "%m-%d %H:%M" };
    let lasted = took(Some(delivery.at), Some(at));
    html! {
        " at " time data-short="" datetime=(at.to_rfc3339_opts(SecondsFormat::Millis, true)) { (at.format(form)) } ", "
        @if delivery.state == DeliveryState::Delivered { strong { (lasted) " late" } } @else { "after " (lasted) }
    }
}

/// Jobs of one line: the job, or the list of them.
fn of_jobs(jobs: &Jobs, own: Uuid) -> Markup {
    let address = if jobs.jobs == 1 { format!("/console/job/{}", jobs.newest) } else { listed(jobs) };
    html! {
        a href=(address) { (plain(&jobs.kind)) }
        @if let (Some(id), Some(name)) = (jobs.eshop_id.filter(|id| id.get() != own), &jobs.eshop) { " of " (piece::eshop(id, name)) }
        " " (state(jobs.state))
        @if jobs.jobs > 1 { " " (number(jobs.jobs)) " jobs since " (jobs.since.format("%H:%M")) }
        @if jobs.changed > 0 { ", " (counted(jobs.changed, "item", "items")) " changed" }
        @if jobs.failed > 0 {
            ", "
            // its one item is the connection
            @if jobs.kind.parse::<JobKind>().is_ok_and(JobKind::is_test) { span.refused { "the connection does not work" } }
            @else { span.refused { (counted(jobs.failed, "item", "items")) " refused" } }
        }
        @if let Some(error) = &jobs.error { ", " span.refused { (error) } }
    }
}

/// The list of the jobs of a line.
fn listed(jobs: &Jobs) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("kind", &jobs.kind).append_pair("state", jobs.state.as_str());
    if let Some(eshop) = jobs.eshop_id {
        query.append_pair("eshop", &eshop.to_string());
    }
    let since = bound(jobs.since - TimeDelta::seconds(1));
    query.append_pair("since", &since).append_pair("until", &bound(jobs.at + TimeDelta::seconds(1)));
    format!("/console/job?{}", query.finish())
}

fn of_health(health: &Health) -> Markup {
    let address = match health.called {
        Called::Webhook(id) => format!("/console/webhook/{id}"),
        Called::Partner(_, Some(job)) => format!("/console/job/{job}"),
        Called::Partner(eshop, None) => format!("/console/eshop/{eshop}"),
        Called::Warehouse(id) => format!("/console/wms/{id}"),
    };
    let what = match health.called {
        Called::Webhook(_) => "webhook",
        Called::Partner(..) => "partner",
        Called::Warehouse(_) => "warehouse",
    };
    let (tone, said) = match health.turn {
        Turn::Failing => (Tone::Warn, "began to fail"),
        Turn::Recovered => (Tone::Good, "no longer fails"),
        Turn::Disabled => (Tone::Bad, "was disabled"),
    };
    html! {
        (badge(tone, what)) " " a href=(address) { (health.name) } " " (said)
        @if health.since.is_some() { ", after " (took(health.since, Some(health.at))) }
        @if let Some(why) = &health.why { ": " span.refused { (why) } }
    }
}
