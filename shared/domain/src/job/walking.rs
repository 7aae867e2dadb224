//! Jobs that find their items as they go.
//!
//! How many items they have is not known when they are accepted, and may be millions. So they have one chunk at a time: a
//! **step**, which does a bounded batch in one transaction, and creates the next one with the position where it ended. A
//! step is claimed, retried, counted and cancelled like every chunk, and a worker that is killed in the middle of one has
//! completed whole steps only. The total of the job grows if more items are found than were counted at its acceptance, and
//! ends at the number found.
//!
//! A job may take several walks side by side, one for each webhook, say. Their steps take turns: the next step of a walk has a
//! place behind the current steps of all others.

use super::chunk::{Claim, Count};
use super::dispatch;
use super::entry::{NewJob, insert, to_i32};
use super::execution;
use super::kind::{Job, JobState, Stored};
use super::room;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;

/// What a step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Items that it found.
    pub found: i32,
    /// Waiting deliveries that are due now.
    pub released: i32,
    /// Ended deliveries that were sent again.
    pub resent: i32,
    /// The other walks of the job.
    pub beside: i32,
    /// Where the next step begins; nothing where there is none.
    pub next: Option<Vec<u8>>,
}

/// Whose such a job is, and where each of its walks begins.
#[derive(Debug)]
pub(crate) struct Walks {
    /// The organisations.
    pub(crate) organisations: Vec<OrganisationId>,
    /// The e-shop, where it is only one.
    pub(crate) eshop: Option<EshopId>,
    /// What the first step of each walk is given.
    pub(crate) starts: Vec<Vec<u8>>,
}

/// Accepts such a job of one walk with the known number of items, for an organisation or an e-shop of it.
pub(crate) async fn accept(
    change: Change<'_>,
    context: &Context,
    job: &impl Job,
    (organisation, eshop): (OrganisationId, Option<EshopId>),
    known: i32,
) -> Result<Answer, Problem> {
    let walks = Walks { organisations: vec![organisation], eshop, starts: vec![Vec::new()] };
    accept_walks(change, context, job, walks, known).await
}

/// Accepts such a job of several walks.
pub(crate) async fn accept_walks(
    mut change: Change<'_>,
    context: &Context,
    job: &impl Job,
    Walks { organisations, eshop, starts }: Walks,
    known: i32,
) -> Result<Answer, Problem> {
    let stored = Stored::new(job)?;
    let job = NewJob { id: JobId::new(), stored, organisations, eshop, sequence: None, source: None };
    let services = change.services();
    room::make(change.connection(), services, job.organisation()).await?;
    let chunks = to_i32(starts.len())?;
    insert(change.connection(), &job, &context.origin, JobState::Queued, known.max(chunks), chunks).await?;
    sqlx::query!(
        "INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index)
         SELECT $1, place - 1, 'queued', CASE WHEN start <> '' THEN start END, 1, 0
         FROM unnest($2::bytea[]) WITH ORDINALITY AS s (start, place)",
        job.id.get(),
        &starts,
    )
    .execute(change.connection())
    .await?;
    dispatch::note(&mut change, Queue::Chunk, job.organisation());
    change.answer(context.claim, Answer::accepted_job(job.id)).await
}

/// Ends a step in the transaction of its changes, and leaves the next one. When the claim is lost, the caller
/// drops the transaction, and nothing has changed.
pub async fn complete(change: &mut Change<'_>, claim: &Claim, step: Step) -> Result<Hold, Problem> {
    let changed = step.released + step.resent;
    let more = step.next.is_some();
    // chunks before their job, the usual order of locks
    let held = sqlx::query!(
        "UPDATE job_chunk SET item_count = greatest($4, 1)
         WHERE job_id = $1 AND number = $2 AND token = $3 AND state = 'running'",
        claim.job.get(),
        claim.number,
        claim.token,
        step.found,
    )
    .execute(change.connection())
    .await?;
    if held.rows_affected() == 0 {
        return Ok(Hold::Lost);
    }
    if let Some(place) = step.next {
        sqlx::query!(
            "INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index)
             SELECT $1, $2, 'queued', $3, 1, done + $4 FROM job WHERE id = $1",
            claim.job.get(),
            claim.number + 1 + step.beside,
            place,
            step.found,
        )
        .execute(change.connection())
        .await?;
        dispatch::note(change, Queue::Chunk, claim.organisation);
    }
    sqlx::query!(
        "UPDATE job
         SET total = CASE WHEN $2 OR chunks_open > 1 THEN greatest(total, done + $3 + 1) ELSE done + $3 END,
             chunks_open = chunks_open + $2::int, released = released + $4, resent = resent + $5
         WHERE id = $1 AND state IN ('queued', 'running', 'retrying')",
        claim.job.get(),
        more,
        step.found,
        step.released,
        step.resent,
    )
    .execute(change.connection())
    .await?;
    let count = Count { changed, unchanged: step.found - changed, failed: 0 };
    execution::complete(change, claim, count, &[]).await
}
