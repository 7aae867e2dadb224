//! The lines, read from what they are about.

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::job::attention::{self as jobs, Behind, COUNTED, Failing, STUCK_MINUTES};
use longshore_domain::job::kind::JobState;
use longshore_domain::job::shares::LISTED;
use longshore_domain::webhook::health::{self, exhausted};
use longshore_kernel::access::Scope;
use longshore_kernel::figure::{seconds, up_to};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use longshore_kernel::word::plain;

use super::{Counted, deprecated, destination, doubt, events, partner, refused, reports, withheld};
use crate::order::attention::{self as orders, Counts, Silent};

/// Webhooks that are looked at to name their hosts; the others are counted.
const NAMED: i64 = 50;

/// All lines for a scope but those about the service, and what was counted for them.
pub(super) async fn others(services: &Services, scope: &Scope) -> Result<(Vec<Line>, Counted), Problem> {
    let (db, now) = (&services.db, services.clock.now());
    let (jobs, refused, withheld, unanswered, (of_orders, orders), webhooks, unwell, exhausted, late, old) =
        tokio::try_join!(
            jobs::read(db, scope),
            refused::lines(db, scope, now),
            withheld::lines(db, scope),
            partner::lines(db, scope, now),
            of_orders(services, scope),
            health::attention(db, scope),
            health::unwell(db, scope, NAMED),
            exhausted::read(db, scope, LISTED),
            events::lines(db, scope, now),
            deprecated::lines(db, scope, now),
        )?;
    let mut lines: Vec<Line> = of_stuck(&jobs, now).into_iter().collect();
    lines.extend(destination::failing(&unwell, now));
    lines.extend(destination::exhausted(&exhausted, now));
    lines.extend(of_orders);
    lines.extend(jobs.failing.iter().map(|failing| of_failing(failing, now)));
    lines.extend(refused);
    lines.extend(withheld);
    lines.extend(unanswered);
    lines.extend(late);
    lines.extend(old);
    lines.extend(jobs.behind.iter().map(|behind| of_behind(behind, now)));
    let named = i64::try_from(unwell.len()).map_err(Problem::internal)?;
    let sums = sums_of_webhooks(&webhooks, named).into_iter().chain(sums_of_jobs(&jobs));
    lines.extend(sums.filter_map(Sum::line));
    Ok((lines, Counted { failed_jobs: jobs.failed, incorrect_orders: orders.refused.min(COUNTED) }))
}

/// Lines about orders, their stocks, and the warehouses that they are handed over to; and their counts.
pub(super) async fn of_orders(services: &Services, scope: &Scope) -> Result<(Vec<Line>, Counts), Problem> {
    let (db, now) = (&services.db, services.clock.now());
    let (counts, silent, doubtful, reports) = tokio::try_join!(
        orders::count(db, scope),
        orders::silent(db, scope),
        doubt::lines(db, scope),
        reports::lines(db, scope, now)
    )?;
    let warehouses =
        silent.iter().map(|warehouse| of_warehouse(warehouse, now)).chain(doubtful).chain(reports);
    let lines = warehouses.chain(sums_of_orders(&counts).into_iter().filter_map(Sum::line)).collect();
    Ok((lines, counts))
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
    let line = Line::new(Kind::StuckJobs, "", Owner::Caller, sentence, Page::Record("job", job.into()));
    Some(Line { word: "stuck", cause: jobs.stuck_last, ..line })
}

/// A warehouse whose system fails, is behind, or has not answered a cancel.
fn of_warehouse(warehouse: &Silent, now: DateTime<Utc>) -> Line {
    let sentence = format!("{} ({}): {}.", warehouse.wms, warehouse.organisation, warehouse.in_words(now));
    let owner = Owner::Organisation(warehouse.organisation_id);
    let page = Page::Record("wms", warehouse.wms_id.into());
    let line = Line::new(Kind::Warehouse, &warehouse.wms_id.to_string(), owner, sentence, page);
    Line { word: "warehouse", cause: warehouse.since(), ..line }
}

/// Jobs of an e-shop that have failed since they last succeeded.
fn of_failing(failing: &Failing, now: DateTime<Utc>) -> Line {
    let lasted = seconds((now - failing.since).as_seconds_f64());
    let times =
        if failing.jobs == 1 { "once".to_owned() } else { format!("{} times", up_to(failing.jobs, COUNTED)) };
    let error = failing.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let sentence =
        format!("{} of {} has failed {times} in {lasted}{error}", plain(&failing.kind), failing.eshop);
    let subject = format!("{} {}", failing.eshop_id, failing.kind);
    let owner = Owner::Organisation(failing.organisation_id);
    let page = Page::Record("eshop", failing.eshop_id.into());
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
    let sentence = format!("{count} {many} behind 1 {}{whose}{running}.", plain(&behind.kind));
    let owner = Owner::Organisation(behind.organisation_id);
    let page = Page::Record("job", behind.ahead.into());
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
    page: Page,
}

impl Sum {
    fn line(self) -> Option<Line> {
        let [one, many] = self.says;
        let sentence = format!("{} {}", up_to(self.count, COUNTED), if self.count == 1 { one } else { many });
        let line = Line::new(self.kind, "", Owner::Caller, sentence, self.page);
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
            page: Page::Orders,
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
            page: Page::Orders,
        },
        Sum {
            kind: Kind::IncorrectOrders,
            severity: warn,
            word: "incorrect",
            count: orders.refused.min(COUNTED),
            last: orders.refused_at,
            says: ["order is incorrect.", "orders are incorrect."],
            page: Page::Orders,
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
            page: Page::Webhooks(Some("disabled")),
        },
        Sum {
            kind: Kind::FailingWebhooks,
            severity: warn,
            word: "failing",
            count: webhooks.failing - named,
            last: webhooks.failing_since,
            says: ["more webhook is failing.", "more webhooks are failing."],
            page: Page::Webhooks(Some("failing")),
        },
    ]
}

/// The sums over jobs.
fn sums_of_jobs(jobs: &jobs::Attention) -> [Sum; 3] {
    let (bad, warn) = (Severity::Critical, Severity::Warning);
    [
        // those of an e-shop have a line of their own until a later one succeeds
        Sum {
            kind: Kind::FailedJobs,
            severity: bad,
            word: "failed",
            count: jobs.failed_of_no_eshop,
            last: jobs.failed_at,
            says: [
                "job that belongs to no e-shop failed in the last 24 hours.",
                "jobs that belong to no e-shop failed in the last 24 hours.",
            ],
            page: Page::Failures,
        },
        Sum {
            kind: Kind::RetryingJobs,
            severity: warn,
            word: "retrying",
            count: jobs.retrying,
            last: jobs.retrying_last,
            says: ["job is waiting for its next attempt.", "jobs are waiting for their next attempt."],
            page: Page::Jobs(JobState::Retrying),
        },
        Sum {
            kind: Kind::JobsAtPartner,
            severity: warn,
            word: "waiting",
            count: jobs.at_partner,
            last: jobs.at_partner_last,
            says: ["job is waiting for its partner.", "jobs are waiting for their partners."],
            page: Page::Jobs(JobState::Running),
        },
    ]
}
