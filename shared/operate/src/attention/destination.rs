//! Destinations that fail, and what was exhausted at one and not sent again. A line is about a host of an e-shop, as that knows it.

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page};
use longshore_domain::webhook::health::exhausted::Exhausted;
use longshore_domain::webhook::health::{COUNTED, Unwell};
use longshore_kernel::figure::{AtLeast, number, seconds};
use longshore_kernel::ids::WebhookId;
use url::Url;
use uuid::Uuid;

/// Hosts whose webhooks fail, the first to fail first: the last answer, since when, and what waits for them.
pub(super) fn failing(unwell: &[Unwell], now: DateTime<Utc>) -> Vec<Line> {
    let hosts = by_host(unwell, |webhook| (webhook.source_id, host(&webhook.destination)));
    hosts.iter().filter_map(|(host, webhooks)| of_failing(host, webhooks, now)).collect()
}

/// Hosts with exhausted deliveries that were not sent again, the last one first.
pub(super) fn exhausted(missed: &[Exhausted], now: DateTime<Utc>) -> Vec<Line> {
    let hosts = by_host(missed, |webhook| (webhook.source_id, host(&webhook.destination)));
    hosts.iter().filter_map(|(host, webhooks)| of_exhausted(host, webhooks, now)).collect()
}

/// A host of an e-shop, or of an organisation.
type Host = (Uuid, String);

/// Webhooks by where they go, in the order of the first of each host.
fn by_host<W>(webhooks: &[W], of: impl Fn(&W) -> Host) -> Vec<(Host, Vec<&W>)> {
    let mut hosts: Vec<(Host, Vec<&W>)> = Vec::new();
    for webhook in webhooks {
        let host = of(webhook);
        match hosts.iter_mut().find(|(known, _)| *known == host) {
            Some((_, others)) => others.push(webhook),
            None => hosts.push((host, vec![webhook])),
        }
    }
    hosts
}

fn of_failing((source_id, host): &Host, webhooks: &[&Unwell], now: DateTime<Utc>) -> Option<Line> {
    let first = webhooks.first()?;
    let last = first.last.as_ref();
    let answer = last.and_then(|last| last["status"].as_i64());
    let answer = answer.map_or_else(|| "failing".to_owned(), |status| status.to_string());
    // a sentence of its own, which stands at the end
    let error = last.filter(|last| last["status"].is_null()).and_then(|last| last["error"].as_str());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    let lasted = seconds((now - first.since).as_seconds_f64());
    let waiting = webhooks.iter().map(|webhook| AtLeast::up_to(webhook.waiting, COUNTED)).sum::<AtLeast>();
    let sentence = format!(
        "{host} ({}): {answer} for {lasted}, {} waiting{error}.",
        whose(&first.eshop, webhooks.len()),
        waiting.in_words()
    );
    let owner = Owner::Organisation(first.organisation_id);
    let page = page(host, first.id, webhooks.len());
    let line = Line::new(Kind::Destination, &format!("{source_id} {host}"), owner, sentence, page);
    let cause = webhooks.iter().map(|webhook| webhook.since).max();
    Some(Line { word: "webhook", cause, ..line })
}

fn of_exhausted((source_id, host): &Host, webhooks: &[&Exhausted], now: DateTime<Utc>) -> Option<Line> {
    let first = webhooks.first()?;
    let of = |webhook: &&Exhausted| AtLeast { count: webhook.deliveries, is_more: webhook.is_more };
    let missed = webhooks.iter().map(of).sum::<AtLeast>();
    let last = webhooks.iter().map(|webhook| webhook.last_at).max()?;
    let sentence = format!(
        "{host} ({}): {} {} exhausted, the last {} ago. Replay sends them again.",
        whose(&first.eshop, webhooks.len()),
        missed.in_words(),
        if missed.count == 1 && !missed.is_more { "delivery" } else { "deliveries" },
        seconds((now - last).as_seconds_f64())
    );
    let owner = Owner::Organisation(first.organisation_id);
    let page = page(host, first.id, webhooks.len());
    let line = Line::new(Kind::ExhaustedDeliveries, &format!("{source_id} {host}"), owner, sentence, page);
    Some(Line { word: "exhausted", cause: webhooks.iter().map(|webhook| cause(webhook)).max(), ..line })
}

