//! Receiving a stream of rows: any length, constant memory, and no job unless it arrived whole (decisions, section 6).
//!
//! The job stands as `receiving` from the first row on; full chunks are staged in short transactions of their own while
//! the rest arrives; the last transaction gives it its acceptance number and makes it due. A stream that breaks off takes
//! its job with it: at once where the process lives (also where the request is dropped because its client hung up), by the
//! upkeep where it died.

use serde::Deserialize;
use sqlx::{PgConnection, PgPool};
use std::borrow::Cow;
use uuid::Uuid;

use super::acceptance::{self, Job, hand_over_first, to_i32};
use super::kind::{JobKind, Parameters};
use super::payload::Rows;
use crate::platform::answer::Answer;
use crate::platform::change::Change;
use crate::platform::context::Context;
use crate::platform::crypto::sha256;
use crate::platform::problem::{CONFLICT, Problem};
use crate::platform::services::Services;
use crate::platform::{idempotency, ids};

/// A receiver that has not staged a chunk or renewed itself for this long is gone, in seconds.
pub const PATIENCE_SECONDS: f64 = 60.0;

/// What a sync is for.
#[derive(Clone, Debug)]
pub struct Target {
    /// What it does.
    pub kind: JobKind,
    /// Organisation of the e-shop; syncs of one run one after the other.
    pub organisation: Uuid,
    /// The e-shop.
    pub eshop: Uuid,
    /// What the kind needs besides the rows.
    pub parameters: Parameters,
}

/// A stream of rows on its way to become a job.
#[derive(Debug)]
pub struct Receiving<'s> {
    services: &'s Services,
    context: &'s Context,
    job: Job,
    rows: Rows,
    keys: Vec<Option<Uuid>>,
    chunks: i32,
    total: i32,
    leftover: Leftover,
}

/// The row of a job that has not arrived whole: removed when nobody receives it any more.
#[derive(Debug)]
struct Leftover {
    db: PgPool,
    job: Option<Uuid>,
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

/// What a row calls itself, without taking it apart.
#[derive(Deserialize)]
struct Key<'r> {
    #[serde(borrow, rename = "productSku")]
    product_sku: Option<Cow<'r, str>>,
}

impl<'s> Receiving<'s> {
    /// Begins to receive.
    pub async fn begin(
        services: &'s Services,
        context: &'s Context,
        target: Target,
    ) -> Result<Self, Problem> {
        let job = Job {
            id: ids::new_id(),
            kind: target.kind,
            organisations: vec![target.organisation],
            eshop: Some(target.eshop),
            sequence: Some(target.organisation),
            parameters: target.parameters,
            source: None,
        };
        let mut connection = services.db.main.acquire().await?;
        // before the row is there: whoever is dropped while it is written may have written it
        let leftover = Leftover { db: services.db.main.clone(), job: Some(job.id) };
        acceptance::insert(&mut connection, &job, &context.origin, "receiving", 0, 0).await?;
        let (rows, keys) = (Rows::default(), Vec::new());
        Ok(Self { services, context, job, rows, keys, chunks: 0, total: 0, leftover })
    }

    /// Takes one row, at most [`LONGEST_ROW`](super::payload::LONGEST_ROW) bytes; a row that is no JSON becomes an item
    /// error when its chunk is executed.
    pub async fn row(&mut self, row: &[u8]) -> Result<(), Problem> {
        let key = serde_json::from_slice::<Key<'_>>(row).ok().and_then(|key| key.product_sku);
        self.keys.push(key.map(|key| hash_of(&key)));
        self.rows.push(row);
        if self.rows.is_full() { self.stage().await } else { Ok(()) }
    }

