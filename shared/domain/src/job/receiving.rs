//! Receiving a stream of rows: any length, constant memory, and no job unless it arrived whole
//! (`docs/reference/syncs.md#ndjson`).
//!
//! The job is `receiving` from the first row on; full chunks are staged in short transactions of their own while
//! the rest arrives; the last transaction gives it its acceptance number and makes it due. A stream that breaks off takes
//! its job with it: at once where the process lives (also where the request is dropped because its client hung up), by the
//! upkeep where it died: a process that lives renews itself, also while the last transaction runs.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::dispatch;
use super::entry::{self, NewJob, PATIENCE_SECONDS, to_i32};
use super::guard::{GUARD, Guard};
use super::kind::{Job, JobKind, JobState, Shop, Stored};
use super::line;
use super::name::hash_of;
use super::payload::{ROWS_PER_CHUNK, Rows, Unreadable, unpack_rows};
use super::preview::{APPLICABLE_HOURS, BEHIND};
use super::room;
use super::row::Key;
use super::row::csv::CsvForm;
use super::row::form::CSV;
use super::row_lines::RowLines;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::idempotency;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId, WmsId};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

/// How often a receiver says that it is still there.
pub const RENEWAL: Duration = Duration::from_secs(10);

/// How long each statement of the acceptance may take: to find equal keys among five million rows takes a quarter of a minute.
const STATEMENT_PATIENCE: &str = "15min";

/// What a sync is for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The job.
    pub(super) stored: Stored,
    /// Its organisation.
    organisation: OrganisationId,
    /// Its e-shop, if it is for one.
    eshop: Option<EshopId>,
    /// What of one line runs one after the other; what is only tried is in none.
    line: Option<Uuid>,
}

impl Target {
    /// A job for an e-shop.
    pub(crate) fn new<J: Job>(job: &J, shop: Shop) -> Result<Self, Problem> {
        let Shop { organisation, eshop } = shop;
        let line = Some(line::sequence_of(J::KIND, eshop));
        Ok(Self { stored: Stored::new(job)?, organisation, eshop: Some(eshop), line })
    }

    /// The same, only tried if it is a `dry_run`: it is in no line then.
    pub(crate) fn tried(mut self, dry_run: bool) -> Self {
        self.stored.is_dry_run = dry_run;
        self.line = self.line.filter(|_| !dry_run);
        self
    }

    /// The same with a guard.
    pub(crate) fn guarded(mut self, guard: Option<&Guard>) -> Result<Self, Problem> {
        if let (Some(guard), Value::Object(parameters)) = (guard, &mut self.stored.parameters) {
            let guard = serde_json::to_value(guard).map_err(Problem::internal)?;
            parameters.insert(GUARD.to_owned(), guard);
        }
        Ok(self)
    }

    /// Its e-shop and organisation, if it is for an e-shop.
    pub(super) fn shop(&self) -> Option<Shop> {
        self.eshop.map(|eshop| Shop { organisation: self.organisation, eshop })
    }

    /// Its organisation.
    pub(crate) fn organisation(&self) -> OrganisationId {
        self.organisation
    }

    /// A job of a wms.
    pub(crate) fn of_wms(job: &impl Job, organisation: OrganisationId, wms: WmsId) -> Result<Self, Problem> {
        Ok(Self { stored: Stored::new(job)?, organisation, eshop: None, line: Some(line::of_wms(wms)) })
    }
}

/// A stream of rows on its way to become a job.
#[derive(Debug)]
pub struct Receiving<'s> {
    services: &'s Services,
    context: &'s Context,
    job: NewJob,
    organisation: OrganisationId,
    gathering: Gathering,
    chunks: i32,
    total: i32,
    /// What is added to the parameters of the job.
    form: Value,
    leftover: Leftover,
}

/// Gathers rows to chunks.
#[derive(Debug)]
pub struct Gathering {
    most: usize,
    /// Whether a row may be in a job once.
    is_keyed: bool,
    rows: Rows,
    lines: RowLines,
    keys: Vec<Option<Uuid>>,
}

