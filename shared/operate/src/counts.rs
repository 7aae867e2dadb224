//! How much is in each state, for every page of the console: jobs, deliveries, orders, and what needs attention.
//!
//! Pages do not count. A process keeps the last counts of each scope ([`kept`]), and counts again when a page asks and they are older
//! than [`kept::FRESH`]. A visitor sees the counts of its own scope.

mod kept;

/// Failed jobs and incorrect orders that are counted.
pub use longshore_domain::job::attention::COUNTED as FAILED;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use longshore_domain::job::backlog::{self as jobs, Live};
use longshore_domain::webhook::lane::backlog::{self as lanes, Backlog};
use longshore_kernel::access::Scope;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use serde_json::{Value, json};

use self::kept::{ByScope, Kept};
use crate::attention::{self, Severity};
use crate::delivery::{self, States};
use crate::queue::moment;
use crate::standing::{self, Standing};

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
    fn fields(&self) -> Value {
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

/// The counts that a process keeps; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Snapshots(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// That of the service is the same for all scopes.
    standing: Kept<Standing>,
    counts: ByScope<Counts>,
    deliveries: ByScope<States>,
}

impl Snapshots {
    /// The counts of a scope, a few seconds old; older ones while Postgres is slow; nothing if there never were any. The program of a
    /// wms has none: it sees no page.
    pub async fn of(&self, services: &Arc<Services>, scope: &Scope) -> Option<Arc<Counts>> {
        if scope.wms().is_some() {
            return None;
        }
        self.0.counts.get(&services.clock, scope, || self.reading(services, scope)).await
    }

    /// The counts of a scope as JSON (`GET /api/counts`).
    pub async fn list(&self, services: &Arc<Services>, scope: &Scope) -> Result<String, Problem> {
        let counts = self.0.counts.read(&services.clock, scope, || self.reading(services, scope)).await?;
        Ok(counts.fields().to_string())
    }

    fn reading(
        &self,
        services: &Arc<Services>,
        scope: &Scope,
    ) -> BoxFuture<'static, Result<Counts, Problem>> {
        let (inner, services, scope) = (Arc::clone(&self.0), Arc::clone(services), scope.clone());
        Box::pin(async move {
            let standing = inner.standing.read(&services.clock, || standing::read(&services)).await?;
            read(&services, &scope, &standing).await
        })
    }

    /// The last counts of a scope, without reading.
    #[must_use]
    pub fn last(&self, scope: &Scope) -> Option<Arc<Counts>> {
        self.0.counts.last(scope)
    }

    /// How many deliveries of a scope are in each state, as old as the counts are.
    pub async fn of_deliveries(&self, services: &Arc<Services>, scope: &Scope) -> Option<Arc<States>> {
        let read = || -> BoxFuture<'static, Result<States, Problem>> {
            let (services, scope) = (Arc::clone(services), scope.clone());
            Box::pin(async move { delivery::states(&services.db, &scope).await })
        };
        self.0.deliveries.get(&services.clock, scope, read).await
    }

    /// What is kept of a scope is out of date: the caller is about to change something. The next page counts again.
    pub fn outdate(&self, scope: &Scope) {
        self.0.standing.outdate();
        self.0.counts.outdate(scope);
        self.0.deliveries.outdate(scope);
    }
}

/// Counts.
pub async fn read(services: &Services, scope: &Scope, standing: &Standing) -> Result<Counts, Problem> {
    let db = &services.db;
    let at = services.clock.now();
    let due = async {
        match scope.organisations() {
            // as the queues are shown
            None => {
                let Backlog { due: count, is_more, .. } = standing.deliveries;
                Ok(AtLeast { count, is_more })
            }
            Some(organisations) => {
                let due = lanes::due(db, organisations, scope.eshop()).await?;
                Ok(AtLeast::up_to(due, lanes::WAITING))
            }
        }
    };
    let (attention, jobs, due, retrying, exhausted) = tokio::try_join!(
        attention::read(services, scope, standing),
        jobs::live(db, scope),
        due,
        lanes::retrying(db, scope),
        lanes::exhausted(db, scope),
    )?;
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
