//! Claims on chunks: which worker may execute one, for how long, and the outcome.
//!
//! ```text
//! queued ──claim──▶ running ──end──▶ succeeded
//!   ▲                 │  │
//!   └──── postpone ───┘  ├── fail ──▶ failed       for good; a retry of the job queues it again
//!   ▲                    │
//!   └── claim again, when the lease ran out: its process died, or lost Postgres
//! ```

mod held;

use serde_json::Value;
use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

pub use self::held::{Count, Held, end, fail, pause, postpone, progressed, put_off, renew, still_alive};
use super::kind::JobKind;
use super::line;
use super::name::{CALLING, queue_of};
use super::row_lines::RowLines;
use longshore_kernel::access::Actor;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{self, EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::word::UnknownWord;
use longshore_kernel::words;

/// What each item was [compared](super::compared) with; null: there was no such record.
pub type Compared = Vec<Option<String>>;

/// How long a claim holds without being renewed, in seconds: others take over within this and a scan of the dispatcher.
pub const LEASE_SECONDS: f64 = 3.0;
/// Executions that may fail, with growing waits between them, until the chunk has failed for good.
pub const MAX_ATTEMPTS: i32 = 10;

words! {
    /// The state of a chunk.
    pub enum ChunkState ("state of chunks") {
        /// It waits for its time, or for a worker.
        Queued = "queued",
        /// A worker has a claim on it.
        Running = "running",
        /// It was executed.
        Succeeded = "succeeded",
        /// It failed for good.
        Failed = "failed",
        /// Its job was cancelled before.
        Cancelled = "cancelled",
    }
}

/// The right to execute a chunk.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its job.
    pub job: JobId,
    /// Its number in the job.
    pub number: i32,
    /// Fences off earlier holders.
    pub token: i64,
    /// What the job does, or tries; a version before or after this one may have accepted what this one does not know.
    pub kind: Result<JobKind, UnknownWord>,
    /// Whether it is only tried.
    pub is_dry_run: bool,
    /// Whether it was kept aside, and is executed as it is.
    pub is_decided: bool,
    /// What each item was compared with by the dry run that this applies.
    pub compared: Option<Compared>,
    /// What the kind needs besides the items, as it is stored.
    pub(super) parameters: Value,
    /// Organisation of the job.
    pub organisation: Option<OrganisationId>,
    /// E-shop of the job.
    pub eshop: Option<EshopId>,
    /// What it runs in, one job after the other.
    pub sequence: Option<Uuid>,
    /// Its number in the order of acceptance: that of its job, or its own.
    pub acceptance: i64,
    /// The items, packed.
    pub payload: Vec<u8>,
    /// Items in it.
    pub item_count: i32,
    /// Position of the first item in the job …
    pub first_index: i32,
    /// … unless each is named here.
    pub indexes: Option<Vec<i32>>,
    /// The lines of its rows in their file.
    pub lines: RowLines,
    /// Its items whose key occurs earlier in the job.
    pub duplicates: Vec<Duplicate>,
    /// What of the partner the job reads or writes; none: the caller brought the rows.
    pub source: Option<String>,
    /// It has no items, and calls the partner.
    pub calls_partner: bool,
    /// Executions so far, with this one, without those that ended with the death of their process.
    pub attempts: i32,
    /// Executions that ended with the death of their process.
    pub crashes: i32,
    /// The caller who requested the job, for the audit.
    pub origin: Origin,
}

/// An item whose key occurs earlier in its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Its position in the chunk.
    pub position: i32,
    /// The line of the first item with that key, if it came from a file.
    pub line_of_first: Option<i64>,
}

impl Claim {
    /// What identifies it.
    #[must_use]
    pub fn held(&self) -> Held {
        let Self { job, number, token, calls_partner, .. } = *self;
        Held { job, number, token, calls_partner }
    }

