//! Executes a chunk of a job of any kind: claim, execute, record, in one transaction.
//!
//! A worker that is killed half-way has changed nothing, and one that loses its claim rolls back. A chunk
//! that was running when a process died is a *suspect*: it runs again in a separate process ([`Isolation`]),
//! one per queue at a time. Kills from outside fail no job, however many there are; an item that kills even
//! the separate process is found by halving ([`suspicion`]).
//!
//! [`Isolation`]: crate::isolation::Isolation

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use longshore_domain::job::chunk::{self, Claim, Claimed, Held, MAX_ATTEMPTS};
use longshore_domain::job::dispatch;
use longshore_domain::job::failing;
use longshore_domain::job::fetching;
use longshore_domain::job::name::{parse_chunk_name, queue_of, share_of};
use longshore_domain::job::outcome::Fate;
use longshore_domain::job::suspicion::{self, Verdict};
use longshore_kernel::activity::Subject;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;
use longshore_kernel::retry::Backoff;
use longshore_kernel::trace;
use tokio::sync::SemaphorePermit;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::{execute, is_divisible};
use crate::context::WorkerContext;
use crate::isolation::Ended;

/// The wait after the first failed attempt; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between attempts.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// The longest time that a chunk may run.
pub const LONGEST: Duration = Duration::from_mins(10);
/// How often recording an outcome is tried while Postgres is away …
const RECORD_TRIES: u32 = 60;
/// … and the longest time that this may take.
pub const RECORD_WITHIN: Duration = Duration::from_mins(5);

/// Works on the named chunk, if it is due.
pub async fn run(context: WorkerContext, name: String) {
    let Some((job, number)) = parse_chunk_name(&name) else {
        tracing::warn!(chunk = name, "an entry of the queue names no chunk");
        return;
    };
    match claim(&context, job, number).await {
        Ok(Some((mut claim, _place))) => {
            let span = span(&claim);
            trace::begin(&span, claim.origin.traceparent.as_deref());
            // changes are traced as part of this span
            claim.origin.traceparent = trace::of(&span).or(claim.origin.traceparent);
            let queue = queue_of(claim.calls_partner);
            // the chunk has left its queue: the next one of its organisation may follow
            let next = dispatch::hand_over(&context.services, queue, share_of(claim.organisation));
            tokio::join!(Box::pin(work(&context, &claim).instrument(span)), next);
        }
        // the dispatcher finds it again when it is due
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(
                job.id = %job, chunk = number, %error,
                "a chunk could not be claimed; the dispatcher will queue it again"
            );
        }
    }
}

/// Claims a chunk; a suspect with the place for suspects of its queue, if that is free. Only a suspect takes it: a claim may wait for the
/// row of its job.
async fn claim(
    context: &WorkerContext,
    job: JobId,
    number: i32,
) -> Result<Option<(Claim, Option<SemaphorePermit<'_>>)>, Problem> {
    let db = &context.services.db.main;
    let (claimed, place) = match chunk::claim(db, job, number, false).await? {
        Claimed::Suspect(queue) => {
            let mut places = context.suspects.iter().filter(|(of, _)| *of == queue);
            let Some(place) = places.find_map(|(_, place)| place.try_acquire().ok()) else { return Ok(None) };
            (chunk::claim(db, job, number, true).await?, Some(place))
        }
        claimed => (claimed, None),
    };
    Ok(match claimed {
        // its process lived, and has cleared the suspicion
        Claimed::Now(claim) if claim.crashes == 0 => Some((*claim, None)),
        Claimed::Now(claim) => Some((*claim, place)),
        Claimed::Suspect(_) | Claimed::Nothing => None,
    })
}

fn span(claim: &Claim) -> Span {
    let span = tracing::info_span!(
        "chunk", job.id = %claim.job, chunk = claim.number, job.kind = claim.kind_name(), request.id = Empty,
        trace.id = Empty, otel.kind = Empty
    );
    if let Some(id) = &claim.origin.request_id {
        span.record("request.id", id.as_str());
    }
    if trace::is_on() {
        span.record("otel.kind", "consumer");
    }
    span
}

async fn work(context: &WorkerContext, claim: &Claim) {
    let lease = context.leases.hold(claim);
    let started = Instant::now();
    let executed = tokio::select! {
        ended = alone(context, claim) => ended,
        () = lease.lost.cancelled() => Some(Ok(Hold::Lost)),
    };
    let executed = match executed {
        None => Some(tokio::select! {
            executed = bounded(execute(context, claim)) => executed,
            () = lease.lost.cancelled() => Ok(Hold::Lost),
        }),
        recorded => recorded,
    };
    if let Some(executed) = executed {
        count(context, claim, &executed, started.elapsed());
        settle(context, claim, executed).await;
    }
    lease.end();
}

