//! How much is in each state, for every page of the console: jobs, deliveries, orders, and what needs attention.
//!
//! Pages do not count: they show what a process keeps ([`Snapshots`](crate::snapshots::Snapshots)).

/// Failed jobs and incorrect orders that are counted.
pub use longshore_domain::job::attention::COUNTED as FAILED;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use longshore_domain::job::backlog::{self as jobs, Live};
use longshore_domain::webhook::lane::backlog::{self as lanes, Backlog};
use longshore_kernel::access::Scope;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use serde_json::{Value, json};

use crate::attention::{Attention, Look};
use longshore_domain::attention::Severity;
use longshore_kernel::answer::moment;

/// The counts of a scope.
#[derive(Clone, Debug)]
pub struct Counts {
    /// When they were read.
    pub at: DateTime<Utc>,
    /// What needs attention and was neither acknowledged nor muted.
    pub attention: usize,
    /// The severity of the worst of that.
    pub worst: Option<Severity>,
    /// Jobs that have not ended.
    pub jobs: Live,
    /// Jobs that failed in the last 24 hours, up to [`FAILED`].
    pub failed_jobs: i64,
    /// Deliveries that are due.
    pub due: AtLeast,
    /// Deliveries that wait for a retry.
    pub retrying: AtLeast,
    /// Deliveries that were exhausted in the last 24 hours.
    pub exhausted: i64,
    /// Orders that are incorrect, up to [`FAILED`].
    pub incorrect_orders: i64,
}

impl Counts {
    /// As `GET /api/counts` shows them.
    pub(crate) fn fields(&self) -> Value {
        let counted = |count: AtLeast| json!({"count": count.count, "atLeast": count.is_more});
        let bounded = |count| counted(AtLeast::up_to(count, FAILED));
        json!({
            "at": moment(self.at),
            "attention": {"lines": self.attention, "worst": self.worst},
            "jobs": {
                "queued": counted(self.jobs.queued), "running": counted(self.jobs.running), "retrying": counted(self.jobs.retrying),
                "failedInADay": bounded(self.failed_jobs),
            },
            "deliveries": {
                "due": counted(self.due), "waitingForRetry": counted(self.retrying),
                "exhaustedInADay": counted(AtLeast { count: self.exhausted, is_more: false }),
            },
            "orders": {"incorrect": bounded(self.incorrect_orders)},
        })
    }
}

/// Counts, with what needs attention, which is being read.
pub(crate) async fn read(
    services: &Services,
    scope: &Scope,
    attention: impl Future<Output = Result<(Arc<Look>, Attention), Problem>>,
) -> Result<Counts, Problem> {
    let db = &services.db;
    let at = services.clock.now();
    let due = async {
        match scope.organisations() {
            None => Ok(None),
            Some(organisations) => lanes::due(db, organisations, scope.eshop()).await.map(Some),
        }
    };
    let ((look, attention), jobs, due, retrying, exhausted) = tokio::try_join!(
        attention,
        jobs::live(db, scope),
        due,
        lanes::retrying(db, scope),
        lanes::exhausted(db, scope),
    )?;
    let due = due.map_or_else(
        || {
            // as the queues are shown
            let Backlog { due: count, is_more, .. } = look.standing.deliveries;
            AtLeast { count, is_more }
        },
        |due| AtLeast::up_to(due, lanes::WAITING),
    );
    let (unheeded, worst) = attention.unheeded();
    Ok(Counts {
        at,
        attention: unheeded,
        worst,
        jobs,
        failed_jobs: attention.counted.failed_jobs,
        due,
        retrying: AtLeast::up_to(retrying, lanes::WAITING),
        exhausted,
        incorrect_orders: attention.counted.incorrect_orders,
    })
}
