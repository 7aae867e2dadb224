//! Actions on a job: cancelling it, and retrying its failed items; both on several ([`bulk`]); and releasing what it has withheld ([`release`]).

pub mod bulk;
pub mod release;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::dispatch;
use super::ending::{self, Ending};
use super::entry::to_i32;
use super::item_error::CHUNK_FAILED;
use super::kind::{JobKind, JobState, Shop, Unusable};
use super::line;
use super::payload::{IDS_PER_CHUNK, ROWS_PER_CHUNK, Rows, pack_ids};
use super::room;
use super::row_lines::RowLines;
use super::withheld;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, EndedJob};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::queue::Queue;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Chunks that one statement takes back when a job is cancelled.
const TAKEN_BACK: i64 = 1_000;
/// For how long the caller waits for that; the upkeep continues with the rest.
const WHILE: Duration = Duration::from_millis(300);

/// Cancels a job: completed changes are kept, queued chunks are not executed, and a running chunk is rolled back.
///
/// The job is marked first, in a separate statement: claiming a chunk checks the job, and ending one counts it there, and
/// both then find it cancelled. No chunk is waited for, however long it runs.
pub async fn cancel(services: &Services, context: &Context, id: JobId) -> Result<(), Problem> {
    let mut change = Change::begin(services).await?;
    let job = lock(change.connection(), context.scope(), id).await?;
    if job.state.is_ended() {
        // it stays what it is, but for what its guard withholds
        if !withheld::forget(change.connection(), &[id]).await? {
            return Err(Problem::new(&CONFLICT, job.has_ended()));
        }
        record_control(change.connection(), &context.origin, "job.cancel", &[id], &[job.state], job.state)
            .await?;
        return change.commit().await;
    }
    end(&mut change, &context.origin, &[job], None).await?;
    change.commit().await?;
    take_back_now(&services.db.main, &[id]).await;
    Ok(())
}

/// Why a partner may no longer be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCalls {
    /// The integration setting is not active.
    Inactive,
    /// There is no integration setting.
    Deleted,
}

/// Cancels the jobs of an e-shop that still have to call its partner and no longer may. A test of the connection continues. Call it
/// before the setting is written: what ends a job locks the job first, too.
pub(crate) async fn cancel_calls(
    change: &mut Change<'_>,
    origin: &Origin,
    shop: Shop,
    why: NoCalls,
) -> Result<(), Problem> {
    let mut jobs = sqlx::query_as!(
        Locked,
        r#"SELECT id, kind, state AS "state: JobState", organisation_id AS "organisation: OrganisationId", eshop_id AS "eshop: EshopId", source, sequence FROM job
         WHERE source IS NOT NULL AND state IN ('queued', 'running', 'retrying') AND organisation_id = $1 AND eshop_id = $2
           AND kind <> 'integration.test'
         ORDER BY id FOR UPDATE"#,
        shop.organisation.get(),
        shop.eshop.get(),
    )
    .fetch_all(change.connection())
    .await?;
    // asked under their locks: a call may just have ended
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let calling: HashSet<JobId> = sqlx::query_scalar!(
        r#"SELECT job_id AS "id: JobId" FROM job_chunk WHERE job_id = ANY ($1) AND state IN ('queued', 'running') AND calls_partner"#,
        &ids as &[JobId],
    )
    .fetch_all(change.connection())
    .await?
    .into_iter()
    .collect();
    jobs.retain(|job| calling.contains(&job.id));
    if jobs.is_empty() {
        return Ok(());
    }
    let why = match why {
        NoCalls::Inactive => "the integration setting of the e-shop was switched off",
        NoCalls::Deleted => "the integration setting of the e-shop was deleted",
    };
    end(change, origin, &jobs, Some(why)).await
}

