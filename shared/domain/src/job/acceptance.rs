//! Accepting jobs: the row and its chunks, in the transaction of the request.

use std::collections::HashSet;

use sqlx::PgConnection;
use tracing::field::Empty;
use uuid::Uuid;

use super::dispatch;
use super::kind::{Job, JobState, Stored, Within};
use super::payload::pack_ids;
use super::room;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{EshopId, Id, JobId, OrganisationId};
use longshore_kernel::input::{Rule, array, id};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::trace;

/// The largest bulk, in ids as they came (`docs/reference/jobs.md#bulk-operations`).
pub const LARGEST_BULK: usize = 100_000;

/// The ids of a bulk.
pub fn ids() -> impl Rule<Out = Vec<Uuid>> {
    array(1..=LARGEST_BULK, id())
}

/// The name of a chunk on the queue.
#[must_use]
pub fn chunk_name(job: JobId, number: i32) -> String {
    format!("{job}:{number}")
}

/// Reads the name of a chunk.
#[must_use]
pub fn parse_chunk_name(name: &str) -> Option<(JobId, i32)> {
    let (job, number) = name.split_once(':')?;
    Some((JobId::parse(job)?, number.parse().ok()?))
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

/// A job that is about to be recorded.
#[derive(Clone, Debug)]
pub(super) struct NewJob {
    pub(super) id: JobId,
    pub(super) stored: Stored,
    /// The organisations of the job: one; several, visible to callers who may see all of them; or none, visible to callers
    /// who see everything.
    pub(super) organisations: Vec<OrganisationId>,
    pub(super) eshop: Option<EshopId>,
    pub(super) sequence: Option<Uuid>,
    /// The inventory or warehouse of the partner that it reads or writes.
    pub(super) source: Option<String>,
}

impl NewJob {
    /// Its organisation, if it has only one.
    pub(super) fn organisation(&self) -> Option<OrganisationId> {
        match self.organisations.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }
}

/// Records a job. One that is `receiving` has no acceptance number yet, and a receiver that must renew itself.
pub(super) async fn insert(
    tx: &mut PgConnection,
    job: &NewJob,
    origin: &Origin,
    state: JobState,
    total: i32,
    chunks: i32,
) -> Result<(), sqlx::Error> {
    let traceparent = accepted(job).or_else(|| origin.traceparent.clone());
    let several = (job.organisations.len() > 1).then_some(job.organisations.as_slice());
    sqlx::query!(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, parameters, total, chunks_open,
             actor_type, actor_id, actor_name, request_id, traceparent, source, organisations, acceptance,
             receiving_until, in_order)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $16, $17,
             CASE WHEN $3 = 'receiving' THEN NULL ELSE nextval('acceptance') END,
             CASE WHEN $3 = 'receiving' THEN now() + make_interval(secs => $15) END, $18)",
        job.id.get(),
        job.stored.kind.as_str(),
        state.as_str(),
        job.organisation() as Option<OrganisationId>,
        job.eshop as Option<EshopId>,
        job.sequence,
        job.stored.parameters,
        total,
        chunks,
        origin.actor.kind,
        origin.actor.id,
        origin.actor.name,
        origin.request_id,
        traceparent,
        super::receiving::PATIENCE_SECONDS,
        job.source,
        several as Option<&[OrganisationId]>,
        job.stored.in_order,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The acceptance as a separate span, which the chunks continue; nothing without traces.
fn accepted(job: &NewJob) -> Option<String> {
    if !trace::is_on() {
        return None;
    }
    let span = tracing::info_span!(
        "job", job.id = %job.id, job.kind = job.stored.kind.as_str(), otel.kind = "producer", trace.id = Empty
    );
    trace::begin(&span, None);
    trace::of(&span)
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

/// Counts are stored as 32 bit integers; what is past that was refused long before.
pub(super) fn to_i32(count: usize) -> Result<i32, Problem> {
    i32::try_from(count).map_err(Problem::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_chunk_reads_back() {
        let job = JobId::new();
        assert_eq!(parse_chunk_name(&chunk_name(job, 42)), Some((job, 42)));
        for name in ["", "x:1", &job.to_string(), &format!("{job}:"), &format!("{job}:x")] {
            assert_eq!(parse_chunk_name(name), None, "{name}");
        }
    }
}