    /// Says that the sender is still there, although no chunk is full.
    pub async fn renew(&self) -> Result<(), Problem> {
        let alive = sqlx::query!(
            "UPDATE job SET receiving_until = now() + make_interval(secs => $2) WHERE id = $1 AND state = 'receiving'",
            self.job.id,
            PATIENCE_SECONDS,
        )
        .execute(&self.services.db.main)
        .await?;
        if alive.rows_affected() == 1 { Ok(()) } else { Err(lost()) }
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
        if !self.rows.is_empty() {
            self.stage().await?;
        }
        let answer = Answer::accepted(self.job.id);
        let mut change = Change::begin(self.services).await?;
        let tx = change.connection();
        if let Some(sequence) = self.job.sequence {
            lock_sequence(tx, sequence).await?;
        }
        mark_duplicates(tx, self.job.id).await?;
        // a job without rows has nothing to wait for
        let accepted = sqlx::query!(
            "UPDATE job
             SET state = CASE WHEN $3 = 0 THEN 'succeeded' ELSE 'queued' END, receiving_until = NULL, total = $2,
                 chunks_open = $3, acceptance = nextval('acceptance'), changed_at = now(),
                 started_at = CASE WHEN $3 = 0 THEN now() END, finished_at = CASE WHEN $3 = 0 THEN now() END
             WHERE id = $1 AND state = 'receiving'",
            self.job.id,
            self.total,
            self.chunks,
        )
        .execute(&mut *tx)
        .await?;
        if accepted.rows_affected() != 1 {
            return Err(lost());
        }
        if let Some(claim) = self.context.claim {
            idempotency::answer(tx, claim, &answer, body_hash).await?;
        }
        change.commit().await?;
        hand_over_first(self.services, self.job.id, self.chunks);
        Ok(answer)
    }

    /// The stream broke off or was refused: no job stays.
    pub async fn abandon(mut self) {
        remove(&self.services.db.main, self.job.id).await;
        // only now: who is dropped while he removes it has not removed it
        self.leftover.job = None;
    }

    async fn stage(&mut self) -> Result<(), Problem> {
        let count = to_i32(self.rows.len())?;
        let payload = self.rows.take();
        let keys = std::mem::take(&mut self.keys);
        let staged = sqlx::query!(
            "WITH alive AS (
                 UPDATE job SET receiving_until = now() + make_interval(secs => $7)
                 WHERE id = $1 AND state = 'receiving' RETURNING id
             )
             INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index, keys)
             SELECT id, $2, 'queued', $3, $4, $5, $6 FROM alive",
            self.job.id,
            self.chunks,
            payload,
            count,
            self.total,
            &keys as &[Option<Uuid>],
            PATIENCE_SECONDS,
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

async fn remove(db: &PgPool, job: Uuid) {
    let gone = sqlx::query!("DELETE FROM job WHERE id = $1 AND state = 'receiving'", job).execute(db).await;
    if let Err(error) = gone {
        tracing::warn!(job.id = %job, %error, "a job that broke off was not removed; the upkeep will");
    }
}

fn lost() -> Problem {
    Problem::new(&CONFLICT, "the job was cancelled, or removed, while its rows arrived")
}

/// 128 bits that stand for a key: enough that two keys never meet by chance, and none can be made to.
pub(super) fn hash_of(key: &str) -> Uuid {
    let hash = sha256(key.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(bytes)
}

/// Jobs of one sequence are numbered in the order in which they are committed.
pub(super) async fn lock_sequence(tx: &mut PgConnection, sequence: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('job sequence ' || $1::text, 0))",
        sequence.to_string()
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Finds rows whose key stands earlier in the job, wherever that is: the first of them counts.
async fn mark_duplicates(tx: &mut PgConnection, job: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH keyed AS NOT MATERIALIZED (
             SELECT c.number, k.position, k.key
             FROM job_chunk c CROSS JOIN LATERAL unnest(c.keys) WITH ORDINALITY AS k (key, position)
             WHERE c.job_id = $1 AND k.key IS NOT NULL
         ), doubled AS MATERIALIZED (
             SELECT key FROM keyed GROUP BY key HAVING count(*) > 1
         ), later AS (
             SELECT number, position, row_number() OVER (PARTITION BY key ORDER BY number, position) AS nth
             FROM keyed JOIN doubled USING (key)
         ), refused AS (
             SELECT number, array_agg((position - 1)::int ORDER BY position) AS positions
             FROM later WHERE nth > 1 GROUP BY number
         )
         UPDATE job_chunk c SET duplicates = refused.positions
         FROM refused WHERE c.job_id = $1 AND c.number = refused.number",
        job
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Removes jobs whose sender, or receiving process, is gone; answers how many.
pub async fn expire(db: &PgPool) -> Result<u64, Problem> {
    let gone = sqlx::query!("DELETE FROM job WHERE state = 'receiving' AND receiving_until < now()")
        .execute(db)
        .await?;
    Ok(gone.rows_affected())
}
