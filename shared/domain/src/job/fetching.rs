//! Jobs that fetch their rows themselves (`docs/reference/syncs.md#integration-settings`): accepted without rows, and
//! filled page by page while earlier pages are already executed.
//!
//! The first chunk of such a job has no items: it calls the partner. Each page is recorded in one short transaction: its
//! rows as further chunks of the job, and where the next page begins. The chunks are executed like any others, side by side
//! with the fetch; the job ends with the last chunk, and the fetch is one of them. The claim on the calling chunk fences
//! every page: a worker that lost it (cancelled, taken over) can record nothing.
//!
//! The call is in no line and delays no other job: only pulls of one source run one after the other. Each page is accepted
//! when it arrives, with its own number, and is in the e-shop's line from then on ([`mod@line`]).
//!
//! Rows are found twice across pages as in a push: the first of them counts. Memory holds one page; a fetch of any length
//! needs no more.

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

use super::chunk::{self, Claim};
use super::dispatch;
use super::entry::{self, NewJob, to_i32};
use super::kind::{JobKind, JobState};
use super::line;
use super::name::{CALLING, hash_of};
use super::payload::Rows;
use super::receiving::Target;
use super::room;
use super::row::form::Row;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, JobId};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

/// Accepts a job that calls a partner about a source, or finds the identical one that is already waiting; returns its id. It
/// is recorded in the transaction of the change.
pub async fn accept(
    change: &mut Change<'_>,
    origin: &Origin,
    target: &Target,
    source: &str,
) -> Result<JobId, Problem> {
    let stored = &target.stored;
    let shop = target.shop().ok_or_else(|| Problem::internal("only an e-shop fetches from a partner"))?;
    let services = change.services();
    let tx = change.connection();
    // it has its room already
    if let Some(waiting) = waiting(tx, shop.eshop, stored.kind, source).await? {
        return Ok(waiting);
    }
    room::make(tx, services, Some(shop.organisation)).await?;
    line::lock(tx, stored.kind, shop.organisation, Some(shop.eshop)).await?;
    // one may have been accepted in the meantime
    if let Some(waiting) = waiting(tx, shop.eshop, stored.kind, source).await? {
        return Ok(waiting);
    }
    let job = NewJob {
        id: JobId::new(),
        stored: stored.clone(),
        organisations: vec![shop.organisation],
        eshop: Some(shop.eshop),
        sequence: Some(shop.eshop.get()),
        source: Some(source.to_owned()),
    };
    entry::insert(&mut *tx, &job, origin, JobState::Queued, 0, 1).await?;
    // what brings rows has a place in the line when they are there
    sqlx::query!(
        "WITH calling AS (
             INSERT INTO job_chunk (job_id, number, state, item_count, first_index, calls_partner)
             VALUES ($1, $2, 'queued', 0, 0, true)
         ), out_of_line AS (
             UPDATE job SET out_of_line_until = 'infinity' WHERE id = $1 AND $3
         )
         INSERT INTO partner_fetch (job_id) VALUES ($1)",
        job.id.get(),
        CALLING,
        stored.kind.is_sync(),
    )
    .execute(tx)
    .await?;
    dispatch::note(change, Queue::Partner, Some(shop.organisation));
    Ok(job.id)
}

/// The job of a kind about a source of an e-shop that waits, if there is one: at most one is queued. A job that has to wait
/// before its first call counts as waiting, too; otherwise every request would add another one.
pub(crate) async fn waiting(
    tx: &mut PgConnection,
    eshop: EshopId,
    kind: JobKind,
    source: &str,
) -> Result<Option<JobId>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT j.id AS "id: JobId" FROM job j
         WHERE j.eshop_id = $1 AND j.kind = $2 AND j.source = $3
           AND (j.state = 'queued'
                OR (j.state = 'running' AND j.out_of_line_until IS NOT NULL
                    AND EXISTS (SELECT FROM job_chunk c
                                WHERE c.job_id = j.id AND c.calls_partner AND c.state = 'queued' AND c.next_attempt_at > now())
                    AND NOT EXISTS (SELECT FROM partner_fetch f WHERE f.job_id = j.id AND f.pages > 0)))
         ORDER BY j.state = 'queued' DESC, j.acceptance LIMIT 1"#,
        eshop.get(),
        kind.as_str(),
        source,
    )
    .fetch_optional(tx)
    .await
}

