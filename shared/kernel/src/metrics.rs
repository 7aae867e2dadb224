//! The metrics of a process for Prometheus, in one table.
//!
//! [`Metrics`] is part of the [`Services`](super::services::Services) of a process. Events are counted where they happen;
//! the [state](standing) of queues, lanes and pools is read when the metrics are requested.
//!
//! Names follow Prometheus' conventions: base units, `_total` for counters (appended by the encoder). Labels have few
//! values: never an id, a requested path, or anything else that a caller chooses.

mod standing;

use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use self::standing::Gauges;
pub use self::standing::{Backlog, OrdersStanding};
use super::activity::Activity;
use super::database::Database;
use super::problem::Problem;
use super::skew::Skew;
use crate::ids::WebhookId;
use crate::queue::Queues;
use crate::refusals::Refused;

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds of a request or a call: from a cached look-up to the longest deadline.
const CALLS: [f64; 14] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];
/// Seconds of an allocation: from one order to as many as a transaction may look at.
const ALLOCATIONS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Seconds of a job: from a bulk switch of a few products to the sync of a whole catalogue.
const JOBS: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: String,
    method: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
    method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConnectionEnd {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobEnd {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobKindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuotaLabel {
    quota: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptEnd {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabel {
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlaceLabel {
    state: &'static str,
}

/// Orders that were placed or moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Created.
    pub placed: usize,
    /// Whose pieces were booked.
    pub booked: usize,
    /// Whose bookings were taken back because fewer pieces were there.
    pub taken_back: usize,
}

impl AddAssign for OrderCounts {
    fn add_assign(&mut self, other: Self) {
        self.placed += other.placed;
        self.booked += other.booked;
        self.taken_back += other.taken_back;
    }
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of a process; cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    requests: Family<Request, Counter>,
    request_seconds: Histograms<Route>,
    requests_in_flight: Gauge,
    deprecated_requests: Family<Route, Counter>,
    connections: Gauge,
    connections_ended: Family<ConnectionEnd, Counter>,
    jobs: Family<JobEnd, Counter>,
    job_seconds: Histograms<JobKindLabel>,
    attempts: Family<AttemptEnd, Counter>,
    attempt_seconds: Histogram,
    refusals: Family<RefusalLabel, Counter>,
    counted_locally: Counter,
    quota_refusals: Family<QuotaLabel, Counter>,
    standing: Gauges,
    activity: Activity,
    clock: Skew,
    no_room: Counter,
    places: Family<PlaceLabel, Gauge>,
    orders_placed: Counter,
    orders_booked: Counter,
    orders_taken_back: Counter,
    allocation_seconds: Histogram,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Those of a process that has done nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("longshore");
        let calls: fn() -> Histogram = || Histogram::new(CALLS);
        let jobs: fn() -> Histogram = || Histogram::new(JOBS);
        macro_rules! register {
            ($metric:expr, $name:literal, $help:literal) => {{
                let metric = $metric;
                registry.register($name, $help, metric.clone());
                metric
            }};
        }
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of this process", build);
        let requests = register!(
            Family::default(),
            "http_requests",
            "Requests answered, by the route's pattern, method and status"
        );
        let request_seconds = register!(
            Histograms::new_with_constructor(calls),
            "http_request_duration_seconds",
            "Time from the headers of a request to the headers of its answer"
        );
        let requests_in_flight =
            register!(Gauge::default(), "http_requests_in_flight", "Requests in progress");
        let deprecated_requests = register!(
            Family::default(),
            "http_deprecated_requests",
            "Requests to operations that are deprecated, by the route's pattern and method"
        );
        let connections = register!(Gauge::default(), "http_connections", "Open connections of clients");
        let connections_ended = register!(
            Family::default(),
            "http_connections_ended",
            "Connections of clients that ended, or were refused, by reason"
        );
        let jobs_ended = register!(
            Family::default(),
            "jobs",
            "Jobs that this process ended: succeeded, failed or cancelled"
        );
        let job_seconds = register!(
            Histograms::new_with_constructor(jobs),
            "job_duration_seconds",
            "Time from the acceptance of a job to its end"
        );
        let attempts = register!(
            Family::default(),
            "webhook_attempts",
            "Calls to destinations: delivered, failed (retried later) or exhausted"
        );
        let attempt_seconds = register!(
            Histogram::new(CALLS),
            "webhook_attempt_duration_seconds",
            "Duration of calls to destinations"
        );
        let refusals = register!(
            Family::<RefusalLabel, Counter>::default(),
            "refusals",
            "Failed or rate-limited logins, and requests that the role does not permit"
        );
        for refused in Refused::ALL {
            let _ = refusals.get_or_create(&RefusalLabel { action: refused.action() });
        }
        let counted_locally = register!(
            Counter::default(),
            "rate_limit_fallbacks",
            "Requests that the process counted itself, because Redis did not answer in time"
        );
        let quota_refusals = register!(
            Family::default(),
            "quota_refusals",
            "Records refused because the organisation has reached its quota"
        );
        let no_room = register!(
            Counter::default(),
            "outbound_without_room",
            "Calls that this machine had no resources for: open files, ports, memory"
        );
        let places =
            register!(Family::default(), "webhook_places", "Slots for webhooks in this worker, by use");
        let orders_placed =
            register!(Counter::default(), "orders_placed", "Orders that this process created");
        let orders_booked =
            register!(Counter::default(), "orders_booked", "Orders whose pieces this process booked");
        let orders_taken_back = register!(
            Counter::default(),
            "orders_taken_back",
            "Orders whose bookings this process took back, because fewer pieces were there"
        );
        let allocation_seconds = register!(
            Histogram::new(ALLOCATIONS),
            "allocation_duration_seconds",
            "Duration of transactions that booked orders waiting for goods, or took bookings back"
        );
        let standing = Gauges::register(&mut registry);
        Self(Arc::new(Inner {
            registry,
            requests,
            request_seconds,
            requests_in_flight,
            deprecated_requests,
            connections,
            connections_ended,
            jobs: jobs_ended,
            job_seconds,
            attempts,
            attempt_seconds,
            refusals,
            counted_locally,
            quota_refusals,
            standing,
            activity: Activity::default(),
            clock: Skew::default(),
            no_room,
            places,
            orders_placed,
            orders_booked,
            orders_taken_back,
            allocation_seconds,
        }))
    }

    /// Counts a request as in flight until the returned guard is dropped.
    #[must_use]
    pub fn request_begins(&self) -> InFlight {
        self.0.requests_in_flight.inc();
        InFlight(self.clone())
    }

    /// A request was answered. `route` is the pattern that matched, such as `/api/product/{id}`.
    pub fn request_answered(&self, route: &str, method: &str, status: u16, took: Duration) {
        let (route, method) = (route.to_owned(), method.to_owned());
        self.0
            .request_seconds
            .get_or_create(&Route { route: route.clone(), method: method.clone() })
            .observe(took.as_secs_f64());
        self.0.requests.get_or_create(&Request { route, method, status }).inc();
    }

    /// A deprecated operation was called; `route` is as above.
    pub fn deprecated_requested(&self, route: &str, method: &str) {
        let label = Route { route: route.to_owned(), method: method.to_owned() };
        self.0.deprecated_requests.get_or_create(&label).inc();
    }

    /// So many connections of clients are open.
    pub fn connections(&self, open: usize) {
        self.0.connections.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    /// So many connections of clients have ended.
    pub fn connections_ended(&self, reason: &'static str, count: u64) {
        self.0.connections_ended.get_or_create(&ConnectionEnd { reason }).inc_by(count);
    }

    /// A job has come to its end.
    pub fn job_ended(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        self.0.jobs.get_or_create(&JobEnd { kind, outcome }).inc();
        self.0.job_seconds.get_or_create(&JobKindLabel { kind }).observe(took.as_secs_f64());
        self.0.activity.note_job(kind, outcome, took);
    }

    /// A destination was called.
    pub fn webhook_attempted(&self, webhook: WebhookId, outcome: &'static str, took: Duration) {
        self.0.attempts.get_or_create(&AttemptEnd { outcome }).inc();
        self.0.attempt_seconds.observe(took.as_secs_f64());
        self.0.activity.note_attempt(webhook, outcome, took);
    }

    /// A login or a request was refused.
    pub fn refused(&self, refused: Refused) {
        self.0.refusals.get_or_create(&RefusalLabel { action: refused.action() }).inc();
    }

    /// A request was counted by the process itself: Redis did not say in time.
    pub fn rate_counted_locally(&self) {
        self.0.counted_locally.inc();
    }

    /// So many records were refused by a quota.
    pub fn quota_refused(&self, quota: &'static str, count: u64) {
        self.0.quota_refusals.get_or_create(&QuotaLabel { quota }).inc_by(count);
    }

    /// This machine had no room for one more connection.
    pub fn had_no_room(&self) {
        self.0.no_room.inc();
    }

    /// How the places of webhooks are used: the places there are, those of turns that get on, those of slow ones, and the
    /// lanes that wait.
    pub fn note_places(&self, by_state: [(&'static str, usize); 4]) {
        for (state, lanes) in by_state {
            self.0.places.get_or_create(&PlaceLabel { state }).set(i64::try_from(lanes).unwrap_or(i64::MAX));
        }
    }

    /// Orders were placed or moved.
    pub fn orders_moved(&self, orders: OrderCounts) {
        self.0.orders_placed.inc_by(orders.placed as u64);
        self.0.orders_booked.inc_by(orders.booked as u64);
        self.0.orders_taken_back.inc_by(orders.taken_back as u64);
    }

    /// A transaction of the allocator has changed orders.
    pub fn allocated(&self, took: Duration) {
        self.0.allocation_seconds.observe(took.as_secs_f64());
    }

    /// The clock of this process, compared with that of Postgres.
    #[must_use]
    pub fn clock(&self) -> &Skew {
        &self.0.clock
    }

    /// The same for charts.
    #[must_use]
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// All of it as text. `backlog` is read unless that was done a moment ago.
    pub async fn render(
        &self,
        db: &Database,
        queues: &Queues,
        backlog: impl Future<Output = Result<Backlog, Problem>>,
    ) -> Result<String, Problem> {
        self.0.standing.look(db, queues, &self.0.clock, backlog).await;
        let mut text = String::new();
        text::encode(&mut text, &self.0.registry).map_err(Problem::internal)?;
        Ok(text)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct InFlight(Metrics);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.0.requests_in_flight.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_exported_under_the_documented_names() {
        let metrics = Metrics::new();
        let in_flight = metrics.request_begins();
        metrics.request_answered("/api/product/{id}", "GET", 200, Duration::from_millis(3));
        metrics.job_ended("product.sync", "succeeded", Duration::from_secs(2));
        metrics.webhook_attempted(WebhookId::nil(), "delivered", Duration::from_millis(30));
        let mut text = String::new();
        text::encode(&mut text, &metrics.0.registry).unwrap();
        for line in [
            "longshore_http_requests_total{route=\"/api/product/{id}\",method=\"GET\",status=\"200\"} 1",
            "longshore_http_request_duration_seconds_count{route=\"/api/product/{id}\",method=\"GET\"} 1",
            "longshore_http_requests_in_flight 1",
            "longshore_jobs_total{kind=\"product.sync\",outcome=\"succeeded\"} 1",
            "longshore_job_duration_seconds_bucket{le=\"5.0\",kind=\"product.sync\"} 1",
            "longshore_webhook_attempts_total{outcome=\"delivered\"} 1",
            "longshore_webhook_attempt_duration_seconds_bucket{le=\"0.025\"} 0",
            "longshore_refusals_total{action=\"login.failed\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        drop(in_flight);
        text.clear();
        text::encode(&mut text, &metrics.0.registry).unwrap();
        assert!(text.contains("longshore_http_requests_in_flight 0"));
    }
}
