//! The lines, read from what they are about.

use chrono::{DateTime, Utc};
use longshore_domain::job::attention::{self as jobs, Behind, COUNTED, Failing, STUCK_MINUTES};
use longshore_domain::job::shares::LISTED;
use longshore_domain::webhook::health::{self, exhausted};
use longshore_kernel::access::Scope;
use longshore_kernel::figure::{counted, number, seconds, up_to};
use longshore_kernel::horizon::{self, Holder, Horizon};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::{RedisHealth, RedisState};
use longshore_kernel::services::Services;

use super::{Counted, Kind, Line, Owner, Severity, destination, noisy, partner, refused, reports};
use crate::order::attention::{self as orders, Counts, Silent};
use crate::standing::{Shown, Standing, Verdict};

/// Something is late after it has been due for this many seconds.
pub(super) const LATE: f64 = 60.0;
/// Webhooks that are looked at to name their hosts; the others are counted.
const NAMED: i64 = 50;

const QUEUES: &str = "/console/queue";
const ORDERS: &str = "/console/order/attention";

/// All lines for a scope but those about the service, and what was counted for them.
pub(super) async fn others(services: &Services, scope: &Scope) -> Result<(Vec<Line>, Counted), Problem> {
    let (db, now) = (&services.db, services.clock.now());
    let (jobs, refused, unanswered, (of_orders, orders), webhooks, unwell, exhausted) = tokio::try_join!(
        jobs::read(db, scope),
        refused::lines(db, scope, now),
        partner::lines(db, scope, now),
        of_orders(services, scope),
        health::attention(db, scope),
        health::unwell(db, scope, NAMED),
        exhausted::read(db, scope, LISTED),
    )?;
    let mut lines: Vec<Line> = of_stuck(&jobs, now).into_iter().collect();
    lines.extend(destination::failing(&unwell, now));
    lines.extend(destination::exhausted(&exhausted, now));
    lines.extend(of_orders);
    lines.extend(jobs.failing.iter().map(|failing| of_failing(failing, now)));
    lines.extend(refused);
    lines.extend(unanswered);
    lines.extend(jobs.behind.iter().map(|behind| of_behind(behind, now)));
    let named = i64::try_from(unwell.len()).map_err(Problem::internal)?;
    let sums = sums_of_webhooks(&webhooks, named).into_iter().chain(sums_of_jobs(&jobs));
    lines.extend(sums.filter_map(Sum::line));
    Ok((lines, Counted { failed_jobs: jobs.failed, incorrect_orders: orders.refused.min(COUNTED) }))
}

/// Lines about orders, their stocks, and the warehouses that they are handed over to; and their counts.
pub(super) async fn of_orders(services: &Services, scope: &Scope) -> Result<(Vec<Line>, Counts), Problem> {
    let (db, now) = (&services.db, services.clock.now());
    let (counts, silent, reports) = tokio::try_join!(
        orders::count(db, scope),
        orders::silent(db, scope),
        reports::lines(db, scope, now)
    )?;
    let warehouses = silent.iter().map(|warehouse| of_warehouse(warehouse, now)).chain(reports);
    let lines = warehouses.chain(sums_of_orders(&counts).into_iter().filter_map(Sum::line)).collect();
    Ok((lines, counts))
}

/// Lines about the service, and about the organisations that fill its queues.
pub(super) async fn of_service(
    services: &Services,
    scope: &Scope,
    stands: &Standing,
) -> Result<Vec<Line>, Problem> {
    let (horizon, noisy) = tokio::try_join!(vacuum(services, scope), noisy::lines(services, scope, stands))?;
    let queues = stands.queues.iter().flat_map(|queue| [of_queue(queue), of_pause(queue)]);
    let mut lines: Vec<Line> = of_redis(&stands.redis).into_iter().chain(queues.flatten()).collect();
    let due = stands.deliveries;
    if due.oldest_seconds > LATE {
        let oldest = seconds(due.oldest_seconds);
        // those whose destination fails are not late by the service
        let all = if due.is_more { "At least " } else { "" };
        let sentence =
            format!("{all}{} due, the oldest for {oldest}.", counted(due.free(), "delivery", "deliveries"));
        let line = of_the_service(Kind::LateDeliveries, "", sentence, "/console/webhook");
        lines.push(Line { severity: Severity::Warning, word: "late", ..line });
    }
    lines.extend(noisy);
    lines.extend(horizon.holders.iter().find(|holder| holder.is_long()).map(of_vacuum));
    Ok(lines)
}

