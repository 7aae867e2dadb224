//! What a process keeps for the pages of the console, which many open and which look again every two seconds: one reading serves
//! all visitors of a scope.
//!
//! Acknowledgements and mutes are read for each page.

mod kept;

use std::sync::Arc;

use chrono::TimeDelta;
use futures::future::BoxFuture;
use longshore_kernel::access::Scope;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use longshore_kernel::share;

use self::kept::{ByScope, Kept};
use crate::attention::{self, Attention, Look};
use crate::counts::{self, Counts};
use crate::delivery::{self, States};
use longshore_domain::standing::{self, Standing};

/// How old counts may be.
const COUNTS: TimeDelta = TimeDelta::seconds(5);
/// How old the lines may be that a page shows: a page that looks every two seconds sees new ones at each look.
const LINES: TimeDelta = TimeDelta::seconds(1);

/// What a process keeps; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Snapshots(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// That of the service is the same for all scopes, so no share of a caller counts.
    standing: Kept<Standing>,
    looks: ByScope<Look>,
    counts: ByScope<Counts>,
    deliveries: ByScope<States>,
}

impl Snapshots {
    /// What needs attention, and the look at which it was found, a second old at most.
    pub async fn attention(
        &self,
        services: &Services,
        scope: &Scope,
    ) -> Result<(Arc<Look>, Attention), Problem> {
        self.0.attention(services, scope, LINES).await
    }

    /// The counts of a scope, a few seconds old; older ones while Postgres is slow; nothing if there never were any. The program of a
    /// wms has none: it sees no page.
    pub async fn counts(&self, services: &Arc<Services>, scope: &Scope) -> Option<Arc<Counts>> {
        if scope.wms().is_some() {
            return None;
        }
        self.0.counts.get(&services.clock, scope, COUNTS, || self.counting(services, scope)).await
    }

    /// The counts of a scope as JSON (`GET /api/counts`).
    pub async fn list_counts(&self, services: &Arc<Services>, scope: &Scope) -> Result<String, Problem> {
        let read = || self.counting(services, scope);
        let counts = self.0.counts.read(&services.clock, scope, COUNTS, read).await?;
        Ok(counts.fields().to_string())
    }

    fn counting(
        &self,
        services: &Arc<Services>,
        scope: &Scope,
    ) -> BoxFuture<'static, Result<Counts, Problem>> {
        let (inner, services, scope) = (Arc::clone(&self.0), Arc::clone(services), scope.clone());
        Box::pin(
            async move { counts::read(&services, &scope, inner.attention(&services, &scope, COUNTS)).await },
        )
    }

    /// The last counts of a scope, without reading.
    #[must_use]
    pub fn last_counts(&self, scope: &Scope) -> Option<Arc<Counts>> {
        self.0.counts.last(scope)
    }

    /// How many deliveries of a scope are in each state, as old as the counts are.
    pub async fn deliveries(&self, services: &Arc<Services>, scope: &Scope) -> Option<Arc<States>> {
        let read = || -> BoxFuture<'static, Result<States, Problem>> {
            let (services, scope) = (Arc::clone(services), scope.clone());
            Box::pin(async move { delivery::states(&services.db, &scope).await })
        };
        self.0.deliveries.get(&services.clock, scope, COUNTS, read).await
    }

    /// What is kept of a scope is out of date: the caller is about to change something. The next page reads again.
    pub fn outdate(&self, scope: &Scope) {
        self.0.standing.outdate();
        self.0.looks.outdate(scope);
        self.0.counts.outdate(scope);
        self.0.deliveries.outdate(scope);
    }
}

impl Inner {
    async fn attention(
        &self,
        services: &Services,
        scope: &Scope,
        age: TimeDelta,
    ) -> Result<(Arc<Look>, Attention), Problem> {
        let standing = self.standing.read(&services.clock, age, || share::for_all(standing::read(services)));
        let look = Box::pin(attention::look(services, scope, standing));
        let look = self.looks.read(&services.clock, scope, age, || look).await?;
        let attention = look.attention(&services.db, scope).await?;
        Ok((look, attention))
    }
}
