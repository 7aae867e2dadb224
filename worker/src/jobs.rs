//! The bodies of the jobs, one file each, what several of them share ([`partner_turn`]), and the table of all
//! ([`JOBS`]).

mod admin_bulk;
pub mod chunk;
mod connection_test;
mod expedition_bulk;
mod expedition_news;
mod expedition_sync;
mod partner_fetch;
pub mod partner_turn;
mod product_activation;
mod product_sync;
mod stock_send;
mod stock_sync;
pub mod upkeep;
mod webhook_redelivery;

use std::borrow::Cow;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use longshore_domain::account::admin::bulk::{ActivateAdmins, DeactivateAdmins, DeleteAdmins};
use longshore_domain::job::chunk::Claim;
use longshore_domain::job::compared;
use longshore_domain::job::execution;
use longshore_domain::job::kind::{
    ActivateProducts, CancelExpeditions, DeactivateProducts, Job, JobKind, ProcessExpeditions,
    RollBackExpeditions, SendExpeditions, SendStocks, SyncExpeditions, SyncProducts, SyncStocks, TakeNews,
    TestIntegration, TestWms, Unusable,
};
use longshore_domain::job::outcome::{Fate, Outcome};
use longshore_domain::job::preview::trial::Trial;
use longshore_domain::job::walking::{self, Step};
use longshore_domain::job::{width, withheld};
use longshore_domain::webhook::delivery::recovery::Recover;
use longshore_domain::webhook::delivery::redelivery::Redeliver;
use longshore_domain::webhook::delivery::replay::Replay;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::retry::Backoff;

use crate::context::WorkerContext;

/// Every job, with its body; a dry run has that of what it tries.
const JOBS: [Registered; JobKind::ALL.len() - 1] = [
    Registered::new::<ActivateProducts>(),
    Registered::new::<DeactivateProducts>(),
    Registered::new::<SyncProducts>(),
    Registered::new::<SyncStocks>(),
    Registered::new::<SendStocks>(),
    Registered::new::<SyncExpeditions>(),
    Registered::new::<TakeNews>(),
    Registered::new::<SendExpeditions>(),
    Registered::new::<ProcessExpeditions>(),
    Registered::new::<RollBackExpeditions>(),
    Registered::new::<CancelExpeditions>(),
    Registered::new::<ActivateAdmins>(),
    Registered::new::<DeactivateAdmins>(),
    Registered::new::<DeleteAdmins>(),
    Registered::new::<Recover>(),
    Registered::new::<Redeliver>(),
    Registered::new::<Replay>(),
    Registered::new::<TestIntegration>(),
    Registered::new::<TestWms>(),
];

/// How often a chunk that lost a race for locks is run again at once.
const RACES: u32 = 8;

/// The body of a job: what its chunks do. A job has chunks of items, or one that calls a partner, or both.
trait Body: Job {
    /// Executes a chunk of items, in a transaction that is committed when the chunk has ended in it.
    fn execute(
        &self,
        change: &mut Change<'_>,
        claim: &Claim,
        owner: Self::Owner,
    ) -> impl Future<Output = Result<Done, Fate>> + Send {
        let _ = (change, owner);
        let unusable = Unusable::parameters(claim, "it has no items");
        async { Err(unusable.into()) }
    }

    /// Executes the chunk that calls a partner, in turns.
    fn call(
        &self,
        context: &WorkerContext,
        claim: &Claim,
        owner: Self::Owner,
    ) -> impl Future<Output = Result<Hold, Fate>> + Send {
        let _ = (context, owner);
        let unusable = Unusable::parameters(claim, "it calls no partner");
        async { Err(unusable.into()) }
    }
}

/// What a chunk of items did.
#[derive(Debug)]
enum Done {
    /// All of it.
    Items(Outcome),
    /// A step, which may leave the next one.
    Step(Step),
}

/// A line of the table.
struct Registered {
    kind: JobKind,
    run: for<'c> fn(&'c WorkerContext, &'c Claim) -> BoxFuture<'c, Result<Hold, Fate>>,
    is_divisible: fn(&Claim) -> Result<bool, Unusable>,
}

impl Registered {
    const fn new<J: Body>() -> Self {
        Self {
            kind: J::KIND,
            run: |context, claim| run::<J>(context, claim).boxed(),
            is_divisible: |claim| Ok(claim.job::<J>()?.0.is_divisible()),
        }
    }