fn of_the_service(kind: Kind, subject: &str, sentence: String, page: &str) -> Line {
    Line::new(kind, subject, Owner::Service, sentence, page.to_owned())
}

/// What holds back vacuum, only for callers with access to everything: it names sessions and roles of Postgres.
async fn vacuum(services: &Services, scope: &Scope) -> Result<Horizon, Problem> {
    if scope.organisations().is_some() {
        return Ok(Horizon::default());
    }
    horizon::look(&services.db.lists).await
}

fn of_vacuum(holder: &Holder) -> Line {
    let since = holder.seconds.map_or_else(String::new, |held| format!(" for {}", seconds(held)));
    let login = holder.login.as_ref().map_or_else(String::new, |login| format!(" of {login}"));
    let sentence = format!(
        "Vacuum of Postgres is held back{since} by {} transactions: {} {}{login}.",
        number(holder.transactions),
        holder.kind,
        holder.name
    );
    let subject = format!("{} {}", holder.kind, holder.name);
    let line = of_the_service(Kind::Vacuum, &subject, sentence, "/console");
    Line { severity: Severity::Warning, word: "vacuum held back", ..line }
}

/// The problem that Redis cannot, or soon cannot, carry the queues; one line, and not one for each queue.
fn of_redis(redis: &RedisHealth) -> Option<Line> {
    let memory = redis.memory.map_or_else(String::new, |memory| format!(" ({})", memory.in_words()));
    let (severity, word, sentence) = match redis.state {
        RedisState::Unreachable => {
            let sentence =
                "Redis cannot be reached. Requests are accepted; jobs and webhooks wait in Postgres.";
            (Severity::Critical, "Redis away", sentence.to_owned())
        }
        RedisState::RefusesWrites => {
            let error = redis.error.as_deref().unwrap_or_default();
            let sentence = format!(
                "Redis refuses writes{memory}: {error}. Requests are accepted; jobs and webhooks wait in Postgres."
            );
            (Severity::Critical, "Redis refuses writes", sentence)
        }
        RedisState::Up if redis.memory.is_some_and(|memory| memory.is_nearly_full()) => {
            let sentence =
                format!("Redis is nearly full{memory}. A full Redis refuses writes, and no work starts.");
            (Severity::Warning, "nearly full", sentence)
        }
        RedisState::Up => return None,
    };
    Some(Line { severity, word, ..of_the_service(Kind::Redis, word, sentence, QUEUES) })
}

fn of_queue(queue: &Shown) -> Option<Line> {
    let verdict = queue.verdict();
    let severity = match verdict {
        Verdict::Unattended => Severity::Critical,
        Verdict::Deserted | Verdict::Paused | Verdict::Waiting => Severity::Warning,
        // of Redis there is one line
        Verdict::Working | Verdict::Idle | Verdict::NotDue | Verdict::Away | Verdict::Refused => return None,
    };
    let sentence = format!("Queue {}: {}", queue.wish.queue, queue.sentence());
    let subject = if verdict == Verdict::Paused {
        pause_of(queue)
    } else {
        format!("{} {} {severity}", queue.wish.queue, verdict.as_str())
    };
    let line = of_the_service(Kind::Queue, &subject, sentence, QUEUES);
    Some(Line { severity, word: queue.word(), ..line })
}