/// Counts a turn at a partner for the charts. One that waits, or whose claim was lost, came to nothing.
fn count(context: &WorkerContext, claim: &Claim, executed: &Result<Hold, Fate>, took: Duration) {
    let outcome = match executed {
        Ok(Hold::Kept) => "succeeded",
        Err(Fate::OfItems(_) | Fate::Retry(_) | Fate::RetryAfter(..) | Fate::Discard(_)) => "failed",
        Ok(Hold::Lost) | Err(Fate::Again(_) | Fate::Away(_) | Fate::Snooze(_) | Fate::Pause { .. }) => return,
    };
    if claim.calls_partner {
        context.services.metrics.activity().note(Subject::Partner, outcome, took);
    }
}

/// Executes a suspect in its own process, which records the outcome; `None` if it should run here.
async fn alone(context: &WorkerContext, claim: &Claim) -> Option<Result<Hold, Fate>> {
    let isolation = context.isolation.as_ref().filter(|_| claim.crashes > 0)?;
    tracing::info!(
        crashes = claim.crashes,
        items = claim.item_count,
        "a chunk whose process died is executed in a process of its own"
    );
    match tokio::time::timeout(LONGEST + RECORD_WITHIN, isolation.run(claim)).await {
        Ok(Ended::Recorded) => Some(Ok(Hold::Kept)),
        Ok(Ended::Died(how)) => {
            judge(context, claim, &how).await;
            Some(Ok(Hold::Kept))
        }
        Ok(Ended::Stopped) => Some(Err(Fate::Snooze(Duration::ZERO))),
        Ok(Ended::Failed(how)) => {
            Some(Err(Fate::Away(format!("its separate process did not record what became of it ({how})"))))
        }
        Ok(Ended::Unusable(error)) => {
            tracing::warn!(error, "cannot start a separate process for a chunk; executing it in this one");
            None
        }
        Err(_) => Some(Err(Fate::Retry("the worker process did not end".to_owned()))),
    }
}

/// Records that a chunk killed its own process, and keeps trying while Postgres is away.
async fn judge(context: &WorkerContext, claim: &Claim, how: &str) {
    let mut waits = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
    for _ in 0..RECORD_TRIES {
        match suspicion::died_alone(&context.services, claim, is_divisible(claim), how).await {
            Ok(Verdict::Failed) => {
                tracing::error!(
                    how,
                    items = claim.item_count,
                    "the item that kills its process was found and has failed"
                );
                return;
            }
            Ok(verdict) => {
                tracing::warn!(
                    how,
                    items = claim.item_count,
                    ?verdict,
                    "a chunk has killed its separate process"
                );
                return;
            }
            Err(error) => {
                tracing::debug!(%error, "a death is not recorded yet");
                tokio::time::sleep(waits.next_delay()).await;
            }
        }
    }
}

/// Executes a chunk for the process that claimed it and keeps its lease, and records the outcome.
pub async fn run_alone(context: &WorkerContext, held: Held) -> Result<(), Problem> {
    if let Some(mut claim) = chunk::read(&context.services.db.main, held).await? {
        let span = span(&claim);
        trace::begin(&span, claim.origin.traceparent.as_deref());
        claim.origin.traceparent = trace::of(&span).or(claim.origin.traceparent);
        async {
            let executed = bounded(execute(context, &claim)).await;
            settle(context, &claim, executed).await;
        }
        .instrument(span)
        .await;
    }
    Ok(())
}

/// Records the outcome of an execution.
async fn settle(context: &WorkerContext, claim: &Claim, executed: Result<Hold, Fate>) {
    match executed {
        Ok(Hold::Kept) => {}
        // cancelled, or taken over while this process could not renew its lease: the transaction was rolled
        // back
        Ok(Hold::Lost) => {
            tracing::info!("the claim on a chunk was lost; nothing was changed");
            clear(context, claim).await;
        }
        Err(fate) if claim.calls_partner => {
            // A page recorded in between has reset the attempts. If their number cannot be read, one attempt
            // too many is better than failing a job that makes progress.
            let attempts = fetching::attempts(&context.services, claim).await.unwrap_or(Some(1));
            let mut claim = claim.clone();
            claim.attempts = attempts.unwrap_or(claim.attempts);
            record(context, &claim, fate).await;
        }
        Err(fate) => record(context, claim, fate).await,
    }
}