/// How far a fetch has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Where the next page begins.
    pub cursor: Option<String>,
    /// Pages so far.
    pub pages: i32,
    /// What the partner asked to get (an `ETag`, say), from the last fetch of the same source that was stored completely.
    pub memo: Option<String>,
}

/// Reads how far a fetch has come.
pub async fn progress(services: &Services, claim: &Claim) -> Result<Progress, Problem> {
    let found = sqlx::query_as!(
        Progress,
        r#"SELECT f.cursor, f.pages, m.memo AS "memo?"
           FROM partner_fetch f
           JOIN job j ON j.id = f.job_id
           LEFT JOIN partner_memo m
               ON m.eshop_id = j.eshop_id AND m.kind = j.kind AND m.source = j.source AND m.is_current
           WHERE f.job_id = $1"#,
        claim.job.get(),
    )
    .fetch_optional(&services.db.main)
    .await?;
    Ok(found.unwrap_or_default())
}

/// Attempts since the last page that came; none if the claim was lost.
pub async fn attempts(services: &Services, claim: &Claim) -> Result<Option<i32>, Problem> {
    let attempts = sqlx::query_scalar!(
        "SELECT attempts FROM job_chunk WHERE job_id = $1 AND number = $2 AND token = $3",
        claim.job.get(),
        claim.number,
        claim.token,
    )
    .fetch_optional(&services.db.main)
    .await?;
    Ok(attempts)
}

/// A page that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its rows, at most those of a chunk; there may be none.
    pub rows: Vec<Row>,
    /// Where the next one begins. An interrupted fetch continues there.
    pub cursor: Option<String>,
    /// Earlier pages are void, because the source has changed: their rows do not count as duplicates.
    pub anew: bool,
    /// What the partner asks to get with the next fetch.
    pub memo: Option<String>,
}

/// What recording a page came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Rows whose SKU had not come before.
    pub new: usize,
}

/// Records a page; nothing if the claim was lost.
pub async fn record(services: &Services, claim: &Claim, page: &Page) -> Result<Option<Recorded>, Problem> {
    let mut change = Change::begin(services).await?;
    let tx = change.connection();
    if chunk::progressed(tx, claim).await?.is_lost() {
        return Ok(None);
    }
    if page.anew {
        void(tx, claim.job).await?;
    }
    let doubled = doubled(tx, claim.job, &page.rows).await?;
    sqlx::query!(
        "UPDATE partner_fetch SET cursor = $2, pages = pages + 1, memo = coalesce($3, memo), changed_at = now()
         WHERE job_id = $1",
        claim.job.get(),
        page.cursor,
        page.memo,
    )
    .execute(&mut *tx)
    .await?;
    let named = page.rows.iter().filter_map(|row| Some((row.item()?, row.product_sku.as_deref()?)));
    let items: Vec<_> = named.collect();
    if let (Some(eshop), Some(inventory), false) = (claim.eshop, &claim.source, items.is_empty()) {
        // stocks are sent with the partner's ids of the products
        note_items(tx, eshop, inventory, &items).await?;
    }
    let new = doubled.iter().filter(|doubled| !**doubled).count();
    if let (false, Some(organisation), Some(eshop)) = (page.rows.is_empty(), claim.organisation, claim.eshop)
    {
        let packed = Packed::of(&page.rows, &doubled)?;
        let kind = claim.kind.clone().map_err(Problem::internal)?;
        line::lock(tx, kind, organisation, Some(eshop)).await?;
        insert_chunks(tx, claim.job, packed).await?;
        void_memo(tx, claim.job).await?;
        dispatch::note(&mut change, Queue::Chunk, Some(organisation));
    }
    change.commit().await?;
    Ok(Some(Recorded { new }))
}