    fn of(claim: &Claim) -> Result<&'static Self, Unusable> {
        let kind = claim.kind.as_ref().map_err(|unknown| Unusable::kind(&unknown.word))?;
        JOBS.iter().find(|job| job.kind == *kind).ok_or_else(|| Unusable::kind(kind.as_str()))
    }
}

/// Executes a chunk of a job of any kind, or halves one that would write too much at once.
async fn execute(context: &WorkerContext, claim: &Claim) -> Result<Hold, Fate> {
    let job = Registered::of(claim)?;
    if !claim.calls_partner
        && (job.is_divisible)(claim)?
        && let Some(halved) = width::halve(&context.services, claim).await?
    {
        return Ok(halved);
    }
    (job.run)(context, claim).await
}

/// Whether the items of a chunk can be executed one without the other.
fn is_divisible(claim: &Claim) -> bool {
    Registered::of(claim).and_then(|job| (job.is_divisible)(claim)).unwrap_or(false)
}

async fn run<J: Body>(context: &WorkerContext, claim: &Claim) -> Result<Hold, Fate> {
    let (job, owner) = claim.job::<J>()?;
    if claim.calls_partner {
        return job.call(context, claim, owner).await;
    }
    let mut races = Backoff::new(Duration::from_millis(5), Duration::from_millis(200));
    for _ in 0..RACES {
        match attempt(context, claim, &job, owner).await {
            Err(Fate::Again(reason)) => {
                tracing::debug!(reason, "a chunk could not get its locks");
                tokio::time::sleep(races.next_delay()).await;
            }
            other => return other,
        }
    }
    Err(Fate::Retry("the execution repeatedly failed to get its locks".to_owned()))
}

async fn attempt<J: Body>(
    context: &WorkerContext,
    claim: &Claim,
    job: &J,
    owner: J::Owner,
) -> Result<Hold, Fate> {
    withheld::decision::note_base(&context.services, claim).await?;
    let mut change = Change::begin(&context.services).await?;
    let held = if claim.is_dry_run {
        let trial = Trial::begin(&mut change, claim).await?;
        let outcome = items(&mut change, claim, job, owner).await?;
        trial.end(&mut change, claim, outcome).await?
    } else {
        let (same, since) = match &claim.compared {
            Some(before) => {
                let (same, since) = compared::divide(&mut change, claim, before).await?;
                (Cow::Owned(same), since)
            }
            None => (Cow::Borrowed(claim), Vec::new()),
        };
        match guarded(&mut change, &same, job, owner).await? {
            Done::Items(Outcome { mut count, mut errors }) => {
                count.failed += claim.item_count - same.item_count;
                errors.extend(since);
                execution::complete(&mut change, claim, count, &errors).await?
            }
            Done::Step(step) => walking::complete(&mut change, claim, step).await?,
        }
    };
    if held == Hold::Kept {
        change.commit().await?;
    }
    Ok(held)
}

/// Executes a chunk, but for what its guard keeps aside.
async fn guarded<J: Body>(
    change: &mut Change<'_>,
    claim: &Claim,
    job: &J,
    owner: J::Owner,
) -> Result<Done, Fate> {
    let Some(divided) = withheld::divide(change, claim).await? else {
        return job.execute(change, claim, owner).await;
    };
    let rest = items(change, &divided.rest, job, owner).await?;
    let harmless = match &divided.harmless {
        Some(harmless) => items(change, harmless, job, owner).await?,
        None => Outcome::default(),
    };
    Ok(Done::Items(divided.keep(change, claim, rest, harmless).await?))
}

/// Executes the items of a chunk, if there are any.
async fn items<J: Body>(
    change: &mut Change<'_>,
    claim: &Claim,
    job: &J,
    owner: J::Owner,
) -> Result<Outcome, Fate> {
    if claim.item_count == 0 {
        return Ok(Outcome::default());
    }
    match job.execute(change, claim, owner).await? {
        Done::Items(outcome) => Ok(outcome),
        Done::Step(_) => Err(Unusable::parameters(claim, "its steps cannot be tried or guarded").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_body() {
        let others: Vec<JobKind> =
            JobKind::ALL.into_iter().filter(|kind| *kind != JobKind::Preview).collect();
        assert_eq!(JOBS.map(|job| job.kind).to_vec(), others);
    }
}
