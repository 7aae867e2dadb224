//! Accepting jobs: the row and its chunks, in the transaction of the request.

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

use super::dispatch;
use super::entry::{NewJob, insert, to_i32};
use super::kind::{Job, JobState, Stored, Within};
use super::payload::pack_ids;
use super::room;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{Id, JobId, OrganisationId};
use longshore_kernel::input::{Rule, array, id};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;

/// The largest bulk, in ids as they came (`docs/reference/jobs.md#bulk-operations`).
pub const LARGEST_BULK: usize = 100_000;

/// The ids of a bulk.
pub fn ids() -> impl Rule<Out = Vec<Uuid>> {
    array(1..=LARGEST_BULK, id())
}

/// Accepts a job over ids, in chunks of so many, in a transaction that has looked whose they are: duplicates are ignored, the
/// order of the first mention is kept.
pub(crate) async fn accept_ids<J: Job, T>(
    mut change: Change<'_>,
    context: &Context,
    job: impl FnOnce(Within) -> J,
    organisations: Vec<OrganisationId>,
    ids: Vec<Id<T>>,
    per_chunk: usize,
) -> Result<Answer, Problem> {
    let stored = Stored::new(&job(Within::new(context.scope(), &organisations)))?;
    let answer = insert_ids(&mut change, context, stored, organisations, distinct(ids), per_chunk).await?;
    change.answer(context.claim, answer).await
}

/// Accepts a job over ids that is all or nothing: one chunk, in a transaction that has looked at them. They are of no
/// organisation, and so is the job.
pub(crate) async fn accept_whole<J: Job, T>(
    mut change: Change<'_>,
    context: &Context,
    job: impl FnOnce(Within) -> J,
    ids: Vec<Id<T>>,
) -> Result<Answer, Problem> {
    let stored = Stored::new(&job(Within::new(context.scope(), &[])))?;
    let answer = insert_ids(&mut change, context, stored, Vec::new(), distinct(ids), LARGEST_BULK).await?;
    change.answer(context.claim, answer).await
}

fn distinct<T>(mut ids: Vec<Id<T>>) -> Vec<Id<T>> {
    let mut seen = HashSet::with_capacity(ids.len());
    ids.retain(|id| seen.insert(*id));
    ids
}

/// Records a job over ids and its chunks, of so many ids each. The job may change items of the organisations that it
/// belongs to. If it belongs to none, the scope of the caller applies, which may contain no organisation.
async fn insert_ids<T>(
    change: &mut Change<'_>,
    context: &Context,
    stored: Stored,
    organisations: Vec<OrganisationId>,
    ids: Vec<Id<T>>,
    per_chunk: usize,
) -> Result<Answer, Problem> {
    let job = NewJob {
        id: JobId::new(),
        stored,
        organisations,
        eshop: context.scope().eshop(),
        sequence: None,
        source: None,
    };
    let services = change.services();
    room::make(change.connection(), services, job.organisation()).await?;
    let (total, chunks) = (to_i32(ids.len())?, to_i32(ids.len().div_ceil(per_chunk))?);
    insert(change.connection(), &job, &context.origin, JobState::Queued, total, chunks).await?;
    insert_id_chunks(change.connection(), job.id, &ids, per_chunk).await?;
    dispatch::note(change, Queue::Chunk, job.organisation());
    Ok(Answer::accepted_job(job.id))
}

async fn insert_id_chunks<T>(
    tx: &mut PgConnection,
    job: JobId,
    ids: &[Id<T>],
    per_chunk: usize,
) -> Result<(), Problem> {
    let mut payloads = Vec::new();
    let mut counts = Vec::new();
    for ids in ids.chunks(per_chunk) {
        payloads.push(pack_ids(ids));
        counts.push(to_i32(ids.len())?);
    }
    sqlx::query!(
        "INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index)
         SELECT $1, c.position - 1, 'queued', c.payload, c.count, (c.position - 1) * $4
         FROM unnest($2::bytea[], $3::int[]) WITH ORDINALITY AS c (payload, count, position)",
        job.get(),
        &payloads,
        &counts,
        i64::try_from(per_chunk).map_err(Problem::internal)?,
    )
    .execute(tx)
    .await?;
    Ok(())
}
