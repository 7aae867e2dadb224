//! All details of one job, for operators.

use std::collections::BTreeMap;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::chunk::ChunkState;
use super::item_error::{self, Group, PLACES};
use super::kind::{JobKind, JobState};
use super::payload::{unpack_ids, unpack_rows};
use super::preview::APPLICABLE_HOURS;
use super::waiting::{self, Ahead, WaitsFor};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Chunks that are shown: those that were touched last.
const CHUNKS: i64 = 50;
/// Records of the audit that are shown: what people did to the job.
const DEEDS: i64 = 50;
/// Refused items of a page.
pub const ERRORS: usize = 50;
/// Of an item that is larger than this, the refused value is not looked for.
const LOOKED_INTO: i32 = 16 * 1024;
/// Characters of a refused value that are shown.
const VALUE_LENGTH: usize = 200;
/// Items of a payload that are shown.
pub const ITEMS: usize = 20;
/// Bytes of one item that are shown.
const ITEM_BYTES: usize = 2_000;
/// A packed payload that is larger than this is not unpacked to be looked at.
const PACKED_BYTES: i32 = 4 * 1024 * 1024;

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// Whose it is.
    pub organisation_id: Option<OrganisationId>,
    /// Name of that organisation.
    pub organisation: Option<String>,
    /// How many organisations it is about, where there are several.
    pub organisations: Option<i32>,
    /// Which e-shop's.
    pub eshop_id: Option<EshopId>,
    /// Name of that e-shop.
    pub eshop: Option<String>,
    /// Its number in the order of acceptance.
    pub acceptance: Option<i64>,
    /// What it needs besides its items.
    pub parameters: Value,
    /// Items.
    pub total: i32,
    /// Items executed.
    pub done: i32,
    /// Created or altered.
    pub changed: i32,
    /// Found as they should be.
    pub unchanged: i32,
    /// Refused.
    pub failed: i32,
    /// Withheld by its guard.
    pub withheld: i32,
    /// Waiting deliveries that it released.
    pub released: i32,
    /// Ended deliveries that it sent again.
    pub resent: i32,
    /// Whether the connection works that it tested.
    pub connection_works: Option<bool>,
    /// What that test found out.
    pub connection_message: Option<String>,
    /// How long the call took, in milliseconds.
    pub connection_ms: Option<i32>,
    /// Of a dry run, what it tries.
    pub preview_of: Option<String>,
    /// What it found, by name.
    pub preview: Option<Json<BTreeMap<String, i64>>>,
    /// The job that applied it.
    pub applied_by: Option<JobId>,
    /// Whether it can still be applied.
    pub is_applicable: bool,
    /// Executions of its most-tried chunk.
    pub attempts: i32,
    /// Why it failed, or waits.
    pub error: Option<String>,
    /// What it waits for.
    pub waits_for: Option<Json<WaitsFor>>,
    /// Kind of the requesting actor.
    pub actor_type: String,
    /// Name of the requesting actor.
    pub actor_name: String,
    /// The request.
    pub request_id: Option<String>,
    /// W3C trace context of the request.
    pub traceparent: Option<String>,
    /// When it was accepted.
    pub created_at: DateTime<Utc>,
    /// When its first chunk was begun.
    pub started_at: Option<DateTime<Utc>>,
    /// When its last attempt began: then, or when it went on after a wait in which nothing of it ran.
    pub attempt_started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// When it last moved.
    pub moved_on_at: DateTime<Utc>,
}

impl Job {
    /// Whether it has come to an end.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.state.is_ended()
    }

    /// The trace of the request that asked for it.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent.as_deref()?.split('-').nth(1).filter(|id| id.len() == 32)
    }
}