/// Rows of a chunk, packed.
#[derive(Debug)]
pub struct Packed {
    payload: Vec<u8>,
    count: usize,
    keys: Vec<Option<Uuid>>,
    lines: RowLines,
}

impl Gathering {
    /// Chunks of a kind of jobs: an order is a hundred times a stock. Reports of a warehouse are about the same orders again and
    /// again.
    #[must_use]
    pub fn of(kind: JobKind) -> Self {
        let is_of_orders = matches!(kind, JobKind::ExpeditionSync | JobKind::ExpeditionNews);
        Self {
            most: if is_of_orders { ROWS_PER_CHUNK / 2 } else { ROWS_PER_CHUNK },
            is_keyed: kind != JobKind::ExpeditionNews,
            rows: Rows::default(),
            lines: RowLines::default(),
            keys: Vec::new(),
        }
    }

    /// Adds a row, at most [`LONGEST_ROW`](super::payload::LONGEST_ROW) bytes; returns the chunk that it fills. `line` is
    /// its line in its file, if it comes from one.
    pub fn push(&mut self, row: &[u8], line: Option<u64>) -> Option<Packed> {
        if self.is_keyed {
            let key = Key::of(row).and_then(Key::unique);
            self.keys.push(key.map(|key| hash_of(&key)));
        }
        if let Some(line) = line {
            self.lines.push(self.rows.len(), i64::try_from(line).unwrap_or(i64::MAX));
        }
        self.rows.push(row);
        if self.rows.is_full() || self.rows.len() >= self.most { self.rest() } else { None }
    }

    /// What fills no chunk.
    pub fn rest(&mut self) -> Option<Packed> {
        let count = self.rows.len();
        (count > 0).then(|| Packed {
            payload: self.rows.take(),
            count,
            keys: std::mem::take(&mut self.keys),
            lines: std::mem::take(&mut self.lines),
        })
    }

    /// Bytes in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.rows.bytes() + self.keys.len() * size_of::<Option<Uuid>>()
    }
}

impl Packed {
    /// The rows.
    ///
    /// # Errors
    /// They were packed otherwise.
    pub fn rows(&self) -> Result<Vec<Bytes>, Unreadable> {
        unpack_rows(&self.payload)
    }

    /// Bytes in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.payload.len() + self.keys.len() * size_of::<Option<Uuid>>()
    }
}

/// The row of a job that is still arriving. It is removed when its receiver is gone.
#[derive(Debug)]
struct Leftover {
    db: PgPool,
    job: Option<JobId>,
}

impl Drop for Leftover {
    fn drop(&mut self) {
        // The last transaction may be on its way. Then this waits for it, finds an accepted job, and changes nothing.
        if let (Some(job), Ok(runtime)) = (self.job.take(), tokio::runtime::Handle::try_current()) {
            let db = self.db.clone();
            runtime.spawn(async move { remove(&db, job).await });
        }
    }
}

impl<'s> Receiving<'s> {
    /// Begins to receive.
    pub async fn begin(
        services: &'s Services,
        context: &'s Context,
        target: Target,
    ) -> Result<Self, Problem> {
        let Target { stored, organisation, eshop, line } = target;
        let stored_kind = stored.kind;
        let job = NewJob {
            id: JobId::new(),
            stored,
            organisations: vec![organisation],
            eshop,
            sequence: line,
            source: None,
        };
        let mut connection = services.db.main.acquire().await?;
        // before the row exists: a future that is dropped during the write may have written it
        let leftover = Leftover { db: services.db.main.of_work(), job: Some(job.id) };
        room::make_for(&mut connection, services, Some(organisation), &job.stored).await?;
        entry::insert(&mut connection, &job, &context.origin, JobState::Receiving, 0, 0).await?;
        Ok(Self {
            services,
            context,
            job,
            organisation,
            gathering: Gathering::of(stored_kind),
            chunks: 0,
            total: 0,
            form: json!({}),
            leftover,
        })
    }

    /// Says that the rows are those of a file of CSV, in the form that was found by its end.
    pub fn of_csv(&mut self, form: &CsvForm) {
        self.form = json!({ CSV: form });
    }