/// The pause of a queue, if its verdict names something worse.
fn of_pause(queue: &Shown) -> Option<Line> {
    let is_unsaid = queue.wish.paused && queue.verdict() != Verdict::Paused;
    let sentence = format!("Queue {}: {}", queue.wish.queue, queue.pause_in_words());
    let line = of_the_service(Kind::Queue, &pause_of(queue), sentence, QUEUES);
    is_unsaid.then_some(Line { severity: Severity::Warning, word: "paused", ..line })
}

/// A pause is another one when the queue is paused again.
fn pause_of(queue: &Shown) -> String {
    let begun = queue.pause.as_ref().map_or_else(String::new, |pause| pause.at.to_rfc3339());
    format!("{} paused {begun}", queue.wish.queue)
}

fn of_stuck(jobs: &jobs::Attention, now: DateTime<Utc>) -> Option<Line> {
    let (job, since) = (jobs.stuck_job?, jobs.stuck_since?);
    let idle = seconds((now - since).as_seconds_f64());
    let sentence = if jobs.stuck == 1 {
        format!("1 running job has made no progress for {idle}.")
    } else {
        let count = up_to(jobs.stuck, COUNTED);
        format!(
            "{count} running jobs have made no progress for {STUCK_MINUTES} minutes; the longest for {idle}."
        )
    };
    let line = Line::new(Kind::StuckJobs, "", Owner::Caller, sentence, format!("/console/job/{job}"));
    Some(Line { word: "stuck", cause: jobs.stuck_last, ..line })
}

/// A warehouse whose system fails, is behind, or has not answered a cancel.
fn of_warehouse(warehouse: &Silent, now: DateTime<Utc>) -> Line {
    let sentence = format!("{} ({}): {}.", warehouse.wms, warehouse.organisation, warehouse.in_words(now));
    let owner = Owner::Organisation(warehouse.organisation_id);
    let page = format!("/console/wms/{}", warehouse.wms_id);
    let line = Line::new(Kind::Warehouse, &warehouse.wms_id.to_string(), owner, sentence, page);
    Line { word: "warehouse", cause: warehouse.since(), ..line }
}

/// Jobs of an e-shop that have failed since they last succeeded.
fn of_failing(failing: &Failing, now: DateTime<Utc>) -> Line {
    let lasted = seconds((now - failing.since).as_seconds_f64());
    let times =
        if failing.jobs == 1 { "once".to_owned() } else { format!("{} times", up_to(failing.jobs, COUNTED)) };
    let error = failing.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let sentence = format!("{} of {} has failed {times} in {lasted}{error}", failing.kind, failing.eshop);
    let subject = format!("{} {}", failing.eshop_id, failing.kind);
    let owner = Owner::Organisation(failing.organisation_id);
    let page = format!("/console/eshop/{}", failing.eshop_id);
    // what fails again after it succeeded is something new
    let line = Line::new(Kind::FailingJobs, &subject, owner, sentence, page);
    Line { word: "failing", cause: failing.succeeded_at, ..line }
}

fn of_behind(behind: &Behind, now: DateTime<Utc>) -> Line {
    let many = if behind.jobs == 1 { "job waits" } else { "jobs wait" };
    let whose = behind.eshop.as_ref().map_or_else(String::new, |eshop| format!(" of {eshop}"));
    let running = match behind.started_at {
        Some(begun) => format!(", running for {}", seconds((now - begun).as_seconds_f64())),
        None => String::new(),
    };
    let count = up_to(behind.jobs, COUNTED);
    let sentence = format!("{count} {many} behind 1 {}{whose}{running}.", behind.kind);
    let owner = Owner::Organisation(behind.organisation_id);
    let page = format!("/console/job/{}", behind.ahead);
    let line = Line::new(Kind::WaitingJobs, &behind.ahead.to_string(), owner, sentence, page);
    Line { severity: Severity::Warning, word: "waiting", cause: behind.started_at, ..line }
}