/// A chunk of it, with its last execution.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Its number in the job.
    pub number: i32,
    /// Its state.
    pub state: ChunkState,
    /// Its items.
    pub items: i32,
    /// Executions so far, without those that ended with the death of their process.
    pub attempts: i32,
    /// Executions that ended with the death of their process.
    pub crashes: i32,
    /// Why the last one failed.
    pub error: Option<String>,
    /// When it is due, where it waits.
    pub next_attempt_at: DateTime<Utc>,
    /// When the last execution began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// An action on it, or an effect of it.
#[derive(Clone, Debug)]
pub struct Deed {
    /// When.
    pub at: DateTime<Utc>,
    /// What, as the audit names it.
    pub action: String,
    /// Who.
    pub actor: String,
}

/// A refused item.
#[derive(Clone, Debug)]
pub struct Refused {
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
    /// The value that was refused, where the message names a field that has one.
    pub value: Option<String>,
}

/// Which refused items are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Those of the [`Group`] with this name; of any without one.
    pub group: Option<String>,
    /// Behind this position.
    pub after: Option<i32>,
    /// Of what a dry run would do, what is behind this position.
    pub beyond: Option<i32>,
}

/// What a dry run would do to an item.
#[derive(Clone, Debug)]
pub struct Previewed {
    /// Its position in the job, from 0.
    pub index: i32,
    /// Its line in the file that it came in, from 1.
    pub line: Option<i64>,
    /// What it calls itself.
    pub key: Option<String>,
    /// What would become of it.
    pub would: String,
    /// The fields that would change, each with its old and its new value.
    pub changes: Option<Value>,
}

/// Items that wait to be executed.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The chunk that they are from.
    pub chunk: i32,
    /// How many it has.
    pub count: usize,
    /// The first of them, as text, the long ones cut.
    pub first: Vec<String>,
}

/// A job and what belongs to it; each list is bounded.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The job.
    pub job: Job,
    /// The one that it waits for.
    pub ahead: Option<Ahead>,
    /// How many chunks it has.
    pub chunk_count: i64,
    /// Those that were touched last, the newest first.
    pub chunks: Vec<Chunk>,
    /// What was done to it, the newest first.
    pub deeds: Vec<Deed>,
    /// Why items were refused, the largest group first.
    pub groups: Vec<Group>,
    /// Refused items that are wanted, by position; one more than [`ERRORS`] says that there are more.
    pub refused: Vec<Refused>,
    /// What a dry run would do, or what is withheld, by position, without what it would refuse; one more than [`ERRORS`] says that
    /// there are more.
    pub previewed: Vec<Previewed>,
    /// What it still has to do, where it keeps it.
    pub payload: Option<Payload>,
}

/// The job of that id, if it is in the scope.
pub async fn inspect(
    db: &Database,
    scope: &Scope,
    id: JobId,
    wanted: &Wanted,
) -> Result<Option<Inspection>, Problem> {
    let Some(job) = find(db, scope, id).await? else { return Ok(None) };
    let first = job.waits_for.as_ref().and_then(|waits| waits.job);
    let ahead = async {
        match first {
            Some(first) => waiting::ahead(db, scope, first).await,
            None => Ok(None),
        }
    };
    let (ahead, count, chunks, deeds, groups, refused, previewed, payload) = tokio::try_join!(
        ahead,
        count_chunks(db, id),
        chunks(db, id),
        deeds(db, id),
        item_error::groups(db, id, true),
        refused(db, id, wanted, ERRORS + 1),
        previewed(db, &job, wanted.beyond),
        payload(db, &job),
    )?;
    Ok(Some(Inspection {
        job,
        ahead,
        chunk_count: count,
        chunks,
        deeds,
        groups,
        refused,
        previewed,
        payload,
    }))
}