    /// Takes one row, at most [`LONGEST_ROW`](super::payload::LONGEST_ROW) bytes; a row that is no JSON becomes an item
    /// error when its chunk is executed. `line` is its line in its file, if it comes from one.
    pub async fn row(&mut self, row: &[u8], line: Option<u64>) -> Result<(), Problem> {
        match self.gathering.push(row, line) {
            Some(packed) => self.chunk(packed).await,
            None => Ok(()),
        }
    }

    /// Bytes in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.gathering.held()
    }

    /// Says that the sender is still there, although no chunk is full.
    pub async fn renew(&self) -> Result<(), Problem> {
        // Here and below, by its key alone: by its state it might be looked for among all that is received, dead entries included.
        let alive = sqlx::query!(
            "UPDATE job SET receiving_until = now() + make_interval(secs => $2) WHERE id = $1 AND receiving_until IS NOT NULL",
            self.job.id.get(),
            PATIENCE_SECONDS,
        )
        // a place of its request may be what the acceptance waits for
        .execute(&self.leftover.db)
        .await?;
        if alive.rows_affected() == 1 { Ok(()) } else { Err(lost()) }
    }

    /// Renews itself for as long as this is polled. A renewal may wait for the acceptance, which locks the job: poll both.
    async fn stay(&self) -> Infallible {
        loop {
            tokio::time::sleep(RENEWAL).await;
            // whether the job is lost is seen when it is accepted
            if let Err(problem) = self.renew().await {
                tracing::debug!(job.id = %self.job.id, error = %problem, "a job that is being accepted was not renewed");
            }
        }
    }

    /// Everything arrived: the job is accepted, in one transaction with its idempotent answer. If it cannot be, no job stays.
    pub async fn finish(mut self, body_hash: Option<&[u8]>) -> Result<Answer, Problem> {
        match self.accept(body_hash).await {
            Ok(answer) => {
                self.leftover.job = None;
                Ok(answer)
            }
            Err(problem) => {
                self.abandon().await;
                Err(problem)
            }
        }
    }

    async fn accept(&mut self, body_hash: Option<&[u8]>) -> Result<Answer, Problem> {
        if let Some(packed) = self.gathering.rest() {
            self.chunk(packed).await?;
        }
        self.renew().await?;
        tokio::select! {
            accepted = self.commit(body_hash) => accepted,
            never = self.stay() => match never {},
        }
    }

    /// The last transaction.
    async fn commit(&self, body_hash: Option<&[u8]>) -> Result<Answer, Problem> {
        let answer = Answer::accepted_job(self.job.id);
        let mut change = Change::begin(self.services).await?;
        let tx = change.connection();
        sqlx::query!("SELECT set_config('statement_timeout', $1, true) AS statement", STATEMENT_PATIENCE)
            .fetch_one(&mut *tx)
            .await?;
        mark_duplicates(tx, self.job.id).await?;
        room::make_for(tx, self.services, Some(self.organisation), &self.job.stored).await?;
        if self.job.sequence.is_some() {
            line::lock(tx, self.job.stored.kind, self.organisation, self.job.eshop).await?;
        }
        // a job without rows has nothing to wait for
        let accepted = sqlx::query!(
            "UPDATE job
             SET state = CASE WHEN $3 = 0 THEN 'succeeded' ELSE 'queued' END, receiving_until = NULL, total = $2,
                 chunks_open = $3, acceptance = nextval('acceptance') + $5, accepted_at = clock_timestamp(), changed_at = now(),
                 parameters = parameters || $4,
                 preview_kept_until = CASE WHEN $3 = 0 AND preview_of IS NOT NULL THEN now() + make_interval(hours => $6) END,
                 started_at = CASE WHEN $3 = 0 THEN now() END, finished_at = CASE WHEN $3 = 0 THEN now() END
             WHERE id = $1 AND receiving_until IS NOT NULL",
            self.job.id.get(),
            self.total,
            self.chunks,
            self.form,
            if self.job.stored.is_dry_run { BEHIND } else { 0 },
            APPLICABLE_HOURS,
        )
        .execute(&mut *tx)
        .await?;
        if accepted.rows_affected() != 1 {
            return Err(lost());
        }
        if let Some(claim) = self.context.claim {
            idempotency::answer(tx, &[(claim, &answer)], body_hash).await?;
        }
        dispatch::note(&mut change, Queue::Chunk, Some(self.organisation));
        change.commit().await?;
        Ok(answer)
    }

    /// The stream broke off or was refused: no job stays.
    pub async fn abandon(mut self) {
        remove(&self.services.db.main, self.job.id).await;
        // only now: a future that is dropped during the removal has not removed it
        self.leftover.job = None;
    }

    /// Takes the rows of a chunk.
    pub async fn chunk(&mut self, packed: Packed) -> Result<(), Problem> {
        let Packed { payload, count, keys, lines } = packed;
        let count = to_i32(count)?;
        let staged = sqlx::query!(
            "WITH alive AS (
                 UPDATE job SET receiving_until = now() + make_interval(secs => $7)
                 WHERE id = $1 AND receiving_until IS NOT NULL RETURNING id
             )
             INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index, keys, lines)
             SELECT id, $2, 'queued', $3, $4, $5, $6, $8 FROM alive",
            self.job.id.get(),
            self.chunks,
            payload,
            count,
            self.total,
            &keys as &[Option<Uuid>],
            PATIENCE_SECONDS,
            lines.stored(),
        )
        .execute(&self.services.db.main)
        .await?;
        if staged.rows_affected() != 1 {
            return Err(lost());
        }
        self.chunks += 1;
        self.total = self
            .total
            .checked_add(count)
            .ok_or_else(|| Problem::violation("", "invalid_count", "must have at most 2147483647 rows"))?;
        Ok(())
    }
}

