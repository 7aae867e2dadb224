//! The end of a chunk's execution: its progress, and with the last chunk the end of the job.

use std::time::Duration;

use super::chunk::{self, Claim, Count};
use super::dispatch;
use super::ending::{self, Ending};
use super::item_error::{self, ItemError};
use super::kind::JobState;
use super::line;
use super::preview::APPLICABLE_HOURS;
use super::withheld::decision::{Decision, decide};
use longshore_kernel::change::{Change, EndedJob};
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;

/// Ends a chunk in the transaction of its changes: refused items, progress, and what is due next. When the claim is
/// lost, the caller drops the transaction, and nothing has changed.
pub async fn complete(
    change: &mut Change<'_>,
    claim: &Claim,
    count: Count,
    errors: &[ItemError],
) -> Result<Hold, Problem> {
    if chunk::end(change.connection(), claim, count).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    advance(change, claim, count, errors).await
}

/// Counts the progress of a job, keeps as many of the errors as it still has room for, and ends it with its last chunk. The claim
/// is lost if it was cancelled in the meantime: the caller drops the transaction.
pub(super) async fn advance(
    change: &mut Change<'_>,
    claim: &Claim,
    count: Count,
    errors: &[ItemError],
) -> Result<Hold, Problem> {
    let job = sqlx::query!(
        r#"UPDATE job
           -- a walk that failed counts as an item that was not foreseen
           SET total = greatest(total, done + $2 + $3 + $4), done = done + $2 + $3 + $4, changed = changed + $2, unchanged = unchanged + $3, failed = failed + $4,
               chunks_open = chunks_open - 1, item_errors = item_errors + $5, changed_at = clock_timestamp(),
               state = CASE WHEN chunks_open > 1 THEN state
                            WHEN EXISTS (SELECT FROM job_chunk WHERE job_id = $1 AND state = 'failed') THEN 'failed'
                            ELSE 'succeeded' END,
               error = CASE WHEN chunks_open > 1 THEN error
                            ELSE (SELECT error FROM job_chunk WHERE job_id = $1 AND state = 'failed'
                                  ORDER BY number LIMIT 1) END,
               preview_kept_until = CASE WHEN chunks_open = 1 AND preview_of IS NOT NULL THEN now() + make_interval(hours => $6) END,
               -- the moment of the end, not of the start of the last chunk's transaction
               finished_at = CASE WHEN chunks_open = 1 THEN clock_timestamp() END
           WHERE id = $1 AND state IN ('queued', 'running', 'retrying')
           RETURNING sequence, in_order, state AS "state: JobState", finished_at IS NOT NULL AS "ended!", item_errors,
                     extract(epoch FROM clock_timestamp() - created_at)::float8 AS "seconds!""#,
        claim.job.get(),
        count.changed,
        count.unchanged,
        count.failed,
        i32::try_from(errors.len()).unwrap_or(i32::MAX),
        APPLICABLE_HOURS,
    )
    .fetch_optional(change.connection())
    .await?;
    let Some(job) = job else { return Ok(Hold::Lost) };
    // its row is locked: concurrent counts wait
    item_error::keep(change.connection(), claim.job, errors, job.item_errors).await?;
    let decision = if job.ended { decide(change, claim, job.state).await? } else { Decision::Nothing };
    if decision == Decision::Executed {
        return Ok(Hold::Kept);
    }
    if !job.ended {
        if job.in_order {
            dispatch::note(change, Queue::Chunk, claim.organisation);
        }
        if claim.source.is_some()
            && job.sequence.is_some()
            && !claim.calls_partner
            && line::step(change.connection(), claim.job).await?
        {
            dispatch::note(change, Queue::Chunk, claim.organisation);
        }
        return Ok(Hold::Kept);
    }
    if let Ok(kind) = claim.job_kind() {
        change.note_end(EndedJob {
            kind: kind.as_str(),
            outcome: job.state.as_str(),
            took: Duration::try_from_secs_f64(job.seconds).unwrap_or_default(),
        });
    }
    // what a test finds out says nothing of what syncs came to
    // what is withheld is asked for again
    if claim.source.is_some()
        && decision != Decision::Withheld
        && !claim.kind.as_ref().is_ok_and(|kind| kind.is_test())
    {
        super::fetching::settle(change.connection(), claim.job).await?;
    }
    if let Ok(kind) = claim.job_kind() {
        ending::tell(change, &claim.origin, [Ending { job: claim.job, kind, before: JobState::Running }])
            .await?;
    }
    if job.sequence.is_some() {
        note_next(change, claim.organisation, claim.source.as_deref());
    }
    Ok(Hold::Kept)
}

/// A job of a line has ended: the next one in it may run, and what waited for the end of one of the same source.
pub(super) fn note_next(change: &mut Change<'_>, organisation: Option<OrganisationId>, source: Option<&str>) {
    dispatch::note(change, Queue::Chunk, organisation);
    if source.is_some() {
        dispatch::note(change, Queue::Partner, organisation);
    }
}