/// The job alone.
pub async fn find(db: &Database, scope: &Scope, id: JobId) -> Result<Option<Job>, Problem> {
    let found = sqlx::query_as!(
        Job,
        r#"SELECT j.id, j.kind, j.state AS "state: JobState", j.organisation_id AS "organisation_id: OrganisationId",
                  (SELECT name FROM organisation o WHERE o.id = j.organisation_id) AS organisation,
                  cardinality(j.organisations) AS organisations, j.eshop_id AS "eshop_id: EshopId", (SELECT name FROM eshop s WHERE s.id = j.eshop_id) AS eshop, j.acceptance, j.parameters,
                  j.total, j.done, j.changed, j.unchanged, j.failed, j.withheld, j.released, j.resent, j.connection_works,
                  j.connection_message, j.connection_ms, j.preview_of, j.preview AS "preview: Json<BTreeMap<String, i64>>",
                  j.applied_by AS "applied_by: JobId",
                  j.state = 'succeeded' AND coalesce(j.preview_kept_until > now() AND j.finished_at > now() - make_interval(hours => $4), false) AS "is_applicable!", j.attempts, j.error,
                  CASE WHEN j.state IN ('queued', 'running', 'retrying') THEN job_waits_for(j.id) END
                      AS "waits_for: Json<WaitsFor>",
                  j.actor_type, j.actor_name,
                  j.request_id, j.traceparent, j.created_at, j.started_at, coalesce(j.attempt_started_at, j.started_at) AS attempt_started_at,
                  j.finished_at, coalesce(j.progressed_at, j.changed_at) AS "moved_on_at!"
           FROM job j
           WHERE j.id = $1 AND in_scope($2, j.organisation_id, j.organisations)
             AND in_eshop($3, j.eshop_id)"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        APPLICABLE_HOURS,
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(found)
}

/// What jobs do, for those of these that are in the scope.
pub async fn kinds(db: &Database, scope: &Scope, ids: &[JobId]) -> Result<Vec<(JobId, String)>, Problem> {
    let found = sqlx::query!(
        r#"SELECT id AS "id: JobId", kind FROM job
           WHERE id = ANY ($1) AND in_scope($2, organisation_id, organisations)
             AND in_eshop($3, eshop_id)"#,
        ids as &[JobId],
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found.into_iter().map(|job| (job.id, job.kind)).collect())
}

async fn count_chunks(db: &Database, job: JobId) -> Result<i64, Problem> {
    Ok(sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM job_chunk WHERE job_id = $1"#, job.get())
        .fetch_one(&db.lists)
        .await?)
}

async fn chunks(db: &Database, job: JobId) -> Result<Vec<Chunk>, Problem> {
    let found = sqlx::query_as!(
        Chunk,
        r#"SELECT number, state AS "state: ChunkState", item_count AS items, attempts, crashes, error, next_attempt_at, started_at, finished_at
         FROM job_chunk WHERE job_id = $1
         ORDER BY coalesce(finished_at, started_at) DESC NULLS LAST, number LIMIT $2"#,
        job.get(),
        CHUNKS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

async fn deeds(db: &Database, job: JobId) -> Result<Vec<Deed>, Problem> {
    let found = sqlx::query_as!(
        Deed,
        "SELECT at, action, actor_name AS actor FROM audit
         WHERE entity_id = ANY (ARRAY[$1::uuid]) AND entity_type = 'job' ORDER BY entity_id DESC, id DESC LIMIT $2",
        job.get(),
        DEEDS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Refused items of a job. The caller must have access to the job.
pub async fn refused(
    db: &Database,
    job: JobId,
    wanted: &Wanted,
    limit: usize,
) -> Result<Vec<Refused>, Problem> {
    let found = sqlx::query!(
        "SELECT index, line, key, code, message, CASE WHEN length(payload) <= $6 THEN payload END AS payload
         FROM job_item_error
         WHERE job_id = $1 AND index > $2
           AND ($3::text IS NULL OR md5(concat_ws(' ', code, regexp_replace(field, $4::text, '[]', 'g'))) = $3)
         ORDER BY index LIMIT $5",
        job.get(),
        wanted.after.unwrap_or(-1),
        wanted.group.as_deref(),
        PLACES,
        i64::try_from(limit).map_err(Problem::internal)?,
        LOOKED_INTO,
    )
    .fetch_all(&db.lists)
    .await?;
    let items = found.into_iter().map(|item| {
        let value = item.payload.as_deref().and_then(|payload| refused_value(payload, &item.message));
        let (index, line, key) = (item.index, item.line, item.key);
        Refused { index, line, key, code: item.code, message: item.message, value }
    });
    Ok(items.collect())
}

/// What a dry run would do, without what it would refuse, or what a guard withholds; nothing of another job.
async fn previewed(db: &Database, job: &Job, beyond: Option<i32>) -> Result<Vec<Previewed>, Problem> {
    if job.preview_of.is_none() && job.withheld == 0 {
        return Ok(Vec::new());
    }
    let found = sqlx::query_as!(
        Previewed,
        r#"SELECT index AS "index!", line, key, would AS "would!", changes FROM job_previewed
           WHERE job_id = $1 AND would <> 'refuse' AND index > $2 ORDER BY index LIMIT $3"#,
        job.id.get(),
        beyond.unwrap_or(-1),
        i64::try_from(ERRORS + 1).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// The value of the field that a message begins with.
fn refused_value(payload: &[u8], message: &str) -> Option<String> {
    let item: Value = serde_json::from_slice(payload).ok()?;
    let (path, _) = message.split_once(' ')?;
    let mut found = &item;
    for step in path.split(['.', '[']) {
        found = match step.strip_suffix(']') {
            Some(place) => found.get(place.parse::<usize>().ok()?)?,
            None => found.get(step)?,
        };
    }
    let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    Some(text.chars().take(VALUE_LENGTH).collect())
}

async fn payload(db: &Database, job: &Job) -> Result<Option<Payload>, Problem> {
    let found = sqlx::query!(
        r#"SELECT number, payload AS "payload!" FROM job_chunk
           WHERE job_id = $1 AND payload IS NOT NULL AND length(payload) <= $2 ORDER BY number LIMIT 1"#,
        job.id.get(),
        PACKED_BYTES,
    )
    .fetch_optional(&db.lists)
    .await?;
    let Some(chunk) = found else { return Ok(None) };
    let kind = job.preview_of.as_ref().unwrap_or(&job.kind);
    let rows = kind.parse().is_ok_and(JobKind::has_rows);
    let text = |row: &Bytes| String::from_utf8_lossy(&row[..row.len().min(ITEM_BYTES)]).into_owned();
    let items: Option<Vec<String>> = if rows {
        unpack_rows(&chunk.payload).ok().map(|rows| rows.iter().map(text).collect())
    } else {
        unpack_ids::<Uuid>(&chunk.payload).ok().map(|ids| ids.iter().map(Uuid::to_string).collect())
    };
    // the request of a page to a partner is kept in another form, among the parameters
    let Some(items) = items else { return Ok(None) };
    let count = items.len();
    Ok(Some(Payload { chunk: chunk.number, count, first: items.into_iter().take(ITEMS).collect() }))
}

/// When a job was accepted, last: all of its rows had come.
pub async fn accepted_at(connection: &mut PgConnection, job: JobId) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT coalesce(accepted_at, created_at) AS "at!" FROM job WHERE id = $1"#,
        job.get()
    )
    .fetch_one(connection)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_value_is_that_of_the_field_that_the_message_names() {
        let item =
            br#"{"country": "England", "items": [{"quantity": 1}, {"quantity": -2, "productSku": "X-1"}]}"#;
        let of = |message| refused_value(item, message);
        assert_eq!(of("country must be an ISO 3166-1 code, such as GB").as_deref(), Some("England"));
        assert_eq!(of("items[1].quantity must be at least 1").as_deref(), Some("-2"));
        assert_eq!(of("items[1].productSku must be a product; and more").as_deref(), Some("X-1"));
        for none in
            ["items[2].quantity is required", "an earlier row has the same productSku", "zip is required", ""]
        {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(refused_value(b"no JSON", "country must be"), None);
    }
}
