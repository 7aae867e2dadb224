//! Parts of pages: badges, times, figures, paging, empty states.

mod list;
mod time;
mod tone;

use std::fmt::Display;

use chrono::{DateTime, Utc};
use longshore_domain::job::waiting::{Ahead, WaitsFor};
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use maud::{Markup, html};
use serde_json::Value;

pub(super) use self::list::{
    LONGEST, OLDEST, ORDERS, Way, alert, checked, is_oldest_first, kept, options, pager, pager_to, rows,
    select, size, sorting, suggested, switch, tabs, unselectable, worded,
};
pub(super) use self::time::{
    attempt_time, attempted_at, full_time, moment, moment_or_none, time, time_or_none, took, until_asked,
};
pub(super) use self::tone::{Tone, Toned, badge, job_state, state};
pub(super) use super::form::sentence;
pub(super) use longshore_kernel::figure::{counted, milliseconds, number, seconds, stamp, up_to};
pub(super) use longshore_kernel::word::plain;

/// What a job waits for; `ahead` has details of the job before it, if they are known.
pub(super) fn waits(waits: &WaitsFor, ahead: Option<&Ahead>, now: DateTime<Utc>) -> Markup {
    let since = html! { span.muted { " since " (time(waits.since, now)) } };
    match (waits.reason.as_str(), waits.job) {
        ("partner", _) => html! {
            "Waiting for the partner" @if let Some(until) = waits.until { ", which is called again " (time(until, now)) "," } (since)
        },
        ("turn", _) => html! { "Waiting for its turn: the organisation uses its share of the queue" (since) },
        ("paused", _) => {
            html! { "Waiting for a queue that is " a href="/console/queue" { "paused" } (since) }
        }
        (_, Some(job)) => html! {
            "Waiting for job " a href={"/console/job/" (job)} { code { (short(job)) } }
            @if let Some(ahead) = ahead {
                " (" (plain(&ahead.kind)) ")"
                @if let Some(eshop) = &ahead.eshop { " of " (eshop) }
                @if let Some(begun) = ahead.started_at { ", running for " (took(Some(begun), Some(now))) ";" }
            }
            (since)
        },
        (reason, None) => html! { "Waits: " (reason) (since) },
    }
}

/// A link to an e-shop.
pub(super) fn eshop(id: EshopId, name: &str) -> Markup {
    html! { a href={"/console/eshop/" (id)} { (name) } }
}

/// A link to what a webhook is told of: its e-shop, or its organisation.
pub(super) fn source(eshop_id: Option<EshopId>, organisation_id: OrganisationId, name: &str) -> Markup {
    eshop_id.map_or_else(|| organisation(organisation_id, name), |id| eshop(id, name))
}

/// A link to an organisation.
pub(super) fn organisation(id: OrganisationId, name: &str) -> Markup {
    html! { a href={"/console/organisation/" (id)} { (name) } }
}

/// An id for people: its end, since ids of the same moment begin alike. All of it is there to be read out, selected and copied;
/// the style sheet cuts it.
pub(super) fn id(id: impl Display) -> Markup {
    html! {
        span.id {
            code title=(id) { bdi { (id) } }
            button.copy type="button" data-copy=(id) hidden aria-label={"Copy " (id)} { "copy" }
        }
    }
}

/// A short form of an id: its last characters, since ids of the same moment begin alike.
fn short(id: JobId) -> String {
    let id = id.to_string();
    format!("…{}", id.get(id.len() - 8..).unwrap_or_default())
}

/// Shown for a missing value.
pub(super) fn none() -> Markup {
    html! { span.muted { "–" } }
}

/// The progress of a job: successful and refused items.
pub(super) fn progress(done: i32, total: i32, failed: i32) -> Markup {
    let words =
        format!("{} of {} items done, {} of them refused", number(done), number(total), number(failed));
    let share = |items: i32| f64::from(items.max(0)) / f64::from(total.max(1)) * 100.0;
    let (good, bad) = (share(done - failed), share(failed));
    html! {
        span.progress {
            svg.meter viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(words) {
                rect.good width=(format!("{good:.1}")) height="6" {}
                rect.bad x=(format!("{good:.1}")) width=(format!("{bad:.1}")) height="6" {}
            }
            span { (number(done)) "/" (number(total)) }
            @if failed > 0 { span.refused { (number(failed)) " refused" } }
        }
    }
}

/// Names of changed fields that are listed.
const NAMES: usize = 4;

/// The names of the changed fields of an audit record.
pub(super) fn fields(changes: &Value) -> String {
    let names: Vec<_> =
        changes.as_object().into_iter().flat_map(|changes| changes.keys().map(String::as_str)).collect();
    match names.len() {
        0 => "no other field".to_owned(),
        1..=NAMES => names.join(", "),
        all => format!("{} and {} more", names[..NAMES].join(", "), all - NAMES),
    }
}

/// Indented JSON.
pub(super) fn json(value: &Value) -> Markup {
    html! { pre tabindex="0" { code { (format!("{value:#}")) } } }
}

/// An empty list: what it means, and what to do.
pub(super) fn empty(title: &str, advice: &str) -> Markup {
    html! { div.empty { p { strong { (title) } } p.muted { (advice) } } }
}

/// Shown instead of a list, if its search cannot be read.
pub(super) fn unreadable() -> Markup {
    empty("The search cannot be read.", "Correct the marked field.")
}

/// The status that answered an attempt.
pub(super) fn status(attempt: &Value) -> Markup {
    match attempt["status"].as_i64() {
        Some(status @ 200..300) => badge(Tone::Good, &status.to_string()),
        // it is tried again without a person
        Some(status) => badge(Tone::Warn, &status.to_string()),
        None => badge(Tone::Warn, "none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_begins_with_a_capital_letter() {
        assert_eq!(["the form", "élan", "7 fields", ""].map(sentence), ["The form", "Élan", "7 fields", ""]);
    }

    #[test]
    fn any_name_is_shown_as_text() {
        let badge = badge(Tone::Quiet, "<script>alert('x')</script>\" onload=\"");
        assert!(!badge.0.contains("<script") && !badge.0.contains("\" onload"), "{}", badge.0);
    }
}
