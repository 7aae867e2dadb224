//! What a caller may do with a job: cancel it, retry what failed.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::acceptance::{WINDOW, chunk_name, to_i32};
use super::dispatch::queue_of;
use super::kind::JobKind;
use super::payload::{IDS_PER_CHUNK, ROWS_PER_CHUNK, Rows, pack_ids};
use super::receiving::lock_sequence;
use crate::account::access::Scope;
use crate::platform::answer::Answer;
use crate::platform::change::{Change, EndedJob};
use crate::platform::context::{Context, Origin};
use crate::platform::problem::{CONFLICT, Problem};
use crate::platform::services::Services;
use crate::record_change;

/// Cancels a job: what was done stays, what is queued is not done, and a chunk that runs changes nothing any more.
pub async fn cancel(services: &Services, context: &Context, id: Uuid) -> Result<(), Problem> {
    let mut change = Change::begin(services).await?;
    let tx = change.connection();
    let job = lock(tx, context.scope(), id).await?;
    if matches!(job.state.as_str(), "succeeded" | "failed" | "cancelled") {
        return Err(Problem::new(&CONFLICT, format!("the job has ended: it is {}", job.state)));
    }
    sqlx::query!(
        "UPDATE job_chunk
         SET state = 'cancelled', leased_until = NULL, payload = NULL, keys = NULL, token = token + 1, finished_at = now()
         WHERE job_id = $1 AND state IN ('queued', 'running')",
        id
    )
    .execute(&mut *tx)
    .await?;
    let seconds = sqlx::query_scalar!(
        r#"UPDATE job
           SET state = 'cancelled', chunks_open = 0, receiving_until = NULL, finished_at = now(), changed_at = now(),
               acceptance = coalesce(acceptance, nextval('acceptance'))
           WHERE id = $1
           RETURNING extract(epoch FROM now() - created_at)::float8 AS "seconds!""#,
        id
    )
    .fetch_one(&mut *tx)
    .await?;
    super::fetching::forget_keys(tx, id).await?;
    record_control(tx, &context.origin, "job.cancel", id, &job.state, "cancelled").await?;
    if JobKind::parse(&job.kind).is_some_and(JobKind::is_sync) {
        let recorded = super::execution::tell_end(tx, &context.origin, id, &job.state).await?;
        change.note(recorded);
    }
    let tx = change.connection();
    if let Some(sequence) = job.sequence {
        let next = super::execution::next_in_sequence(tx, sequence).await?;
        change.note_due(next);
    }
    if let Some(kind) = JobKind::parse(&job.kind) {
        let took = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        change.note_end(EndedJob { kind, outcome: "cancelled", took });
    }
    change.commit().await
}

/// Retries what failed: items that were refused, and chunks that failed for good. It is a new acceptance. What cannot end
/// otherwise stays as it is: rows whose key stands earlier in the job (the earlier one was taken), items that a partner
/// refused (the next send-out finds them by itself), and notices, whose items were taken. Where there is nothing else, it is
/// a conflict.
pub async fn retry(services: &Services, context: &Context, id: Uuid) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let tx = change.connection();
    let job = lock(tx, context.scope(), id).await?;
    if !matches!(job.state.as_str(), "succeeded" | "failed") {
        let why = if job.state == "cancelled" {
            "a cancelled job is not retried: what was done stays done; to have the rest done, send the request anew".to_owned()
        } else {
            format!("only a job that has ended can be retried: it is {}", job.state)
        };
        return Err(Problem::new(&CONFLICT, why));
    }
    let kind =
        JobKind::parse(&job.kind).ok_or_else(|| Problem::internal("a stored job has an unknown kind"))?;
    if let Some(sequence) = job.sequence {
        lock_sequence(tx, sequence).await?;
    }
    if let (Some(eshop), Some(source)) = (job.eshop, &job.source)
        && super::fetching::waiting(tx, eshop, kind, source).await?.is_some()
    {
        return Err(Problem::new(&CONFLICT, "an equal job of the e-shop waits already"));
    }
    let chunks = sqlx::query!(
        r#"WITH again AS (
               UPDATE job_chunk
               SET state = 'queued', attempts = 0, crashes = 0, failed = 0, error = NULL, finished_at = NULL,
                   next_attempt_at = now()
               WHERE job_id = $1 AND state = 'failed'
               RETURNING item_count
           )
           SELECT count(*) AS "chunks!", coalesce(sum(item_count), 0)::int AS "items!" FROM again"#,
        id
    )
    .fetch_one(&mut *tx)
    .await?;
    let (new_chunks, refused) = requeue_refused(tx, id, kind).await?;
    let (again, open) =
        (chunks.items + refused, i32::try_from(chunks.chunks).map_err(Problem::internal)? + new_chunks);
    if open == 0 {
        return Err(Problem::new(&CONFLICT, "nothing of this job can be retried"));
    }
    sqlx::query!(
        "UPDATE job
         SET state = 'queued', acceptance = nextval('acceptance'), done = done - $2, failed = failed - $2,
             chunks_open = $3, attempts = 0, error = NULL, finished_at = NULL, changed_at = now()
         WHERE id = $1",
        id,
        again,
        open,
    )
    .execute(&mut *tx)
    .await?;
    record_control(tx, &context.origin, "job.retry", id, &job.state, "queued").await?;
    let due = sqlx::query!(
        "SELECT number, calls_partner FROM job_chunk WHERE job_id = $1 AND state = 'queued' ORDER BY number LIMIT $2",
        id,
        i64::from(WINDOW),
    )
    .fetch_all(&mut *tx)
    .await?;
    change
        .note_due(due.into_iter().map(|chunk| (queue_of(chunk.calls_partner), chunk_name(id, chunk.number))));
    change.answer(context.claim, Answer::accepted(id)).await
}