    /// The name of its kind, known or not.
    #[must_use]
    pub fn kind_name(&self) -> &str {
        match &self.kind {
            Ok(kind) => kind.as_str(),
            Err(unknown) => &unknown.word,
        }
    }

    /// The kind of its job.
    ///
    /// # Errors
    /// This version does not know it.
    pub fn job_kind(&self) -> Result<JobKind, &UnknownWord> {
        if self.is_dry_run { Ok(JobKind::Preview) } else { self.kind.as_ref().copied() }
    }

    /// Whether its items are rows as they came.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.kind.as_ref().is_ok_and(|kind| kind.has_rows())
    }

    /// Position in the job of an item of the chunk.
    #[must_use]
    pub fn index(&self, position: usize) -> i32 {
        match &self.indexes {
            Some(indexes) => indexes.get(position).copied().unwrap_or(self.first_index),
            None => self.first_index.saturating_add(i32::try_from(position).unwrap_or(i32::MAX)),
        }
    }
}

/// What became of an attempt to claim.
#[derive(Debug)]
pub enum Claimed {
    /// Execute it.
    Now(Box<Claim>),
    /// It is a suspect: it was running when a process died. Claim it again when no other suspect of this queue runs here.
    Suspect(Queue),
    /// Nothing to do: it ended, runs elsewhere, waits for its time or for an earlier job.
    Nothing,
}

/// Claims a chunk. A suspect is claimed only with the `place` for suspects of its queue, which one caller of a process has at a time: so
/// that a chunk which kills its process does not condemn those that merely ran beside it.
pub async fn claim(db: &PgPool, job: JobId, number: i32, place: bool) -> Result<Claimed, Problem> {
    if number == CALLING {
        line::append(db, job).await?;
    }
    let mut row = try_claim(db, job, number, place, false).await?;
    if row.as_ref().is_some_and(|row| row.in_order && row.token.is_none() && (place || !row.suspect)) {
        // whether another chunk runs is asked after the lock, so that a claim that is being committed is seen
        let mut tx = db.begin().await?;
        sqlx::query!("SELECT FROM job WHERE id = $1 FOR NO KEY UPDATE", job.get()).execute(&mut *tx).await?;
        row = try_claim(&mut *tx, job, number, place, true).await?;
        tx.commit().await?;
    }
    let Some(row) = row else { return Ok(Claimed::Nothing) };
    let suspect = row.suspect.then(|| queue_of(row.calls_partner));
    Ok(match row.claim(job, number) {
        Some(claim) => Claimed::Now(Box::new(claim)),
        None => suspect.map_or(Claimed::Nothing, Claimed::Suspect),
    })
}