/// Forgets what the partner wants to get with the next request, since rows of another answer are stored from now on:
/// [`settle`] keeps what that answer wants, once all of them are.
async fn void_memo(tx: &mut PgConnection, job: JobId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "DELETE FROM partner_memo m USING job j
         WHERE j.id = $1 AND m.eshop_id = j.eshop_id AND m.kind = j.kind AND m.source = j.source",
        job.get(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The same for a job that is retried: its rows are written over those of later answers, so that what it has read is not stored as
/// a whole.
pub(super) async fn void_memo_by_retry(tx: &mut PgConnection, job: JobId) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE partner_fetch SET keeps_memo = false WHERE job_id = $1", job.get())
        .execute(&mut *tx)
        .await?;
    void_memo(tx, job).await
}

/// The same for all partners, those that are being read included: what is stored may be older than what they were last asked for.
/// Returns how many memos there were.
///
/// # Errors
/// Those of the database.
pub async fn void_memos(connection: &mut PgConnection) -> Result<u64, sqlx::Error> {
    sqlx::query!("UPDATE partner_fetch SET keeps_memo = false WHERE keeps_memo")
        .execute(&mut *connection)
        .await?;
    let gone = sqlx::query!("DELETE FROM partner_memo").execute(connection).await?;
    Ok(gone.rows_affected())
}

/// Takes back what came before and is not executed yet: chunks of two editions side by side would end with either. A
/// running one is rolled back.
async fn void(tx: &mut PgConnection, job: JobId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH void AS (
             UPDATE job_chunk
             SET state = 'cancelled', leased_until = NULL, payload = NULL, keys = NULL, token = token + 1, finished_at = now()
             WHERE job_id = $1 AND NOT calls_partner AND state IN ('queued', 'running')
             RETURNING item_count
         )
         UPDATE job SET total = total - v.items, chunks_open = chunks_open - v.chunks, changed_at = now(),
                        out_of_line_until = 'infinity'
         FROM (SELECT coalesce(sum(item_count), 0)::int AS items, count(*)::int AS chunks FROM void) v
         WHERE id = $1 AND state IN ('queued', 'running', 'retrying')",
        job.get(),
    )
    .execute(&mut *tx)
    .await?;
    forget_keys(tx, &[job]).await
}

/// Forgets the keys that fetches have seen: they have ended, or start again. Should it be retried, a
/// row is not found twice beyond the place where it ended.
pub async fn forget_keys(tx: &mut PgConnection, jobs: &[JobId]) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM partner_fetch_key WHERE job_id = ANY ($1)", jobs as &[JobId])
        .execute(tx)
        .await?;
    Ok(())
}

/// Which of the rows name a SKU that an earlier row of the job named.
async fn doubled(tx: &mut PgConnection, job: JobId, rows: &[Row]) -> Result<Vec<bool>, sqlx::Error> {
    let keys: Vec<Option<Uuid>> = rows.iter().map(|row| row.product_sku.as_deref().map(hash_of)).collect();
    let named: Vec<Uuid> = keys.iter().flatten().copied().collect();
    let new = sqlx::query_scalar!(
        "INSERT INTO partner_fetch_key (job_id, key) SELECT $1, key FROM unnest($2::uuid[]) AS key
         ON CONFLICT DO NOTHING RETURNING key",
        job.get(),
        &named,
    )
    .fetch_all(tx)
    .await?;
    // the first row that names a new key takes it
    let mut new: HashSet<Uuid> = new.into_iter().collect();
    Ok(keys.into_iter().map(|key| key.is_some_and(|key| !new.remove(&key))).collect())
}

/// Rows, packed into chunks.
#[derive(Default)]
struct Packed {
    payloads: Vec<Vec<u8>>,
    counts: Vec<i32>,
    /// Positions, in each chunk, of rows that occur earlier in the job, in the array syntax of Postgres.
    doubled: Vec<String>,
}

impl Packed {
    fn of(rows: &[Row], doubled: &[bool]) -> Result<Self, Problem> {
        let (mut packed, mut chunk, mut positions) = (Self::default(), Rows::default(), Vec::new());
        for (row, doubled) in rows.iter().zip(doubled) {
            if *doubled {
                positions.push(chunk.len().to_string());
            }
            chunk.push(&row.stored());
            if chunk.is_full() {
                packed.add(&mut chunk, &mut positions)?;
            }
        }
        if !chunk.is_empty() {
            packed.add(&mut chunk, &mut positions)?;
        }
        Ok(packed)
    }

    fn add(&mut self, chunk: &mut Rows, positions: &mut Vec<String>) -> Result<(), Problem> {
        self.counts.push(to_i32(chunk.len())?);
        self.payloads.push(chunk.take());
        self.doubled.push(format!("{{{}}}", positions.join(",")));
        positions.clear();
        Ok(())
    }
}

