//! What is wrong with an e-shop, the worst first, with the page where each can be looked into.

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Page, Silence};
use longshore_domain::webhook::health::Health;
use longshore_kernel::access::Permission;
use longshore_operate::order::attention::Silent;
use maud::{Markup, html};
use uuid::Uuid;

use super::Found;
use crate::address;
use crate::attention::{said, tone};
use crate::piece::{Tone, badge, counted, empty, seconds};
use crate::visit::Visit;

/// Something that is wrong.
pub(crate) struct Wrong {
    tone: Tone,
    word: &'static str,
    sentence: String,
    address: Option<String>,
    silence: Option<Silence>,
}

impl Wrong {
    fn new(tone: Tone, word: &'static str, sentence: String, address: Option<String>) -> Self {
        Self { tone, word, sentence, address, silence: None }
    }

    /// A line of what needs attention, with the address of what shows it; quiet where it was acknowledged or muted.
    pub(crate) fn of_line(line: &Line, address: String) -> Self {
        let tone = if line.silence.is_some() { Tone::Quiet } else { tone(line.severity) };
        let (sentence, address) = (line.sentence.clone(), Some(address));
        Self { tone, word: line.word, sentence, address, silence: line.silence.clone() }
    }
}

/// Kinds of lines about webhooks, for which the page of an e-shop has a line for each webhook.
const OF_WEBHOOKS: [Kind; 3] = [Kind::Destination, Kind::FailingWebhooks, Kind::DisabledWebhooks];

pub(super) fn draw<P>(visit: &Visit<P>, found: &Found) -> Markup {
    let (now, id) = (visit.now(), found.eshop.id);
    let mut all: Vec<Wrong> = inactive(found).into_iter().chain(partner(found, now)).collect();
    let is_shown = |line: &&Line| sees(visit, line.kind) && !OF_WEBHOOKS.contains(&line.kind);
    let others = found.lines.iter().filter(is_shown);
    all.extend(others.map(|line| Wrong::of_line(line, narrowed(&line.page, "eshop", id.get()))));
    all.extend(webhooks(found, now));
    all.extend(found.silent.iter().map(|silent| warehouse(silent, now)));
    all.sort_by_key(|wrong| match wrong.tone {
        Tone::Bad => 0,
        Tone::Quiet => 2,
        _ => 1,
    });
    list(
        &all,
        "The partner, the syncs, the orders, the webhooks and the warehouses work as far as is known.",
        now,
    )
}

/// Whether a visitor may see lines of a kind.
pub(crate) fn sees<P>(visit: &Visit<P>, kind: Kind) -> bool {
    visit.can(match kind {
        Kind::Destination
        | Kind::ExhaustedDeliveries
        | Kind::SlowWebhook
        // of all readers, also those that a connector has not made
        | Kind::StartingReader
        | Kind::UnreadReader
        | Kind::DisabledWebhooks
        | Kind::FailingWebhooks => Permission::ReadWebhooks,
        Kind::Warehouse
        | Kind::ContradictedOrders
        | Kind::DoubtfulOrders
        | Kind::LostOrders
        | Kind::RefusedReports => Permission::ReadWmsSettings,
        Kind::MarkedStocks | Kind::ShortStocks | Kind::IncorrectOrders => Permission::Read,
        Kind::SetBack
        | Kind::Redis
        | Kind::Queue
        | Kind::LateDeliveries
        | Kind::Vacuum
        | Kind::NoisyOrganisation => Permission::ReadQueues,
        Kind::DeprecatedOperation => Permission::ReadAudit,
        _ => Permission::ReadJobs,
    })
}

/// The address of what shows a line, only for one e-shop or organisation where the list can be narrowed to it.
pub(crate) fn narrowed(page: &Page, part: &str, id: Uuid) -> String {
    match (page, part) {
        // of the e-shop whose page it is, the jobs that it is about
        (Page::Record(_, own), _) if *own == id => format!("/console/job?{part}={id}&state=failed"),
        (Page::Failures, _) => format!("/console/job?{part}={id}&state=failed"),
        (Page::Jobs(state), _) => format!("/console/job?{part}={id}&state={state}"),
        (Page::Orders, "eshop") => format!("/console/order?{part}={id}&status=incorrect"),
        _ => address::of(page),
    }
}

/// What is wrong, or that nothing is.
pub(crate) fn list(all: &[Wrong], nothing: &str, now: DateTime<Utc>) -> Markup {
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
                            @if let Some(silence) = &wrong.silence { (said(silence, now)) }
                        }
                    }
                }
            }
        }
    }
}

/// A warehouse whose system fails, is behind, or has not answered a cancel.
fn warehouse(silent: &Silent, now: DateTime<Utc>) -> Wrong {
    let sentence = format!("{}: {}", silent.wms, silent.in_words(now));
    let tone = if silent.failing_since.is_some() { Tone::Bad } else { Tone::Warn };
    Wrong::new(tone, "warehouse", sentence, Some(format!("/console/wms/{}", silent.wms_id)))
}

fn lasted(since: DateTime<Utc>, now: DateTime<Utc>) -> String {
    seconds((now - since).as_seconds_f64())
}

fn inactive(found: &Found) -> Option<Wrong> {
    let sentence = "The e-shop is not active: the clock starts no sync.".to_owned();
    (!found.eshop.active).then(|| Wrong::new(Tone::Warn, "inactive", sentence, None))
}

/// What the partner refuses, where no failed job says it, and a partner that is not called.
fn partner(found: &Found, now: DateTime<Utc>) -> Option<Wrong> {
    let setting = found.setting.as_ref()?;
    if let (Some(error), Some(at)) = (&setting.error, setting.error_at) {
        let says = |line: &Line| line.kind == Kind::FailingJobs && line.sentence.contains(error.as_str());
        if found.lines.iter().any(says) {
            return None;
        }
        let sentence = format!("{}: {error} ({} ago)", setting.integration, lasted(at, now));
        let address = setting.error_job.map(|job| format!("/console/job/{job}"));
        return Some(Wrong::new(Tone::Bad, "partner", sentence, address));
    }
    let sentence = format!("The integration with {} is paused.", setting.integration);
    (!setting.active).then(|| Wrong::new(Tone::Quiet, "paused", sentence, None))
}

fn webhooks(found: &Found, now: DateTime<Utc>) -> Vec<Wrong> {
    let Some(webhooks) = &found.webhooks else { return Vec::new() };
    if webhooks.is_empty() {
        let sentence = "No webhook listens: no event of this e-shop is sent.".to_owned();
        return vec![Wrong::new(Tone::Quiet, "silent", sentence, None)];
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
                (Tone::Warn, format!("failing for {since}, {failures} in a row"))
            }
        };
        let sentence = format!("{}: {why}.", webhook.destination);
        let address = Some(format!("/console/webhook/{}", webhook.id));
        Some(Wrong::new(tone, health.as_str(), sentence, address))
    });
    unwell.collect()
}
