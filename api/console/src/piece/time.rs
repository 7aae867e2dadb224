//! Moments and durations.

use chrono::{DateTime, SecondsFormat, Utc};
use longshore_kernel::figure::{milliseconds, stamp, whole_seconds};
use maud::{Markup, html};
use serde_json::Value;

use super::none;

/// How long ago a moment was, with the full time as a tooltip.
pub(crate) fn time(at: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    let full = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    html! { time datetime=(full) title=(stamp(at)) { (distance(at, now)) } }
}

/// A full time, with how long ago it was. Where the visitor prefers the local time, the script writes it.
pub(crate) fn full_time(at: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    html! {
        time data-full="" datetime=(at.to_rfc3339_opts(SecondsFormat::Millis, true)) { (stamp(at)) }
        " " span.muted { (distance(at, now)) }
    }
}

/// Until when nothing is sent because the destination asked for a pause.
pub(crate) fn until_asked(until: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    html! { " until " (full_time(until, now)) ", as the destination asked" }
}

/// How long ago a moment was, and when, for lists.
pub(crate) fn moment(at: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    let full = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let short = if (now - at).num_hours().abs() < 12 { "%H:%M:%S" } else { "%m-%d %H:%M" };
    html! {
        span.moment {
            (time(at, now))
            time.muted data-short="" datetime=(full) { (at.format(short)) }
        }
    }
}

/// The same of an optional moment.
pub(crate) fn moment_or_none(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Markup {
    at.map_or_else(none, |at| moment(at, now))
}

/// An optional moment.
pub(crate) fn time_or_none(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Markup {
    at.map_or_else(none, |at| time(at, now))
}

fn distance(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let seconds = (now - at).num_seconds();
    if seconds.abs() < 2 {
        "now".to_owned()
    } else if seconds > 0 {
        format!("{} ago", whole_seconds(seconds))
    } else {
        format!("in {}", whole_seconds(-seconds))
    }
}

/// A duration between two moments.
pub(crate) fn took(from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>) -> Markup {
    match (from, to) {
        (Some(from), Some(to)) => {
            let ms = (to - from).num_milliseconds().max(0);
            html! { (milliseconds(f64::from(i32::try_from(ms).unwrap_or(i32::MAX)))) }
        }
        _ => none(),
    }
}

/// How long ago an attempt began.
pub(crate) fn attempt_time(attempt: &Value, now: DateTime<Utc>) -> Markup {
    time_or_none(attempted_at(attempt), now)
}

/// When an attempt began.
pub(crate) fn attempted_at(attempt: &Value) -> Option<DateTime<Utc>> {
    attempt["at"].as_str()?.parse().ok()
}