/// Adds the chunks of a page to a job that runs: they are accepted now, and so is the job where no other page of it is left.
async fn insert_chunks(tx: &mut PgConnection, job: JobId, packed: Packed) -> Result<(), Problem> {
    let rows = packed.counts.iter().sum::<i32>();
    let chunks = to_i32(packed.counts.len())?;
    sqlx::query!(
        r#"WITH accepted AS MATERIALIZED (
               SELECT nextval('acceptance') AS number
           ), grown AS (
               UPDATE job
               SET total = total + $2, chunks_open = chunks_open + $3, changed_at = now(), out_of_line_until = NULL,
                   acceptance = CASE WHEN out_of_line_until IS NULL THEN acceptance ELSE accepted.number END
               FROM accepted WHERE id = $1 AND state IN ('queued', 'running', 'retrying') RETURNING id
           ), last AS (
               SELECT max(number) AS number, max(first_index + item_count) AS index FROM job_chunk WHERE job_id = $1
           )
           INSERT INTO job_chunk (job_id, number, state, acceptance, payload, item_count, first_index, duplicates)
           SELECT $1, last.number + c.position::int, 'queued', accepted.number, c.payload, c.count,
                  last.index + coalesce(sum(c.count) OVER (ORDER BY c.position
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::int,
                  c.doubled::int[]
           FROM grown, accepted, last,
                unnest($4::bytea[], $5::int[], $6::text[]) WITH ORDINALITY AS c (payload, count, doubled, position)"#,
        job.get(),
        rows,
        chunks,
        &packed.payloads,
        &packed.counts,
        &packed.doubled,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Ends a job that calls a partner, in the same transaction: what the partner asked to get next time is kept if everything
/// was stored, and the e-shop's setting shows the error.
pub(super) async fn settle(tx: &mut PgConnection, job: JobId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO partner_memo (eshop_id, kind, source, memo, is_current)
         SELECT j.eshop_id, j.kind, j.source, f.memo, true
         FROM job j JOIN partner_fetch f ON f.job_id = j.id
         WHERE j.id = $1 AND j.state = 'succeeded' AND j.failed = 0 AND f.memo IS NOT NULL AND f.keeps_memo
         ON CONFLICT (eshop_id, kind, source) DO UPDATE SET memo = excluded.memo, is_current = true, changed_at = now()",
        job.get(),
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "UPDATE integration_setting s
         SET error = j.error, error_kind = CASE WHEN j.error IS NOT NULL THEN j.kind END,
             error_job = CASE WHEN j.error IS NOT NULL THEN j.id END,
             error_at = CASE WHEN j.error IS NOT NULL THEN j.finished_at END
         FROM (SELECT id, eshop_id, kind, finished_at,
                      CASE WHEN state = 'failed' THEN coalesce(error, 'it failed') END AS error
               FROM job WHERE id = $1) AS j
         -- what goes right clears only what went wrong with the same
         WHERE s.eshop_id = j.eshop_id AND (j.error IS NOT NULL OR s.error_kind = j.kind)",
        job.get(),
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "WITH sent AS (
             SELECT eshop_id, CASE WHEN state = 'failed' THEN now() END AS failed_at FROM job
             WHERE id = $1 AND kind = 'stock.send' AND state IN ('succeeded', 'failed')
         ), failed AS (
             INSERT INTO stock_send_out AS o (eshop_id, next_at, compare_at, failed_at)
             SELECT eshop_id, now(), next_night(eshop_id), failed_at FROM sent WHERE failed_at IS NOT NULL
             ON CONFLICT (eshop_id) DO UPDATE SET failed_at = excluded.failed_at
         )
         UPDATE stock_send_out o SET failed_at = NULL
         FROM sent WHERE sent.failed_at IS NULL AND o.eshop_id = sent.eshop_id AND o.failed_at IS NOT NULL",
        job.get(),
    )
    .execute(&mut *tx)
    .await?;
    forget_keys(tx, &[job]).await
}

/// Notes which items the partner has; those without an SKU are none of ours.
pub async fn note_items(
    tx: &mut PgConnection,
    eshop: EshopId,
    inventory: &str,
    items: &[(&str, &str)],
) -> Result<(), sqlx::Error> {
    let (ids, skus): (Vec<&str>, Vec<&str>) =
        items.iter().filter(|(_, sku)| !sku.is_empty()).copied().unzip();
    sqlx::query!(
        "INSERT INTO partner_item AS i (eshop_id, inventory, item, product_sku)
         SELECT DISTINCT ON (t.item) $1, $2, t.item, t.sku FROM unnest($3::text[], $4::text[]) AS t (item, sku)
         ORDER BY t.item
         ON CONFLICT (eshop_id, inventory, item) DO UPDATE SET product_sku = excluded.product_sku, seen_at = now()",
        eshop.get(),
        inventory,
        &ids as &[&str],
        &skus as &[&str],
    )
    .execute(tx)
    .await?;
    Ok(())
}
