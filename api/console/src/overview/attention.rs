//! Problems that need attention now, the worst first.

use chrono::{DateTime, Utc};
use longshore_http::extract::permit;
use longshore_shared::job::attention::{self as jobs, Behind, COUNTED, Failing, STUCK_MINUTES};
use longshore_shared::kernel::horizon::{self, Holder, Horizon};
use longshore_shared::kernel::problem::Problem;
use longshore_shared::kernel::queue::{RedisHealth, RedisState};
use longshore_shared::operate::order::attention::{self as orders, Silent};
use longshore_shared::operate::standing::{Shown, Standing, Verdict};
use longshore_shared::webhook::health::{self, Unwell};
use maud::{Markup, html};

use crate::piece::{Tone, badge, counted, empty, number, seconds, up_to};
use crate::queue::{in_words, paused};
use crate::visit::Visit;

/// Something is late after it has been due for this many seconds.
const LATE: f64 = 60.0;

/// Webhooks that are looked at to name their hosts; all of them are counted.
const NAMED: i64 = 50;
/// Hosts, and warehouses, that are named.
const HOSTS: usize = 5;

struct Matter {
    tone: Tone,
    word: &'static str,
    sentence: String,
    address: String,
}

pub(super) async fn read(visit: &Visit<permit::ReadQueues>, stands: &Standing) -> Result<Markup, Problem> {
    let due = stands.deliveries;
    let (jobs, orders, silent, webhooks, unwell, horizon) = tokio::try_join!(
        jobs::read(visit.db(), visit.scope()),
        orders::count(visit.db(), visit.scope()),
        orders::silent(visit.db(), visit.scope()),
        health::attention(visit.db(), visit.scope()),
        health::unwell(visit.db(), visit.scope(), NAMED),
        horizon(visit),
    )?;
    let now = visit.now();
    let queues = stands.queues.iter().flat_map(|queue| [of_queue(queue), of_pause(queue)]);
    let mut matters: Vec<Matter> = of_redis(&stands.redis).into_iter().chain(queues.flatten()).collect();
    if let (Some(job), Some(since)) = (jobs.stuck_job, jobs.stuck_since) {
        let idle = seconds((visit.now() - since).as_seconds_f64());
        let sentence = if jobs.stuck == 1 {
            format!("1 running job has made no progress for {idle}.")
        } else {
            let count = up_to(jobs.stuck, COUNTED);
            format!(
                "{count} running jobs have made no progress for {STUCK_MINUTES} minutes; the longest for {idle}."
            )
        };
        matters.push(Matter {
            tone: Tone::Bad,
            word: "stuck",
            sentence,
            address: format!("/console/job/{job}"),
        });
    }
    matters.extend(of_hosts(&unwell, now));
    matters.extend(silent.iter().take(HOSTS).map(|warehouse| of_warehouse(warehouse, now)));
    matters.extend(jobs.failing.iter().map(|failing| of_failing(failing, now)));
    for Behind { ahead, kind, eshop, started_at, jobs } in &jobs.behind {
        let many = if *jobs == 1 { "job waits" } else { "jobs wait" };
        let whose = eshop.as_ref().map_or_else(String::new, |eshop| format!(" of {eshop}"));
        let running = match started_at {
            Some(begun) => format!(", running for {}", seconds((visit.now() - begun).as_seconds_f64())),
            None => String::new(),
        };
        let sentence = format!("{} {many} behind 1 {kind}{whose}{running}.", up_to(*jobs, COUNTED));
        matters.push(Matter {
            tone: Tone::Warn,
            word: "waiting",
            sentence,
            address: format!("/console/job/{ahead}"),
        });
    }
    let mut add = |count: i64, tone, word, [one, many]: [&str; 2], address: &str| {
        if count > 0 {
            let sentence = format!("{} {}", up_to(count, COUNTED), if count == 1 { one } else { many });
            matters.push(Matter { tone, word, sentence, address: address.to_owned() });
        }
    };
    let marked = [
        "stock has waited for the allocator for over a minute.",
        "stocks have waited for the allocator for over a minute.",
    ];
    add(orders.marked, Tone::Bad, "marked", marked, ORDERS);
    let short = [
        "stock has fewer pieces than orders that are being picked hold.",
        "stocks have fewer pieces than orders that are being picked hold.",
    ];
    add(orders.short, Tone::Bad, "short", short, ORDERS);
    let failed = ["job failed in the last 24 hours.", "jobs failed in the last 24 hours."];
    add(jobs.failed, Tone::Bad, "failed", failed, "/console/failure");
    let disabled = ["webhook is disabled.", "webhooks are disabled."];
    add(webhooks.disabled, Tone::Bad, "disabled", disabled, "/console/webhook?health=disabled");
    let failing = ["webhook is failing.", "webhooks are failing."];
    add(webhooks.failing, Tone::Warn, "failing", failing, "/console/webhook?health=failing");
    let refused = ["order is incorrect.", "orders are incorrect."];
    add(orders.refused.min(COUNTED), Tone::Warn, "incorrect", refused, ORDERS);
    let retrying = ["job is waiting for its next attempt.", "jobs are waiting for their next attempt."];
    add(jobs.retrying, Tone::Warn, "retrying", retrying, "/console/job?state=retrying");
    let at_partner = ["job is waiting for its partner.", "jobs are waiting for their partners."];
    add(jobs.at_partner, Tone::Warn, "waiting", at_partner, "/console/job?state=running");
    let paused = ["job is waiting for a paused queue.", "jobs are waiting for a paused queue."];
    add(jobs.paused, Tone::Warn, "paused", paused, "/console/queue");
    if due.oldest_seconds > LATE {
        let oldest = seconds(due.oldest_seconds);
        let sentence =
            format!("{} due, the oldest for {oldest}.", counted(due.due, "delivery", "deliveries"));
        matters.push(Matter {
            tone: Tone::Warn,
            word: "late",
            sentence,
            address: "/console/webhook".to_owned(),
        });
    }
    matters.extend(horizon.holders.iter().find(|holder| holder.is_long()).map(of_vacuum));
    matters.sort_by_key(|matter| matter.tone != Tone::Bad);
    Ok(draw(&matters))
}