async fn remove(db: &PgPool, job: JobId) {
    let gone = sqlx::query!("DELETE FROM job WHERE id = $1 AND receiving_until IS NOT NULL", job.get())
        .execute(db)
        .await;
    if let Err(error) = gone {
        tracing::warn!(job.id = %job, %error, "an interrupted job was not removed; the upkeep will remove it");
    }
}

fn lost() -> Problem {
    Problem::new(&CONFLICT, "the job was cancelled or removed while its rows were arriving")
}

/// Finds rows whose key occurs earlier in the job: the first of them counts, and its line is noted.
async fn mark_duplicates(tx: &mut PgConnection, job: JobId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH keyed AS NOT MATERIALIZED (
             SELECT c.number, k.position, k.key
             FROM job_chunk c CROSS JOIN LATERAL unnest(c.keys) WITH ORDINALITY AS k (key, position)
             WHERE c.job_id = $1 AND k.key IS NOT NULL
         ), doubled AS MATERIALIZED (
             SELECT key FROM keyed GROUP BY key HAVING count(*) > 1
         ), later AS (
             SELECT number, position - 1 AS position, row_number() OVER of_key AS nth,
                    first_value(number) OVER of_key AS first_number, first_value(position - 1) OVER of_key AS first_position
             FROM keyed JOIN doubled USING (key) WINDOW of_key AS (PARTITION BY key ORDER BY number, position)
         ), refused AS (
             SELECT l.number, array_agg(l.position::int ORDER BY l.position) AS positions,
                    -- its run is the last one that does not begin behind it (`row_lines`)
                    array_agg((SELECT f.lines[run + 1] + l.first_position - f.lines[run]
                               FROM generate_series(1, cardinality(f.lines), 2) AS run
                               WHERE f.lines[run] <= l.first_position ORDER BY run DESC LIMIT 1)
                              ORDER BY l.position) AS lines_of_first
             FROM later l JOIN job_chunk f ON f.job_id = $1 AND f.number = l.first_number
             WHERE l.nth > 1 GROUP BY l.number
         )
         UPDATE job_chunk c SET duplicates = refused.positions, duplicates_of = refused.lines_of_first
         FROM refused WHERE c.job_id = $1 AND c.number = refused.number",
        job.get()
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Removes jobs whose sender, or receiving process, is gone; returns how many.
pub async fn expire(db: &PgPool) -> Result<u64, Problem> {
    let gone = sqlx::query!("DELETE FROM job WHERE state = 'receiving' AND receiving_until < now()")
        .execute(db)
        .await?;
    Ok(gone.rows_affected())
}
