//! What is wrong with an e-shop, the worst first, with the page where each can be looked into.

use chrono::{DateTime, Utc};
use longshore_domain::job::kind::JobState;
use longshore_domain::webhook::health::Health;
use longshore_operate::attention::{Refused, Unanswered};
use longshore_operate::eshop::{self, RUNS, Run};
use longshore_operate::order::attention::Silent;
use maud::{Markup, html};

use super::Found;
use crate::piece::{Tone, badge, counted, empty, number, seconds};

pub(crate) struct Wrong {
    tone: Tone,
    word: &'static str,
    sentence: String,
    address: Option<String>,
}

pub(super) fn draw(found: &Found, now: DateTime<Utc>) -> Markup {
    let mut all: Vec<Wrong> = [inactive(found), partner(found, now)].into_iter().flatten().collect();
    all.extend(syncs(found, now));
    all.extend(retrying(&found.runs, now));
    all.extend(refusing(&found.runs, now));
    all.extend(found.unanswered.iter().map(|silent| unanswered(silent, now)));
    all.extend(webhooks(found, now));
    all.extend(found.silent.iter().map(|silent| warehouse(silent, now)));
    all.sort_by_key(|wrong| wrong.tone != Tone::Bad);
    list(&all, "The partner, the syncs, the webhooks and the warehouses work as far as is known.")
}

/// What is wrong, or that nothing is.
pub(crate) fn list(all: &[Wrong], nothing: &str) -> Markup {
    html! {
        section.attention aria-labelledby="wrong-title" {
            h2 #wrong-title { "What is wrong" }
            @if all.is_empty() {
                (empty("Nothing is wrong.", nothing))
            } @else {
                ul {
                    @for wrong in all {
                        li {
                            @match &wrong.address {
                                Some(address) => a href=(address) { (badge(wrong.tone, wrong.word)) span { (wrong.sentence) } },
                                None => p { (badge(wrong.tone, wrong.word)) span { (wrong.sentence) } },
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A warehouse whose system fails, is behind, or has not answered a cancel.
pub(crate) fn warehouse(silent: &Silent, now: DateTime<Utc>) -> Wrong {
    let sentence = format!("{}: {}", silent.wms, silent.in_words(now));
    let tone = if silent.failing_since.is_some() { Tone::Bad } else { Tone::Warn };
    Wrong { tone, word: "warehouse", sentence, address: Some(format!("/console/wms/{}", silent.wms_id)) }
}

fn lasted(since: DateTime<Utc>, now: DateTime<Utc>) -> String {
    seconds((now - since).as_seconds_f64())
}

fn inactive(found: &Found) -> Option<Wrong> {
    let sentence = "The e-shop is not active: the clock starts no sync.".to_owned();
    (!found.eshop.active).then_some(Wrong { tone: Tone::Warn, word: "inactive", sentence, address: None })
}

/// What the partner refuses, and a partner that is not called.
fn partner(found: &Found, now: DateTime<Utc>) -> Option<Wrong> {
    let setting = found.setting.as_ref()?;
    if let (Some(error), Some(at)) = (&setting.error, setting.error_at) {
        let sentence = format!("{}: {error} ({} ago)", setting.integration, lasted(at, now));
        let address = setting.error_job.map(|job| format!("/console/job/{job}"));
        return Some(Wrong { tone: Tone::Bad, word: "partner", sentence, address });
    }
    let sentence = format!("The integration with {} is paused.", setting.integration);
    (!setting.active).then_some(Wrong { tone: Tone::Warn, word: "paused", sentence, address: None })
}

fn syncs(found: &Found, now: DateTime<Utc>) -> Vec<Wrong> {
    let failing = eshop::failing(&found.runs).into_iter();
    failing
        .map(|failing| {
            let at_least = if failing.is_older { "at least " } else { "" };
            let runs = counted(i64::try_from(failing.runs).unwrap_or(RUNS), "run", "runs");
            let sentence = format!(
                "{} has failed for {}, {at_least}{runs} in a row.",
                failing.kind,
                lasted(failing.since, now)
            );
            let newest = found.runs.iter().find(|run| run.kind == failing.kind);
            let address = newest.map(|run| format!("/console/job/{}", run.id));
            Wrong { tone: Tone::Bad, word: "sync", sentence, address }
        })
        .collect()
}

/// Syncs that wait for their next attempt.
fn retrying(runs: &[Run], now: DateTime<Utc>) -> impl Iterator<Item = Wrong> {
    runs.iter().filter(|run| run.state == JobState::Retrying).map(move |run| {
        let error = run.error.as_deref().map_or_else(String::new, |error| format!(": {error}"));
        let sentence = format!(
            "{} has not succeeded for {}, and is tried again{error}",
            run.kind,
            lasted(run.created_at, now)
        );
        let address = Some(format!("/console/job/{}", run.id));
        Wrong { tone: Tone::Warn, word: "sync", sentence, address }
    })
}

/// Kinds of sync whose last run refused its rows. A run without rows says nothing.
fn refusing(runs: &[Run], now: DateTime<Utc>) -> Vec<Wrong> {
    let of_a_kind = runs.chunk_by(|one, other| one.kind == other.kind);
    let refusing = of_a_kind.filter_map(|runs| {
        let mut with_rows = runs.iter().filter(|run| run.state == JobState::Succeeded && run.total > 0);
        let last = with_rows.next()?;
        let refused = Refused::of(last.total, last.failed)?;
        let before = with_rows.take_while(|run| Refused::of(run.total, run.failed).is_some());
        let since = before.last().unwrap_or(last).created_at;
        let sentence = format!(
            "{} has refused {} rows for {}: {} of {} in the last run.",
            last.kind,
            refused.in_words(),
            lasted(since, now),
            number(last.failed),
            number(last.total)
        );
        let tone = if refused == Refused::All { Tone::Bad } else { Tone::Warn };
        let address = Some(format!("/console/job/{}", last.id));
        Some(Wrong { tone, word: "refused", sentence, address })
    });
    refusing.collect()
}

/// Jobs that make no progress at the partner.
fn unanswered(silent: &Unanswered, now: DateTime<Utc>) -> Wrong {
    let address = Some(format!("/console/job/{}", silent.job));
    Wrong { tone: Tone::Warn, word: "partner", sentence: silent.in_words(now), address }
}

fn webhooks(found: &Found, now: DateTime<Utc>) -> Vec<Wrong> {
    let Some(webhooks) = &found.webhooks else { return Vec::new() };
    if webhooks.is_empty() {
        let sentence = "No webhook listens: no event of this e-shop is sent.".to_owned();
        return vec![Wrong { tone: Tone::Quiet, word: "silent", sentence, address: None }];
    }
    let unwell = webhooks.iter().filter_map(|webhook| {
        let health = webhook.health();
        let (tone, why) = match health {
            Health::Healthy => return None,
            Health::Disabled => (Tone::Bad, webhook.disabled_reason.clone().unwrap_or_default()),
            Health::Inactive => (Tone::Quiet, "it is not active, its deliveries are kept".to_owned()),
            Health::Failing => {
                let since = webhook.failing_since.map(|since| lasted(since, now)).unwrap_or_default();
                let failures = counted(i64::from(webhook.failures), "attempt", "attempts");
                (Tone::Bad, format!("failing for {since}, {failures} in a row"))
            }
        };
        let sentence = format!("{}: {why}.", webhook.destination);
        let address = Some(format!("/console/webhook/{}", webhook.id));
        Some(Wrong { tone, word: health.as_str(), sentence, address })
    });
    unwell.collect()
}
