//! Items of a job that were refused, each with its reason and the item itself (`docs/reference/jobs.md#item-errors`).

use serde_json::{Value, json};
use sqlx::PgConnection;

use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::input::{Reader, Rule, integer, object};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

use crate::list::{LIMIT, OFFSET};

/// One refused item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemError {
    /// Its position in the job, from 0.
    pub index: i32,
    /// Its line in the file that it came in, from 1.
    pub line: Option<i64>,
    /// What it calls itself: an id, a `productSku`.
    pub key: Option<String>,
    /// Why, for programs.
    pub code: &'static str,
    /// Why, for people.
    pub message: String,
    /// The item as it came.
    pub payload: Vec<u8>,
    /// The item was accepted: this is only a notice.
    pub notice: bool,
}

/// Code and message of an item that ended in an internal error.
pub const INTERNAL: (&str, &str) = (
    "internal",
    "it ended in an internal error; the log of the worker has the cause, under the id of the job",
);
/// Code and message of an item whose chunk failed for good. Its payload is that of the chunk.
pub const CHUNK_FAILED: (&str, &str) = (
    "chunk_failed",
    "it was not executed: the error of the job says why, and a retry of the job executes it again",
);

/// Characters of a key that are kept.
const KEY_LENGTH: usize = 255;

/// Item errors of a job that are kept. Further errors are only counted, in `progress.failed`.
pub const KEPT: i32 = 10_000;

/// Keeps as many of a chunk's errors as its job has room for, in the transaction that has counted them: with these, there have
/// been so many.
pub(super) async fn keep(
    tx: &mut PgConnection,
    job: JobId,
    errors: &[ItemError],
    with_these: i32,
) -> Result<(), sqlx::Error> {
    let before = usize::try_from(with_these).unwrap_or(0).saturating_sub(errors.len());
    let room = usize::try_from(KEPT).unwrap_or(0).saturating_sub(before);
    insert(tx, job, errors.get(..room).unwrap_or(errors)).await
}

/// Counts errors of a chunk that continues, and keeps as many of them as its job has room for.
pub(crate) async fn record(
    tx: &mut PgConnection,
    job: JobId,
    errors: &[ItemError],
) -> Result<(), sqlx::Error> {
    if errors.is_empty() {
        return Ok(());
    }
    let with_these = sqlx::query_scalar!(
        "UPDATE job SET item_errors = item_errors + $2 WHERE id = $1 RETURNING item_errors",
        job.get(),
        i32::try_from(errors.len()).unwrap_or(i32::MAX),
    )
    .fetch_one(&mut *tx)
    .await?;
    keep(tx, job, errors, with_these).await
}

async fn insert(tx: &mut PgConnection, job: JobId, errors: &[ItemError]) -> Result<(), sqlx::Error> {
    if errors.is_empty() {
        return Ok(());
    }
    let indexes: Vec<i32> = errors.iter().map(|e| e.index).collect();
    let lines: Vec<Option<i64>> = errors.iter().map(|e| e.line).collect();
    // text columns cannot hold U+0000, which a malformed row may well contain
    let clean = |text: &str| text.replace('\0', "\u{fffd}");
    let keys: Vec<Option<String>> = errors
        .iter()
        .map(|e| e.key.as_deref().map(|key| clean(key).chars().take(KEY_LENGTH).collect()))
        .collect();
    let codes: Vec<&str> = errors.iter().map(|e| e.code).collect();
    let messages: Vec<String> = errors.iter().map(|e| clean(&e.message)).collect();
    let notices: Vec<bool> = errors.iter().map(|e| e.notice).collect();
    let payloads: Vec<&[u8]> = errors.iter().map(|e| e.payload.as_slice()).collect();
    sqlx::query!(
        "INSERT INTO job_item_error (job_id, index, key, code, message, payload, notice, line)
         SELECT $1, e.*
         FROM unnest($2::int[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bool[], $8::bigint[]) AS e
         ON CONFLICT (job_id, index) DO UPDATE
         SET key = excluded.key, code = excluded.code, message = excluded.message, payload = excluded.payload,
             notice = excluded.notice, line = excluded.line",
        job.get(),
        &indexes,
        &keys as &[Option<String>],
        &codes as &[&str],
        &messages,
        &payloads as &[&[u8]],
        &notices,
        &lines as &[Option<i64>],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The body of a request for a page: the limit, without which a page is as large as one may be, and the offset.
pub fn query() -> impl Rule<Out = (i64, i64)> {
    object(|object| {
        let limit = object.optional_or("limit", integer(0..=LIMIT), LIMIT);
        Some((limit, object.optional_or("offset", integer(0..=OFFSET), 0)))
    })
}

/// A page of the refused items of a job, by position: `{limit?, offset?}`, answered in the envelope of every list.
pub async fn list(
    services: &Services,
    scope: &Scope,
    job: JobId,
    body: Option<Value>,
) -> Result<String, Problem> {
    let (limit, offset) = Reader::read(body.unwrap_or_else(|| json!({})), query())?;
    let total = sqlx::query_scalar!(
        r#"SELECT (SELECT count(*) FROM job_item_error e WHERE e.job_id = j.id) AS "total!" FROM job j
           WHERE j.id = $1 AND in_scope($2, j.organisation_id, j.organisations)
             AND in_eshop($3, j.eshop_id)"#,
        job.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&services.db.main)
    .await?
    .ok_or_else(|| Problem::not_found("job"))?;
    let results = page(services, job, limit, offset).await?;
    let returned = i64::try_from(results.len()).map_err(Problem::internal)?;
    let paging =
        json!({"returned": returned, "from": offset, "to": offset.saturating_add(returned), "total": total});
    Ok(json!({"results": results, "paging": paging}).to_string())
}

/// The first refused items of a job that its caller may see.
///
/// # Errors
/// Those of the database.
pub async fn first(services: &Services, job: JobId, limit: i64) -> Result<Vec<Value>, Problem> {
    page(services, job, limit, 0).await
}

async fn page(services: &Services, job: JobId, limit: i64, offset: i64) -> Result<Vec<Value>, Problem> {
    let rows = sqlx::query!(
        "SELECT index, line, key, code, message FROM job_item_error WHERE job_id = $1 ORDER BY index LIMIT $2 OFFSET $3",
        job.get(),
        limit,
        offset,
    )
    .fetch_all(&services.db.main)
    .await?;
    Ok(rows
        .into_iter()
        .map(
            |e| json!({"index": e.index, "line": e.line, "key": e.key, "code": e.code, "message": e.message}),
        )
        .collect())
}