struct Locked {
    kind: String,
    state: String,
    eshop: Option<Uuid>,
    source: Option<String>,
    sequence: Option<Uuid>,
}

/// The job, if it is in the scope. Chunks are locked before their job, as everybody does who ends one.
async fn lock(tx: &mut PgConnection, scope: &Scope, id: Uuid) -> Result<Locked, Problem> {
    sqlx::query!(
        "SELECT c.number FROM job_chunk c JOIN job j ON j.id = c.job_id
         WHERE c.job_id = $1 AND ($2::uuid[] IS NULL OR j.organisation_id = ANY ($2) OR j.organisations <@ $2)
           AND ($3::uuid IS NULL OR j.eshop_id = $3)
         ORDER BY c.number FOR UPDATE OF c",
        id,
        scope.organisations(),
        scope.eshop(),
    )
    .fetch_all(&mut *tx)
    .await?;
    sqlx::query_as!(
        Locked,
        "SELECT kind, state, eshop_id AS eshop, source, sequence FROM job
         WHERE id = $1 AND ($2::uuid[] IS NULL OR organisation_id = ANY ($2) OR organisations <@ $2)
           AND ($3::uuid IS NULL OR eshop_id = $3)
         FOR UPDATE",
        id,
        scope.organisations(),
        scope.eshop(),
    )
    .fetch_optional(tx)
    .await?
    .ok_or_else(|| Problem::not_found("job"))
}

/// Makes chunks of the refused items, and forgets their errors; answers how many chunks and items.
async fn requeue_refused(tx: &mut PgConnection, job: Uuid, kind: JobKind) -> Result<(i32, i32), Problem> {
    let ids = !kind.is_sync();
    let batch = if ids { IDS_PER_CHUNK } else { ROWS_PER_CHUNK };
    let mut number = sqlx::query_scalar!(
        r#"SELECT coalesce(max(number), -1) AS "number!" FROM job_chunk WHERE job_id = $1"#,
        job
    )
    .fetch_one(&mut *tx)
    .await?;
    let (mut chunks, mut items) = (0, 0);
    loop {
        let refused = sqlx::query!(
            "DELETE FROM job_item_error
             WHERE job_id = $1 AND index IN (
                 SELECT index FROM job_item_error WHERE job_id = $1 AND code NOT IN ('duplicate', 'refused_by_partner') AND NOT notice ORDER BY index LIMIT $2)
             RETURNING index, payload",
            job,
            i64::try_from(batch).map_err(Problem::internal)?,
        )
        .fetch_all(&mut *tx)
        .await?;
        if refused.is_empty() {
            return Ok((chunks, items));
        }
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
        let count = to_i32(indexes.len())?;
        number += 1;
        sqlx::query!(
            "INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index, indexes)
             VALUES ($1, $2, 'queued', $3, $4, 0, $5)",
            job,
            number,
            payload,
            count,
            &indexes,
        )
        .execute(&mut *tx)
        .await?;
        chunks += 1;
        items += count;
    }
}

async fn record_control(
    tx: &mut PgConnection,
    origin: &Origin,
    action: &str,
    job: Uuid,
    from: &str,
    to: &str,
) -> Result<(), Problem> {
    record_change!(
        tx,
        origin,
        action,
        "job",
        "",
        "WITH changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('state', jsonb_build_array($10::text, $11::text)) AS changes, '{}'::jsonb AS data
             FROM job WHERE id = $9
         )",
        job,
        from,
        to,
    )
    .await?;
    Ok(())
}