/// Marks jobs as cancelled that have not ended, in the transaction that has locked them. `why` says it where nobody asked for it.
async fn end(
    change: &mut Change<'_>,
    origin: &Origin,
    jobs: &[Locked],
    why: Option<&str>,
) -> Result<(), Problem> {
    let (ids, states): (Vec<JobId>, Vec<JobState>) = jobs.iter().map(|job| (job.id, job.state)).unzip();
    let tx = change.connection();
    let ended = sqlx::query!(
        r#"UPDATE job
           SET state = 'cancelled', error = coalesce($2, error), chunks_open = 0, receiving_until = NULL, finished_at = now(),
               changed_at = now(),
               preview_kept_until = CASE WHEN preview_of IS NOT NULL THEN now() END,
               acceptance = coalesce(acceptance, nextval('acceptance'))
           WHERE id = ANY ($1)
           RETURNING id AS "id: JobId", extract(epoch FROM now() - created_at)::float8 AS "seconds!""#,
        &ids as &[JobId],
        why as Option<&str>,
    )
    .fetch_all(&mut *tx)
    .await?;
    super::fetching::forget_keys(tx, &ids).await?;
    withheld::forget(tx, &ids).await?;
    record_control(tx, origin, "job.cancel", &ids, &states, JobState::Cancelled).await?;
    let endings =
        jobs.iter().filter_map(|job| Some(Ending { job: job.id, kind: job.kind()?, before: job.state }));
    ending::tell(change, origin, endings).await?;
    for job in jobs {
        let Some(kind) = job.kind() else { continue };
        if job.sequence.is_some() {
            super::execution::note_next(change, job.organisation, job.source.as_deref());
        }
        let seconds = ended.iter().find(|ended| ended.id == job.id).map_or(0.0, |ended| ended.seconds);
        let took = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        change.note_end(EndedJob { kind: kind.as_str(), outcome: JobState::Cancelled.as_str(), took });
    }
    Ok(())
}

/// Takes back what it can of jobs that were just cancelled.
async fn take_back_now(db: &PgPool, ids: &[JobId]) {
    let started = Instant::now();
    while started.elapsed() < WHILE {
        match take_back(db, ids, TAKEN_BACK).await {
            Ok(taken) if i64::try_from(taken).is_ok_and(|taken| taken >= TAKEN_BACK) => {}
            Ok(_) => break,
            Err(error) => {
                tracing::debug!(%error, "the chunks of a cancelled job were not ended; the upkeep will end them");
                break;
            }
        }
    }
}

/// Takes back chunks of cancelled jobs, except those that are just being ended: the worker finds that it cannot end them. A
/// worker that is executing one notices at its next renewal. Returns how many.
async fn take_back(db: &PgPool, jobs: &[JobId], limit: i64) -> Result<u64, sqlx::Error> {
    let taken = sqlx::query!(
        "UPDATE job_chunk c
         SET state = 'cancelled', leased_until = NULL, payload = NULL, keys = NULL, token = token + 1, finished_at = now()
         FROM (SELECT t.job_id, t.number FROM unnest($1::uuid[]) AS j (id)
               CROSS JOIN LATERAL (
                   SELECT job_id, number FROM job_chunk
                   WHERE job_id = j.id AND state IN ('queued', 'running') ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED) AS t
         ) AS t
         WHERE c.job_id = t.job_id AND c.number = t.number",
        jobs as &[JobId],
        limit,
    )
    .execute(db)
    .await?;
    Ok(taken.rows_affected())
}

/// Takes back what is left of jobs that were cancelled lately; returns how many chunks.
pub async fn take_back_left(db: &PgPool) -> Result<u64, Problem> {
    let jobs = sqlx::query_scalar!(
        r#"SELECT j.id AS "id: JobId" FROM job j
         CROSS JOIN LATERAL (
             SELECT FROM job_chunk WHERE job_id = j.id AND state IN ('queued', 'running') ORDER BY number LIMIT 1) AS left_over
         WHERE j.finished_at > now() - interval '1 day' AND j.state = 'cancelled' LIMIT 100"#
    )
    .fetch_all(db)
    .await?;
    if jobs.is_empty() {
        return Ok(0);
    }
    Ok(take_back(db, &jobs, TAKEN_BACK).await?)
}