/// Treats a panic and an endless execution as failures: otherwise the claim would be kept for ever.
async fn bounded(work: impl Future<Output = Result<Hold, Fate>>) -> Result<Hold, Fate> {
    match tokio::time::timeout(LONGEST, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(executed)) => executed,
        Ok(Err(_)) => Err(Fate::OfItems("the execution panicked".to_owned())),
        Err(_) => Err(Fate::Retry(format!("the execution took longer than {} s", LONGEST.as_secs()))),
    }
}

/// Clears the suspicion of a chunk that was taken over: its new owner assumes that this process died.
async fn clear(context: &WorkerContext, claim: &Claim) {
    if let Err(error) = chunk::still_alive(&context.services.db.main, claim).await {
        tracing::warn!(%error, "a chunk is still suspected of killing its process");
    }
}

/// Records the outcome of a chunk that failed, and keeps trying while Postgres is away.
async fn record(context: &WorkerContext, claim: &Claim, fate: Fate) {
    let db = &context.services.db.main;
    let mut waits = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
    for _ in 0..RECORD_TRIES {
        let recorded = match &fate {
            Fate::Discard(reason) => give_up(context, claim, reason).await,
            Fate::OfItems(reason) if !claim.calls_partner && is_divisible(claim) => {
                failing::find(&context.services, claim, reason, wait_after(claim.attempts)).await
            }
            Fate::OfItems(reason) | Fate::Retry(reason) | Fate::RetryAfter(reason, _)
                if claim.attempts >= MAX_ATTEMPTS =>
            {
                give_up(context, claim, reason).await
            }
            Fate::RetryAfter(reason, asked) => {
                tracing::warn!(
                    attempt = claim.attempts,
                    reason,
                    "a chunk failed and will be tried again when its limit permits"
                );
                chunk::postpone(db, claim.held(), wait_after(claim.attempts).max(*asked), Some(reason)).await
            }
            Fate::Pause { reason, until } => {
                tracing::info!(reason, until = %until, "a chunk waits");
                chunk::pause(db, claim.held(), *until, reason).await
            }
            Fate::OfItems(reason) | Fate::Retry(reason) | Fate::Again(reason) => {
                tracing::warn!(attempt = claim.attempts, reason, "a chunk failed and will be tried again");
                chunk::postpone(db, claim.held(), wait_after(claim.attempts), Some(reason)).await
            }
            Fate::Away(reason) => {
                tracing::info!(reason, "a chunk could not be tried");
                chunk::put_off(db, claim.held(), reason).await
            }
            Fate::Snooze(wait) => chunk::postpone(db, claim.held(), *wait, None).await,
        };
        match recorded {
            Ok(Hold::Kept) => return,
            Ok(Hold::Lost) => return clear(context, claim).await,
            Err(error) => {
                tracing::debug!(%error, "the outcome of a chunk is not recorded yet");
                tokio::time::sleep(waits.next_delay()).await;
            }
        }
    }
    tracing::warn!("the outcome of a chunk was not recorded; its lease will expire");
}

async fn give_up(context: &WorkerContext, claim: &Claim, reason: &str) -> Result<Hold, Problem> {
    tracing::error!(attempt = claim.attempts, reason, "a chunk failed permanently");
    failing::give_up(&context.services, claim, reason).await
}

fn wait_after(attempts: i32) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(0).min(16);
    FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_endless_execution_fails_and_so_does_one_that_panics() {
        let hanging = bounded(std::future::pending()).await;
        assert!(
            matches!(hanging, Err(Fate::Retry(reason)) if reason == "the execution took longer than 600 s")
        );
        let panicking = bounded(async { panic!("made to") }).await;
        assert!(matches!(panicking, Err(Fate::OfItems(reason)) if reason == "the execution panicked"));
        assert!(matches!(bounded(async { Ok(Hold::Kept) }).await, Ok(Hold::Kept)));
    }

    #[test]
    fn waits_double_up_to_the_longest_wait() {
        assert_eq!(wait_after(1), Duration::from_secs(1));
        assert_eq!(wait_after(4), Duration::from_secs(8));
        assert_eq!(wait_after(MAX_ATTEMPTS), LONGEST_WAIT);
        assert_eq!(wait_after(i32::MAX), LONGEST_WAIT);
    }
}