/// Hosts of an e-shop whose webhooks fail, the first to fail first: the last answer, since when, and what waits for them.
fn of_hosts(unwell: &[Unwell], now: DateTime<Utc>) -> Vec<Matter> {
    let mut hosts: Vec<(String, Vec<&Unwell>)> = Vec::new();
    for webhook in unwell {
        let host = host(&webhook.destination);
        let is_of = |(known, others): &&mut (String, Vec<&Unwell>)| {
            *known == host && others.first().is_some_and(|other| other.eshop == webhook.eshop)
        };
        match hosts.iter_mut().find(is_of) {
            Some((_, others)) => others.push(webhook),
            None => hosts.push((host, vec![webhook])),
        }
    }
    hosts.iter().take(HOSTS).filter_map(|(host, webhooks)| of_host(host, webhooks, now)).collect()
}

fn of_host(host: &str, webhooks: &[&Unwell], now: DateTime<Utc>) -> Option<Matter> {
    let first = webhooks.first()?;
    let last = first.last.as_ref();
    let answer =
        match (last.and_then(|last| last["status"].as_i64()), last.and_then(|last| last["error"].as_str())) {
            (Some(status), _) => status.to_string(),
            (None, Some(error)) => error.to_owned(),
            (None, None) => "failing".to_owned(),
        };
    let lasted = seconds((now - first.since).as_seconds_f64());
    let waiting: i64 = webhooks.iter().map(|webhook| webhook.waiting).sum();
    let is_more = webhooks.iter().any(|webhook| webhook.waiting >= health::COUNTED);
    let waiting = format!("{}{}", number(waiting), if is_more { "+" } else { "" });
    let several = if webhooks.len() > 1 { format!(", {} webhooks", webhooks.len()) } else { String::new() };
    let sentence = format!("{host} ({}{several}): {answer} for {lasted}, {waiting} waiting.", first.eshop);
    let address = if webhooks.len() > 1 {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("text", host).finish();
        format!("/console/webhook?{query}")
    } else {
        format!("/console/webhook/{}", first.id)
    };
    Some(Matter { tone: Tone::Bad, word: "webhook", sentence, address })
}

/// The host of a destination, or all of it where it cannot be read.
fn host(destination: &str) -> String {
    let url = url::Url::parse(destination).ok();
    url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| destination.to_owned())
}

/// A warehouse whose system fails, is behind, or has not answered a cancel.
fn of_warehouse(warehouse: &Silent, now: DateTime<Utc>) -> Matter {
    let lasted = warehouse.since().map(|since| seconds((now - since).as_seconds_f64()));
    let lasted = lasted.map(|lasted| format!(" for {lasted}")).unwrap_or_default();
    let what = match (&warehouse.error, warehouse.failing_since) {
        (Some(error), Some(_)) => format!("{error}{lasted}"),
        (None, Some(_)) => format!("failing{lasted}"),
        _ if warehouse.is_paused => format!("paused, behind{lasted}"),
        _ => format!("behind{lasted}"),
    };
    let waiting = up_to(warehouse.waiting, orders::WAITING);
    let cancels = match warehouse.unanswered {
        0 => String::new(),
        many => format!(", {} unanswered for over an hour", counted(many, "cancel", "cancels")),
    };
    let sentence =
        format!("{} ({}): {what}, {waiting} orders waiting{cancels}.", warehouse.wms, warehouse.organisation);
    Matter {
        tone: Tone::Bad,
        word: "warehouse",
        sentence,
        address: format!("/console/wms/{}", warehouse.wms_id),
    }
}