/// Claims a chunk if nothing is in its way; of a job in order only if that is `locked`.
async fn try_claim(
    executor: impl PgExecutor<'_>,
    job: JobId,
    number: i32,
    place: bool,
    locked: bool,
) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query_as!(
        Row,
        r#"WITH target AS (
               SELECT c.job_id, c.number, c.state AS was, c.calls_partner, j.in_order,
                      (c.crashes > 0 OR c.state = 'running') AS suspect
               FROM job_chunk c JOIN job j ON j.id = c.job_id
               WHERE c.job_id = $1 AND c.number = $2 AND j.state IN ('queued', 'running', 'retrying')
                 AND ((c.state = 'queued' AND c.next_attempt_at <= now())
                      OR (c.state = 'running' AND c.leased_until < now()))
                 AND CASE WHEN c.calls_partner AND j.kind <> 'stock.send'
                     -- a pull waits in no line: only for one of the same source that has begun
                     THEN j.state <> 'queued' OR NOT EXISTS (
                         SELECT FROM job e
                         WHERE e.sequence = j.sequence AND e.kind = j.kind AND e.source = j.source AND e.id <> j.id
                           AND e.state IN ('running', 'retrying'))
                     -- one that stepped out joins the line first
                     ELSE j.out_of_line_until IS NULL AND NOT EXISTS (
                         SELECT FROM job e
                         WHERE e.sequence = j.sequence AND e.acceptance < coalesce(c.acceptance, j.acceptance) AND e.id <> j.id
                           AND e.state IN ('queued', 'running', 'retrying') AND e.out_of_line_until IS NULL
                           AND (e.kind = 'stock.send') = (j.kind = 'stock.send')) END
                 -- of a job in order the first that is due, while no other one of it runs
                 AND NOT (j.in_order AND EXISTS (
                     SELECT FROM job_chunk r
                     WHERE r.job_id = c.job_id AND r.number <> c.number
                       AND (r.state = 'running'
                            OR (r.state = 'queued' AND r.number < c.number AND r.next_attempt_at <= now()))))
               FOR UPDATE OF c SKIP LOCKED
           ), claimed AS (
               UPDATE job_chunk c
               SET state = 'running', token = c.token + 1, leased_until = now() + make_interval(secs => $4),
                   -- the attempt of a process that died is made again
                   attempts = c.attempts + (t.was <> 'running')::int, crashes = c.crashes + (t.was = 'running')::int,
                   started_at = now()
               FROM target t
               WHERE c.job_id = t.job_id AND c.number = t.number AND ($3 OR NOT t.suspect) AND ($5 OR NOT t.in_order)
               RETURNING c.*
           ), started AS (
               UPDATE job j
               SET state = 'running', started_at = coalesce(j.started_at, now()), changed_at = now(),
                   attempt_started_at = CASE
                       WHEN j.state = 'running' THEN coalesce(j.attempt_started_at, j.started_at)
                       -- while one chunk waits for its next attempt, others may run: they are among the first
                       WHEN j.state = 'retrying' AND EXISTS (
                           SELECT FROM (SELECT number, leased_until FROM job_chunk
                                        WHERE job_id = c.job_id AND state IN ('queued', 'running')
                                        ORDER BY number LIMIT 100) AS r
                           WHERE r.number <> c.number AND r.leased_until IS NOT NULL) THEN coalesce(j.attempt_started_at, j.started_at)
                       ELSE now() END,
                   attempts = greatest(j.attempts, c.attempts)
               FROM claimed c
               WHERE j.id = c.job_id AND (j.state <> 'running' OR j.attempts < c.attempts)
                 -- it may have been cancelled a moment ago
                 AND j.state IN ('queued', 'running', 'retrying')
           )
           SELECT t.suspect AS "suspect!", t.in_order AS "in_order!", c.token AS "token?", c.payload AS "payload?",
                  c.item_count AS "item_count?", c.first_index AS "first_index?", c.indexes AS "indexes?",
                  c.lines, c.duplicates AS "duplicates?", c.duplicates_of AS "duplicates_of?: Vec<Option<i64>>", t.calls_partner AS "calls_partner!", c.attempts AS "attempts?", c.crashes AS "crashes?",
                  j.kind, j.preview_of, c.compared AS "compared: Vec<Option<String>>", c.is_decided AS "is_decided?", j.source, j.parameters, j.organisation_id AS "organisation_id: OrganisationId", j.eshop_id AS "eshop_id: EshopId",
                  j.sequence, coalesce(c.acceptance, j.acceptance) AS "acceptance!", j.actor_type, j.actor_id, j.actor_name, j.request_id, j.traceparent
           FROM target t
           JOIN job j ON j.id = t.job_id
           LEFT JOIN claimed c ON c.job_id = t.job_id AND c.number = t.number"#,
        job.get(),
        number,
        place,
        LEASE_SECONDS,
        locked,
    )
    .fetch_optional(executor)
    .await
}

