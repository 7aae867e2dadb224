//! Accepting jobs: the row and its chunks, in the transaction of the request.

use std::collections::HashSet;

use serde_json::{Map, Value};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, PgConnection};
use uuid::Uuid;

use super::chosen::{Bulk, Chosen, Wanted};
use super::dispatch;
use super::entry::{NewJob, insert, to_i32};
use super::kind::{Job, JobState, Stored, Within};
use super::payload::pack_ids;
use super::room;
use crate::list::matching::Plan;
use crate::list::refused;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{Id, JobId, OrganisationId};
use longshore_kernel::input::{Rule, array, id};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

/// The largest bulk, in ids as they came (`docs/reference/jobs.md#bulk-operations`).
pub const LARGEST_BULK: usize = 100_000;

/// The ids of a bulk.
pub fn ids() -> impl Rule<Out = Vec<Uuid>> + Clone {
    array(1..=LARGEST_BULK, id())
}

/// How a job takes its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// So many in a chunk: what Postgres packs has at most 128 KiB.
    pub(crate) per_chunk: u16,
    /// The order of those that match, by columns of `{t}`. Ids have the order in which they came.
    pub(crate) order: &'static str,
}

/// Accepts a job over records: those with the ids, where duplicates are ignored and the order of the first mention is kept, or all
/// that match, however many. It is of the organisations of the records: of those with ids, they are asked.
pub(crate) async fn accept<J: Job, T>(
    services: &Services,
    context: &Context,
    job: impl Fn(Within) -> J,
    Bulk { chosen, is_dry_run }: Bulk,
    taken: Taken,
    organisations: impl AsyncFnOnce(
        &mut PgConnection,
        &Scope,
        &[Id<T>],
    ) -> Result<Vec<OrganisationId>, sqlx::Error>,
) -> Result<Answer, Problem> {
    let ids: Vec<Id<T>> = match chosen {
        Chosen::Ids(ids) => distinct(ids.into_iter().map(Id::from).collect()),
        Chosen::Matching(wanted) => {
            let accept = |plan| accept_matching(services, context, &job, &wanted, is_dry_run, taken, plan);
            return match accept(Plan::Any).await {
                Err(problem) if problem.is_cancelled() => accept(Plan::WithoutLoops).await.map_err(refused),
                accepted => accepted,
            };
        }
    };
    let mut change = Change::begin(services).await?;
    let organisations = organisations(change.connection(), context.scope(), &ids).await?;
    let stored = Stored { is_dry_run, ..Stored::new(&job(Within::new(context.scope(), &organisations)))? };
    let per_chunk = usize::from(taken.per_chunk);
    let answer = insert_ids(&mut change, context, stored, organisations, ids, per_chunk).await?;
    change.answer(context.claim, answer).await
}

/// Puts what was found into chunks of `$2`, of the job `$1`: `place` is its position in the order.
const INTO_CHUNKS: &str = "), packed AS MATERIALIZED (
         SELECT place / $2 AS number, count(*)::int AS items, string_agg(uuid_send(id), '' ORDER BY place) AS ids,
                array_agg(DISTINCT organisation) AS organisations
         FROM found GROUP BY 1
     ), written AS (
         INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index)
         SELECT $1, number, 'queued', packed_ids(ids), items, number * $2 FROM packed
     )
     SELECT coalesce(sum(items), 0)::bigint, count(*)::int, ARRAY(SELECT DISTINCT unnest(organisations) FROM packed) FROM packed";

/// Accepts a job over all records that match: their ids are written by one statement. What matches later is not meant.
async fn accept_matching<J: Job>(
    services: &Services,
    context: &Context,
    job: &impl Fn(Within) -> J,
    wanted: &Wanted,
    is_dry_run: bool,
    taken: Taken,
    plan: Plan,
) -> Result<Answer, Problem> {
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    // chunks belong to a job; what it is about is known when they are written
    let parameters = Value::Object(Map::new());
    let mut new = NewJob {
        id: JobId::new(),
        stored: Stored { kind: J::KIND, parameters, in_order: J::IN_ORDER, is_dry_run },
        organisations: scope.organisations().unwrap_or_default().to_vec(),
        eshop: scope.eshop(),
        sequence: None,
        source: None,
    };
    let expected = new.organisation();
    room::make_for(change.connection(), services, expected, &new.stored).await?;
    insert(change.connection(), &new, &context.origin, JobState::Queued, 0, 0).await?;
    let mut values = PgArguments::default();
    values.add(new.id.get()).map_err(Problem::internal)?;
    values.add(i32::from(taken.per_chunk)).map_err(Problem::internal)?;
    let before = [
        "WITH found AS (SELECT {t}.id, {t}.organisation_id AS organisation, (row_number() OVER (ORDER BY ",
        taken.order,
        ") - 1)::int AS place",
    ];
    let (total, chunks, organisations): (i64, i32, Vec<OrganisationId>) =
        wanted.matching.one_within(change.connection(), plan, scope, values, &before, INTO_CHUNKS).await?;
    wanted.check(total)?;
    new.organisations = organisations;
    if new.organisation() != expected {
        room::make_for(change.connection(), services, new.organisation(), &new.stored).await?;
    }
    new.stored = Stored::new(&job(Within::new(scope, &new.organisations)))?;
    new.stored.note_criteria(wanted.matching.criteria());
    complete(change.connection(), &new, to_i32(usize::try_from(total).map_err(Problem::internal)?)?, chunks)
        .await?;
    dispatch::note(&mut change, Queue::Chunk, new.organisation());
    change.answer(context.claim, Answer::accepted_job(new.id)).await
}

/// Records what a job is about whose chunks are written.
async fn complete(tx: &mut PgConnection, job: &NewJob, total: i32, chunks: i32) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE job SET organisation_id = $2, organisations = $3, parameters = $4, total = $5, chunks_open = $6 WHERE id = $1",
        job.id.get(),
        job.organisation() as Option<OrganisationId>,
        job.several() as Option<&[OrganisationId]>,
        job.stored.parameters,
        total,
        chunks,
    )
    .execute(tx)
    .await?;
    Ok(())
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
    room::make_for(change.connection(), services, job.organisation(), &job.stored).await?;
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