/// Jobs of an e-shop that have failed since they last succeeded.
fn of_failing(failing: &Failing, now: DateTime<Utc>) -> Matter {
    let lasted = seconds((now - failing.since).as_seconds_f64());
    let times =
        if failing.jobs == 1 { "once".to_owned() } else { format!("{} times", up_to(failing.jobs, COUNTED)) };
    let error = failing.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let sentence = format!("{} of {} has failed {times} in {lasted}{error}", failing.kind, failing.eshop);
    let address = format!("/console/eshop/{}", failing.eshop_id);
    Matter { tone: Tone::Bad, word: "failing", sentence, address }
}

/// What holds back vacuum, only for visitors with access to everything: it names sessions and roles of
/// Postgres.
async fn horizon(visit: &Visit<permit::ReadQueues>) -> Result<Horizon, Problem> {
    if visit.scope().organisations().is_some() {
        return Ok(Horizon::default());
    }
    horizon::look(&visit.db().lists).await
}

fn of_vacuum(holder: &Holder) -> Matter {
    let since = holder.seconds.map_or_else(String::new, |held| format!(" for {}", seconds(held)));
    let login = holder.login.as_ref().map_or_else(String::new, |login| format!(" of {login}"));
    let sentence = format!(
        "Vacuum of Postgres is held back{since} by {} transactions: {} {}{login}.",
        number(holder.transactions),
        holder.kind,
        holder.name
    );
    Matter { tone: Tone::Warn, word: "vacuum held back", sentence, address: "/console".to_owned() }
}

const QUEUES: &str = "/console/queue";
const ORDERS: &str = "/console/order/attention";

/// The problem that Redis cannot, or soon cannot, carry the queues; listed once and not for each queue.
fn of_redis(redis: &RedisHealth) -> Option<Matter> {
    let memory = redis.memory.map_or_else(String::new, |memory| format!(" ({})", memory.in_words()));
    let (tone, word, sentence) = match redis.state {
        RedisState::Unreachable => {
            let sentence =
                "Redis cannot be reached. Requests are accepted; jobs and webhooks wait in Postgres.";
            (Tone::Bad, "Redis away", sentence.to_owned())
        }
        RedisState::RefusesWrites => {
            let error = redis.error.as_deref().unwrap_or_default();
            let sentence = format!(
                "Redis refuses writes{memory}: {error}. Requests are accepted; jobs and webhooks wait in Postgres."
            );
            (Tone::Bad, "Redis refuses writes", sentence)
        }
        RedisState::Up if redis.memory.is_some_and(|memory| memory.is_nearly_full()) => {
            let sentence =
                format!("Redis is nearly full{memory}. A full Redis refuses writes, and no work starts.");
            (Tone::Warn, "nearly full", sentence)
        }
        RedisState::Up => return None,
    };
    Some(Matter { tone, word, sentence, address: QUEUES.to_owned() })
}

fn of_queue(queue: &Shown) -> Option<Matter> {
    let told = [Verdict::Working, Verdict::Idle, Verdict::NotDue, Verdict::Away, Verdict::Refused];
    if told.contains(&queue.verdict()) {
        return None;
    }
    let (tone, word, sentence) = in_words(queue);
    let sentence = format!("Queue {}: {sentence}", queue.wish.queue);
    Some(Matter { tone, word, sentence, address: QUEUES.to_owned() })
}

/// The pause of a queue, if its verdict names something worse.
fn of_pause(queue: &Shown) -> Option<Matter> {
    let sentence = format!("Queue {}: {}", queue.wish.queue, paused(queue));
    let is_unsaid = queue.wish.paused && queue.verdict() != Verdict::Paused;
    is_unsaid.then(|| Matter { tone: Tone::Warn, word: "paused", sentence, address: QUEUES.to_owned() })
}

fn draw(matters: &[Matter]) -> Markup {
    html! {
        section.attention aria-labelledby="attention-title" {
            h2 #attention-title { "Needs attention" }
            @if matters.is_empty() {
                (empty("No problems.", "Problems are listed here, the most severe first."))
            } @else {
                ul {
                    @for matter in matters {
                        li { a href=(matter.address) { (badge(matter.tone, matter.word)) span { (matter.sentence) } } }
                    }
                }
            }
        }
    }
}