/// Retries what failed: items that were refused, and chunks that failed for good. It is a new acceptance. Items that would
/// end in the same way are not retried: rows whose key occurs earlier in the job (the earlier one counts), items that
/// a partner refused (the next send-out finds them), those whose record has changed since the dry run, notices, whose items were
/// accepted, and items beyond the kept errors ([`KEPT`](super::item_error::KEPT)), which have no payload. Where there is nothing
/// else, it is a conflict.
pub async fn retry(services: &Services, context: &Context, id: JobId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let tx = change.connection();
    let job = lock(tx, context.scope(), id).await?;
    if !matches!(job.state, JobState::Succeeded | JobState::Failed) {
        let why = if job.state == JobState::Cancelled {
            "a cancelled job cannot be retried; send the request again to process the remaining items"
                .to_owned()
        } else {
            format!("only a job that has ended can be retried; this one is {}", job.state)
        };
        return Err(Problem::new(&CONFLICT, why));
    }
    if job.kind() == Some(JobKind::Preview) {
        let why = "a dry run is not retried: send the request again, or apply what it found";
        return Err(Problem::new(&CONFLICT, why));
    }
    room::make(tx, services, job.organisation).await?;
    let kind: JobKind =
        job.kind.parse().map_err(|_| Problem::new(&CONFLICT, Unusable::kind(&job.kind).to_string()))?;
    if let (Some(organisation), Some(_)) = (job.organisation, job.sequence) {
        line::lock(tx, kind, organisation, job.eshop).await?;
    }
    if let (Some(eshop), Some(source)) = (job.eshop, &job.source)
        && super::fetching::waiting(tx, eshop, kind, source).await?.is_some()
    {
        return Err(Problem::new(&CONFLICT, "an identical job of the e-shop is already waiting"));
    }
    let chunks = sqlx::query!(
        r#"WITH again AS (
               UPDATE job_chunk
               SET state = 'queued', attempts = 0, crashes = 0, deaths_alone = 0, failed = 0, error = NULL, finished_at = NULL,
                   next_attempt_at = now(), waits_since = NULL
               WHERE job_id = $1 AND state = 'failed'
               RETURNING item_count
           )
           SELECT count(*) AS "chunks!", coalesce(sum(item_count), 0)::int AS "items!" FROM again"#,
        id.get()
    )
    .fetch_one(&mut *tx)
    .await?;
    // they are among the items of those chunks
    sqlx::query!("DELETE FROM job_item_error WHERE job_id = $1 AND code = $2", id.get(), CHUNK_FAILED.0)
        .execute(&mut *tx)
        .await?;
    let (new_chunks, refused) = requeue_refused(tx, id, kind).await?;
    let (again, open) =
        (chunks.items + refused, i32::try_from(chunks.chunks).map_err(Problem::internal)? + new_chunks);
    if open == 0 {
        return Err(Problem::new(&CONFLICT, "this job has nothing to retry"));
    }
    if job.source.is_some() {
        super::fetching::void_memo_by_retry(tx, id).await?;
    }
    // the remaining pages of a pull have the place of the retry; without pages, its call is out of line
    sqlx::query!(
        "WITH accepted AS MATERIALIZED (
             SELECT nextval('acceptance') AS number
         ), pages AS (
             UPDATE job_chunk c SET acceptance = accepted.number FROM accepted
             WHERE c.job_id = $1 AND c.state = 'queued' AND NOT c.calls_partner AND $4
             RETURNING c.number
         )
         UPDATE job
         SET state = 'queued', acceptance = accepted.number, accepted_at = clock_timestamp(), done = done - $2 - withheld, failed = failed - $2, withheld = 0,
             chunks_open = $3, attempts = 0, error = NULL,
             item_errors = (SELECT count(*) FROM job_item_error WHERE job_id = $1), finished_at = NULL, changed_at = now(),
             out_of_line_until = CASE WHEN $4 AND NOT EXISTS (SELECT FROM pages) THEN 'infinity'::timestamptz END
         FROM accepted WHERE id = $1",
        id.get(),
        again,
        open,
        job.source.is_some() && kind.is_sync(),
    )
    .execute(&mut *tx)
    .await?;
    record_control(tx, &context.origin, "job.retry", &[id], &[job.state], JobState::Queued).await?;
    dispatch::note(&mut change, Queue::Chunk, job.organisation);
    if job.source.is_some() {
        dispatch::note(&mut change, Queue::Partner, job.organisation);
    }
    change.answer(context.claim, Answer::accepted_job(id)).await
}

struct Locked {
    id: JobId,
    kind: String,
    state: JobState,
    organisation: Option<OrganisationId>,
    eshop: Option<EshopId>,
    source: Option<String>,
    sequence: Option<Uuid>,
}

impl Locked {
    fn kind(&self) -> Option<JobKind> {
        self.kind.parse().ok()
    }

    /// Why it cannot be cancelled.
    fn has_ended(&self) -> String {
        format!("the job has already ended: it is {}", self.state)
    }
}