/// Reads a chunk for a process that executes it on behalf of the claiming one; nothing if the claim was lost.
pub async fn read(db: &PgPool, held: Held) -> Result<Option<Claim>, Problem> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT true AS "suspect!", j.in_order AS "in_order!", c.token AS "token?", c.payload AS "payload?",
                  c.item_count AS "item_count?", c.first_index AS "first_index?", c.indexes AS "indexes?",
                  c.lines, c.duplicates AS "duplicates?", c.duplicates_of AS "duplicates_of?: Vec<Option<i64>>", c.calls_partner AS "calls_partner!", c.attempts AS "attempts?", c.crashes AS "crashes?",
                  j.kind, j.preview_of, c.compared AS "compared: Vec<Option<String>>", c.is_decided AS "is_decided?", j.source, j.parameters, j.organisation_id AS "organisation_id: OrganisationId", j.eshop_id AS "eshop_id: EshopId",
                  j.sequence, coalesce(c.acceptance, j.acceptance) AS "acceptance!", j.actor_type, j.actor_id, j.actor_name, j.request_id, j.traceparent
           FROM job_chunk c JOIN job j ON j.id = c.job_id
           WHERE c.job_id = $1 AND c.number = $2 AND c.token = $3 AND c.leased_until IS NOT NULL"#,
        held.job.get(),
        held.number,
        held.token,
    )
    .fetch_optional(db)
    .await?;
    Ok(row.and_then(|row| row.claim(held.job, held.number)))
}

/// A chunk and what its job says of it; without a token, it was not claimed.
#[derive(Debug)]
struct Row {
    suspect: bool,
    in_order: bool,
    token: Option<i64>,
    payload: Option<Vec<u8>>,
    item_count: Option<i32>,
    first_index: Option<i32>,
    indexes: Option<Vec<i32>>,
    lines: Option<Vec<i64>>,
    duplicates: Option<Vec<i32>>,
    duplicates_of: Option<Vec<Option<i64>>>,
    calls_partner: bool,
    attempts: Option<i32>,
    crashes: Option<i32>,
    kind: String,
    preview_of: Option<String>,
    compared: Option<Vec<Option<String>>>,
    is_decided: Option<bool>,
    source: Option<String>,
    parameters: Value,
    organisation_id: Option<OrganisationId>,
    eshop_id: Option<EshopId>,
    sequence: Option<Uuid>,
    acceptance: i64,
    actor_type: String,
    actor_id: Option<Uuid>,
    actor_name: String,
    request_id: Option<String>,
    traceparent: Option<String>,
}

impl Row {
    fn claim(self, job: JobId, number: i32) -> Option<Claim> {
        let (Some(token), Some(item_count), Some(first_index)) =
            (self.token, self.item_count, self.first_index)
        else {
            return None;
        };
        let lines_of_first = self.duplicates_of.unwrap_or_default();
        let duplicates =
            self.duplicates.unwrap_or_default().into_iter().enumerate().map(|(nth, position)| Duplicate {
                position,
                line_of_first: lines_of_first.get(nth).copied().flatten(),
            });
        // a dry run reads what it has audited before that is taken back; entries of the index stay, so each chunk has its own
        let audited_as = if self.preview_of.is_some() { ids::random_id().into() } else { job };
        Some(Claim {
            job,
            number,
            token,
            kind: self.preview_of.as_ref().unwrap_or(&self.kind).parse(),
            is_dry_run: self.preview_of.is_some(),
            is_decided: self.is_decided.unwrap_or(false),
            compared: self.compared,
            parameters: self.parameters,
            organisation: self.organisation_id,
            eshop: self.eshop_id,
            sequence: self.sequence,
            acceptance: self.acceptance,
            payload: self.payload.unwrap_or_default(),
            item_count,
            first_index,
            indexes: self.indexes,
            lines: self.lines.into(),
            duplicates: duplicates.collect(),
            source: self.source,
            calls_partner: self.calls_partner,
            attempts: self.attempts.unwrap_or(1),
            crashes: self.crashes.unwrap_or(0),
            origin: Origin {
                actor: Actor { kind: self.actor_type, id: self.actor_id, name: self.actor_name },
                request_id: self.request_id,
                job: Some(audited_as),
                traceparent: self.traceparent,
            },
        })
    }
}