/// A count over what the caller may see.
struct Sum {
    kind: Kind,
    severity: Severity,
    word: &'static str,
    count: i64,
    /// When the last of what is counted began.
    last: Option<DateTime<Utc>>,
    /// What it is of one, and of several.
    says: [&'static str; 2],
    page: &'static str,
}

impl Sum {
    fn line(self) -> Option<Line> {
        let [one, many] = self.says;
        let sentence = format!("{} {}", up_to(self.count, COUNTED), if self.count == 1 { one } else { many });
        let line = Line::new(self.kind, "", Owner::Caller, sentence, self.page.to_owned());
        (self.count > 0).then_some(Line {
            severity: self.severity,
            word: self.word,
            cause: self.last,
            ..line
        })
    }
}

/// The sums over stocks and orders.
fn sums_of_orders(orders: &Counts) -> [Sum; 3] {
    let (bad, warn) = (Severity::Critical, Severity::Warning);
    [
        Sum {
            kind: Kind::MarkedStocks,
            severity: bad,
            word: "marked",
            count: orders.marked,
            last: orders.marked_since,
            says: [
                "stock has waited for the allocator for over a minute.",
                "stocks have waited for the allocator for over a minute.",
            ],
            page: ORDERS,
        },
        Sum {
            kind: Kind::ShortStocks,
            severity: bad,
            word: "short",
            count: orders.short,
            last: orders.short_at,
            says: [
                "stock has fewer pieces than orders hold that are handed over.",
                "stocks have fewer pieces than orders hold that are handed over.",
            ],
            page: ORDERS,
        },
        Sum {
            kind: Kind::IncorrectOrders,
            severity: warn,
            word: "incorrect",
            count: orders.refused.min(COUNTED),
            last: orders.refused_at,
            says: ["order is incorrect.", "orders are incorrect."],
            page: ORDERS,
        },
    ]
}

/// The sums over webhooks; so many failing ones have lines of their own.
fn sums_of_webhooks(webhooks: &health::Attention, named: i64) -> [Sum; 2] {
    let (bad, warn) = (Severity::Critical, Severity::Warning);
    [
        Sum {
            kind: Kind::DisabledWebhooks,
            severity: bad,
            word: "disabled",
            count: webhooks.disabled,
            last: webhooks.disabled_at,
            says: ["webhook is disabled.", "webhooks are disabled."],
            page: "/console/webhook?health=disabled",
        },
        Sum {
            kind: Kind::FailingWebhooks,
            severity: warn,
            word: "failing",
            count: webhooks.failing - named,
            last: webhooks.failing_since,
            says: ["more webhook is failing.", "more webhooks are failing."],
            page: "/console/webhook?health=failing",
        },
    ]
}

/// The sums over jobs.
fn sums_of_jobs(jobs: &jobs::Attention) -> [Sum; 4] {
    let (bad, warn) = (Severity::Critical, Severity::Warning);
    [
        Sum {
            kind: Kind::FailedJobs,
            severity: bad,
            word: "failed",
            count: jobs.failed,
            last: jobs.failed_at,
            says: ["job failed in the last 24 hours.", "jobs failed in the last 24 hours."],
            page: "/console/failure",
        },
        Sum {
            kind: Kind::RetryingJobs,
            severity: warn,
            word: "retrying",
            count: jobs.retrying,
            last: jobs.retrying_last,
            says: ["job is waiting for its next attempt.", "jobs are waiting for their next attempt."],
            page: "/console/job?state=retrying",
        },
        Sum {
            kind: Kind::JobsAtPartner,
            severity: warn,
            word: "waiting",
            count: jobs.at_partner,
            last: jobs.at_partner_last,
            says: ["job is waiting for its partner.", "jobs are waiting for their partners."],
            page: "/console/job?state=running",
        },
        Sum {
            kind: Kind::PausedJobs,
            severity: warn,
            word: "paused",
            count: jobs.paused,
            last: jobs.paused_at,
            says: ["job is waiting for a paused queue.", "jobs are waiting for a paused queue."],
            page: QUEUES,
        },
    ]
}