/// One more exhausted delivery is something new, but not one more of an outage that was seen. The end of that outage is: now a replay
/// delivers.
fn cause(webhook: &Exhausted) -> DateTime<Utc> {
    webhook.failing_since.map_or(webhook.last_at, |since| since.min(webhook.last_at))
}

fn whose(eshop: &str, webhooks: usize) -> String {
    if webhooks > 1 {
        format!("{eshop}, {} webhooks", number(i64::try_from(webhooks).unwrap_or(i64::MAX)))
    } else {
        eshop.to_owned()
    }
}

/// The page of the only webhook, or the list of those with this host.
fn page(host: &str, only: WebhookId, webhooks: usize) -> Page {
    if webhooks > 1 { Page::WebhooksAt(host.to_owned()) } else { Page::Record("webhook", only.into()) }
}

/// The host of a destination, or all of it where it cannot be read.
fn host(destination: &str) -> String {
    let url = Url::parse(destination).ok();
    url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| destination.to_owned())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;

    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_767_225_600, 0).unwrap()
    }

    #[test]
    fn a_destination_is_named_with_its_answer_or_with_why_there_is_none() {
        let said = |last| {
            let id = Uuid::nil();
            let webhook = Unwell {
                id: id.into(),
                destination: "https://shop.example/in".to_owned(),
                organisation_id: id.into(),
                source_id: id,
                eshop: "Harbour".to_owned(),
                since: now() - TimeDelta::minutes(2),
                last,
                waiting: 3,
            };
            failing(&[webhook], now()).remove(0).sentence
        };
        let late = json!({"status": null, "error": "no complete response within 15 s"});
        assert_eq!(said(Some(json!({"status": 503}))), "shop.example (Harbour): 503 for 2 min, 3 waiting.");
        assert_eq!(
            said(Some(late)),
            "shop.example (Harbour): failing for 2 min, 3 waiting: no complete response within 15 s."
        );
        assert_eq!(said(None), "shop.example (Harbour): failing for 2 min, 3 waiting.");
    }

    #[test]
    fn what_was_exhausted_is_counted_over_the_webhooks_of_a_host() {
        let of = |webhook: u128, deliveries, minutes_ago| Exhausted {
            id: Uuid::from_u128(webhook).into(),
            destination: format!("https://shop.example/{webhook}"),
            organisation_id: Uuid::nil().into(),
            source_id: Uuid::nil(),
            eshop: "Harbour".to_owned(),
            deliveries,
            is_more: deliveries >= 100,
            last_at: now() - TimeDelta::minutes(minutes_ago),
            failing_since: None,
        };
        let only = exhausted(&[of(1, 1, 5)], now()).remove(0);
        assert_eq!(
            only.sentence,
            "shop.example (Harbour): 1 delivery exhausted, the last 5 min ago. Replay sends them again."
        );
        let mut two = exhausted(&[of(1, 2, 5), of(2, 100, 9)], now());
        let both = two.remove(0);
        assert!(two.is_empty() && both.id == only.id);
        assert_eq!(
            both.sentence,
            "shop.example (Harbour, 2 webhooks): 102+ deliveries exhausted, the last 5 min ago. Replay sends them again."
        );
        assert_eq!(both.page, Page::WebhooksAt("shop.example".to_owned()));
    }

    #[test]
    fn what_an_outage_exhausts_is_nothing_new_until_the_outage_ends() {
        let cause_of = |last_minutes, failing_minutes: Option<i64>| {
            cause(&Exhausted {
                id: WebhookId::nil(),
                destination: String::new(),
                organisation_id: Uuid::nil().into(),
                source_id: Uuid::nil(),
                eshop: String::new(),
                deliveries: 1,
                is_more: false,
                last_at: now() - TimeDelta::minutes(last_minutes),
                failing_since: failing_minutes.map(|minutes| now() - TimeDelta::minutes(minutes)),
            })
        };
        assert_eq!(cause_of(9, Some(60)), cause_of(3, Some(60)), "one more of the same outage");
        assert!(cause_of(3, None) > cause_of(3, Some(60)), "its end");
        assert!(cause_of(3, None) > cause_of(9, None), "one more");
        assert_eq!(cause_of(90, Some(60)), cause_of(90, None), "what was exhausted before it");
    }
}