/// The job, if it is in the scope.
async fn lock(tx: &mut PgConnection, scope: &Scope, id: JobId) -> Result<Locked, Problem> {
    lock_all(tx, scope, &[id]).await?.pop().ok_or_else(|| Problem::not_found("job"))
}

/// Those of the jobs that are in the scope, locked in the order of their ids.
async fn lock_all(tx: &mut PgConnection, scope: &Scope, ids: &[JobId]) -> Result<Vec<Locked>, sqlx::Error> {
    sqlx::query_as!(
        Locked,
        r#"SELECT id, kind, state AS "state: JobState", organisation_id AS "organisation: OrganisationId", eshop_id AS "eshop: EshopId", source, sequence FROM job
         WHERE id = ANY ($1) AND in_scope($2, organisation_id, organisations)
           AND in_eshop($3, eshop_id)
         ORDER BY id FOR UPDATE"#,
        ids as &[JobId],
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_all(tx)
    .await
}

/// Makes chunks of the refused items, and forgets their errors; returns how many chunks and items.
async fn requeue_refused(tx: &mut PgConnection, job: JobId, kind: JobKind) -> Result<(i32, i32), Problem> {
    let ids = !kind.has_rows();
    let batch = if ids { IDS_PER_CHUNK.into() } else { ROWS_PER_CHUNK };
    let mut number = sqlx::query_scalar!(
        r#"SELECT coalesce(max(number), -1) AS "number!" FROM job_chunk WHERE job_id = $1"#,
        job.get()
    )
    .fetch_one(&mut *tx)
    .await?;
    // which rows repeat an earlier one, their chunks know: a code that says so, others have too
    let again = sqlx::query_scalar!(
        r#"SELECT index AS "index!" FROM job_item_error
           WHERE job_id = $1 AND code NOT IN ('refused_by_partner', 'changed_since') AND NOT notice
           EXCEPT
           SELECT coalesce(c.indexes[d.place + 1], c.first_index + d.place)
           FROM job_chunk c CROSS JOIN LATERAL unnest(c.duplicates) AS d (place) WHERE c.job_id = $1
           ORDER BY 1"#,
        job.get(),
    )
    .fetch_all(&mut *tx)
    .await?;
    let (mut chunks, mut items) = (0, 0);
    for again in again.chunks(batch) {
        let mut refused = sqlx::query!(
            "DELETE FROM job_item_error WHERE job_id = $1 AND index = ANY ($2) RETURNING index, line, payload",
            job.get(),
            again,
        )
        .fetch_all(&mut *tx)
        .await?;
        refused.sort_unstable_by_key(|row| row.index);
        let payload = if ids {
            let ids: Vec<Uuid> = refused.iter().filter_map(|r| Uuid::from_slice(&r.payload).ok()).collect();
            pack_ids(&ids)
        } else {
            let mut rows = Rows::default();
            for row in &refused {
                rows.push(&row.payload);
            }
            rows.take()
        };
        let indexes: Vec<i32> = refused.iter().map(|r| r.index).collect();
        let mut lines = RowLines::default();
        for (position, line) in
            refused.iter().enumerate().filter_map(|(position, r)| Some((position, r.line?)))
        {
            lines.push(position, line);
        }
        let count = to_i32(indexes.len())?;
        number += 1;
        sqlx::query!(
            "INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index, indexes, lines)
             VALUES ($1, $2, 'queued', $3, $4, 0, $5, $6)",
            job.get(),
            number,
            payload,
            count,
            &indexes,
            lines.stored(),
        )
        .execute(&mut *tx)
        .await?;
        chunks += 1;
        items += count;
    }
    Ok((chunks, items))
}

/// Records a new state of jobs, whose former ones are given in their order.
pub(super) async fn record_control(
    tx: &mut PgConnection,
    origin: &Origin,
    action: &str,
    jobs: &[JobId],
    from: &[JobState],
    to: JobState,
) -> Result<(), Problem> {
    let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
    record_change!(
        tx,
        origin,
        action,
        "job",
        None,
        "WITH changed AS (
             SELECT job.id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('state', jsonb_build_array(c.was, $11::text)) AS changes, '{}'::jsonb AS data
             FROM unnest($9::uuid[], $10::text[]) AS c (id, was) JOIN job ON job.id = c.id
         )",
        jobs as &[JobId],
        &from as &[&str],
        to.as_str(),
    )
    .await?;
    Ok(())
}
