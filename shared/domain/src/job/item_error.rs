//! Items of a job that were refused, each with its reason and the item itself (`docs/reference/jobs.md#item-errors`).

use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;

use longshore_kernel::access::Scope;
use longshore_kernel::csv::write::{self as csv, Cell};
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::input::{Reader, Rule, integer, object, one_of, text};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

use crate::list::cursor::{CHARACTERS, Cursor};
use crate::list::{COUNTS, Form, LIMIT, NO_CURSOR, OFFSET, UNCOUNTED};

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

/// Which page of the item errors of a job is asked for.
#[derive(Clone, Debug)]
pub struct Query {
    limit: i64,
    offset: i64,
    after: Option<String>,
    is_counted: bool,
}

/// The body of a request for a page, whose limit is as large as one may be without another wish.
pub fn query() -> impl Rule<Out = Query> {
    object(|object| {
        Some(Query {
            limit: object.optional_or("limit", integer(0..=LIMIT), LIMIT),
            offset: object.optional_or("offset", integer(0..=OFFSET), 0),
            after: object.optional("after", text(1..=CHARACTERS)),
            is_counted: object.optional_or("count", one_of(COUNTS), COUNTS[0]) != UNCOUNTED,
        })
    })
}

/// A page of the refused items of a job, by position: `{limit?, offset?, after?, count?}`, answered in the envelope of every list. They
/// are few, and added only: the place of a cursor is its number.
pub async fn list(
    services: &Services,
    scope: &Scope,
    job: JobId,
    body: Option<Value>,
    form: Form,
) -> Result<String, Problem> {
    let Query { limit, mut offset, after, is_counted } =
        Reader::read(body.unwrap_or_else(|| json!({})), query())?;
    let of = format!("item errors of {job}");
    if let Some(after) = after {
        let cursor = Cursor::read(&of, &after).filter(|_| offset == 0);
        offset = cursor.ok_or_else(|| Problem::violation("after", "invalid_cursor", NO_CURSOR))?.from;
    }
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
    if form == Form::Csv {
        let mut text = String::new();
        csv::line(&mut text, Listed::NAMES.map(|name| Cell::text(Some(name))));
        for item in &results {
            csv::line(&mut text, item.cells());
        }
        return Ok(text);
    }
    let returned = i64::try_from(results.len()).map_err(Problem::internal)?;
    let to = offset.saturating_add(returned);
    let next = (returned > 0 && to < total).then(|| Cursor::write(&of, to, "[]"));
    let total = is_counted.then_some(total);
    let paging = json!({"returned": returned, "from": offset, "to": to, "total": total, "next": next});
    Ok(json!({"results": results, "paging": paging}).to_string())
}

/// An item error as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    index: i32,
    line: Option<i64>,
    key: Option<String>,
    code: String,
    message: String,
}

impl Listed {
    /// Its members, in their order.
    const NAMES: [&str; 5] = ["index", "line", "key", "code", "message"];

    fn cells(&self) -> [Cell<'_>; 5] {
        let Self { index, line, key, code, message } = self;
        [
            Cell::integer(Some(*index)),
            Cell::integer(*line),
            Cell::text(key.as_deref()),
            Cell::text(Some(code)),
            Cell::text(Some(message)),
        ]
    }
}

/// The first refused items of a job that its caller may see.
///
/// # Errors
/// Those of the database.
pub async fn first(services: &Services, job: JobId, limit: i64) -> Result<Vec<Listed>, Problem> {
    page(services, job, limit, 0).await
}

async fn page(services: &Services, job: JobId, limit: i64, offset: i64) -> Result<Vec<Listed>, Problem> {
    let found = sqlx::query_as!(
        Listed,
        "SELECT index, line, key, code, message FROM job_item_error WHERE job_id = $1 ORDER BY index LIMIT $2 OFFSET $3",
        job.get(),
        limit,
        offset,
    )
    .fetch_all(&services.db.main)
    .await?;
    Ok(found)
}
