//! Items of a job that were refused, each with its reason and the item itself (`docs/reference/jobs.md#item-errors`).

use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;

use longshore_kernel::access::Scope;
use longshore_kernel::csv::write::{self as csv, Cell};
use longshore_kernel::database::Database;
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
    /// The field that it is about, as in `items[0].quantity`.
    pub field: Option<String>,
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

/// Characters of a field that are kept: a caller chooses the names of unknown ones.
const FIELD_LENGTH: usize = 255;

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

/// A text as a column can hold it, without U+0000, which a malformed row may well contain.
pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

async fn insert(tx: &mut PgConnection, job: JobId, errors: &[ItemError]) -> Result<(), sqlx::Error> {
    if errors.is_empty() {
        return Ok(());
    }
    let indexes: Vec<i32> = errors.iter().map(|e| e.index).collect();
    let lines: Vec<Option<i64>> = errors.iter().map(|e| e.line).collect();
    let keys: Vec<Option<String>> = errors
        .iter()
        .map(|e| e.key.as_deref().map(|key| clean(key).chars().take(KEY_LENGTH).collect()))
        .collect();
    let codes: Vec<&str> = errors.iter().map(|e| e.code).collect();
    let messages: Vec<String> = errors.iter().map(|e| clean(&e.message)).collect();
    let fields: Vec<Option<String>> = errors
        .iter()
        .map(|e| e.field.as_deref().map(|field| clean(field).chars().take(FIELD_LENGTH).collect()))
        .collect();
    let notices: Vec<bool> = errors.iter().map(|e| e.notice).collect();
    let payloads: Vec<&[u8]> = errors.iter().map(|e| e.payload.as_slice()).collect();
    sqlx::query!(
        "INSERT INTO job_item_error (job_id, index, key, code, message, payload, notice, line, field)
         SELECT $1, e.*
         FROM unnest($2::int[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bool[], $8::bigint[], $9::text[]) AS e
         ON CONFLICT (job_id, index) DO UPDATE
         SET key = excluded.key, code = excluded.code, message = excluded.message, payload = excluded.payload,
             notice = excluded.notice, line = excluded.line, field = excluded.field",
        job.get(),
        &indexes,
        &keys as &[Option<String>],
        &codes as &[&str],
        &messages,
        &payloads as &[&[u8]],
        &notices,
        &lines as &[Option<i64>],
        &fields as &[Option<String>],
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
    /// Its position in the job, from 0.
    pub index: i32,
    /// Its line in the file that it came in, from 1.
    pub line: Option<i64>,
    /// What it calls itself.
    pub key: Option<String>,
    /// Why, for programs.
    pub code: String,
    /// Why, for people.
    pub message: String,
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

/// How many groups there are at most: the largest ones.
const GROUPS: i64 = 50;

/// Places in the path of a field, which do not distinguish groups.
pub(super) const PLACES: &str = r"\[[0-9]+\]";

/// Item errors with the same code about the same field, whatever its place in an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Names it in addresses.
    #[serde(skip)]
    pub name: String,
    /// Why, for programs.
    pub code: String,
    /// The field, as in `items[].quantity`.
    pub field: Option<String>,
    /// How many.
    pub count: i64,
    /// The first of them.
    pub example: Listed,
}

/// How many items of a job were refused, and of how many the reason is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Refused items that are kept.
    pub kept: i64,
    /// Refused items.
    pub refused: i64,
}

/// Why items of a job were refused: `{"results", "kept", "refused"}`, the largest group first.
pub async fn grouped(services: &Services, scope: &Scope, job: JobId) -> Result<String, Problem> {
    let Kept { kept, refused } =
        kept(&services.db, scope, job).await?.ok_or_else(|| Problem::not_found("job"))?;
    let results = groups(&services.db, job, false).await?;
    Ok(json!({"results": results, "kept": kept, "refused": refused}).to_string())
}

/// How many items of a job were refused, if it is in the scope.
pub(super) async fn kept(db: &Database, scope: &Scope, job: JobId) -> Result<Option<Kept>, Problem> {
    let found = sqlx::query_as!(
        Kept,
        r#"SELECT (SELECT count(*) FROM job_item_error e WHERE e.job_id = j.id AND NOT e.notice) AS "kept!",
                  j.failed::bigint AS "refused!"
           FROM job j
           WHERE j.id = $1 AND in_scope($2, j.organisation_id, j.organisations)
             AND in_eshop($3, j.eshop_id)"#,
        job.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}

/// The groups of the item errors of a job, with notices where they are wanted. The caller must have access to the job.
pub(super) async fn groups(db: &Database, job: JobId, notices: bool) -> Result<Vec<Group>, Problem> {
    let found = sqlx::query!(
        r#"SELECT g.name AS "name!", g.code AS "code!", g.field, g.count AS "count!", e.index, e.line, e.key, e.message
           FROM (SELECT md5(concat_ws(' ', e.code, e.field)) AS name, e.code, e.field, count(*) AS count, min(e.index) AS first
                 FROM (SELECT code, regexp_replace(field, $4::text, '[]', 'g') AS field, index FROM job_item_error
                       WHERE job_id = $1 AND (NOT notice OR $2)) AS e
                 GROUP BY e.code, e.field ORDER BY count(*) DESC, min(e.index) LIMIT $3) AS g
           JOIN job_item_error e ON e.job_id = $1 AND e.index = ANY (ARRAY[g.first])
           ORDER BY g.count DESC, g.first"#,
        job.get(),
        notices,
        GROUPS,
        PLACES,
    )
    .fetch_all(&db.lists)
    .await?;
    let groups = found.into_iter().map(|found| {
        let code = found.code.clone();
        let example =
            Listed { index: found.index, line: found.line, key: found.key, code, message: found.message };
        Group { name: found.name, code: found.code, field: found.field, count: found.count, example }
    });
    Ok(groups.collect())
}
