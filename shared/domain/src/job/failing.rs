//! What becomes of the items of a chunk that fails.
//!
//! An item that ends in an error of its own (a record that cannot be read, a panic) fails its whole chunk. Which one it is, is found by
//! halving the chunk, each half a chunk of its own, until one item is left; it is tried a few times, and refused. So its
//! neighbours are executed, and its job, and those behind it, continue. Where the statement of a chunk can be halved
//! in its transaction, [`halving`](super::halving) finds the row there.
//!
//! A chunk that fails for another reason is tried again as a whole, and fails for good in the end. Its items are listed then.

use std::time::Duration;

use sqlx::PgConnection;

use super::chunk::{self, Claim, Count, Duplicate};
use super::dispatch;
use super::execution;
use super::item_error::{CHUNK_FAILED, INTERNAL, ItemError};
use super::payload;
use super::row;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

/// Executions of one item alone, until it is refused.
const MOST_FAILURES: i32 = 3;

/// A chunk whose items are [divisible](super::kind::Job::is_divisible) has failed for one of them, or for several: it is halved. One item
/// is tried again after the wait, and then refused.
///
/// # Errors
/// Those of the database, and of a payload that cannot be read.
pub async fn find(services: &Services, claim: &Claim, reason: &str, wait: Duration) -> Result<Hold, Problem> {
    if claim.item_count > 1 {
        tracing::warn!(items = claim.item_count, reason, "an item of a chunk fails; the chunk is halved");
        return halve(services, claim).await;
    }
    if claim.attempts < MOST_FAILURES {
        tracing::warn!(attempt = claim.attempts, reason, "an item failed and will be tried again");
        return chunk::postpone(&services.db.main, claim.held(), wait, Some(reason)).await;
    }
    tracing::error!(reason, "an item ends in an internal error, and is refused");
    match row::all_refused(claim, INTERNAL).map_err(Problem::internal)?.pop() {
        Some(error) => refuse(services, claim, error).await,
        None => give_up(services, claim, reason).await,
    }
}

/// Ends a chunk of one item, which is refused.
pub(super) async fn refuse(services: &Services, claim: &Claim, error: ItemError) -> Result<Hold, Problem> {
    let mut change = Change::begin(services).await?;
    let count = Count { failed: 1, ..Count::default() };
    if execution::complete(&mut change, claim, count, &[error]).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    change.commit().await?;
    Ok(Hold::Kept)
}

/// Ends a chunk that failed for good: its items count as failed, are listed, and stay for a retry.
///
/// # Errors
/// Those of the database.
pub async fn give_up(services: &Services, claim: &Claim, error: &str) -> Result<Hold, Problem> {
    let mut change = Change::begin(services).await?;
    if chunk::fail(change.connection(), claim, error).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    let count = Count { failed: claim.item_count, ..Count::default() };
    if execution::advance(&mut change, claim, count, &listed(claim)).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    change.commit().await?;
    Ok(Hold::Kept)
}

/// The items of a chunk that failed for good, which keeps them itself. A chunk that calls a partner has none, a step of a walk does not
/// know them, and those of an unknown kind, or that cannot be read, are counted only.
fn listed(claim: &Claim) -> Vec<ItemError> {
    let mut items = match claim.kind {
        Ok(_) if !claim.calls_partner => row::all_refused(claim, CHUNK_FAILED).unwrap_or_default(),
        _ => Vec::new(),
    };
    if i32::try_from(items.len()) != Ok(claim.item_count) {
        return Vec::new();
    }
    for item in &mut items {
        item.payload = Vec::new();
    }
    items
}

/// Makes two chunks of one; of a suspect, both are suspects. Of a job in order, they are executed before all that follow.
pub(super) async fn halve(services: &Services, claim: &Claim) -> Result<Hold, Problem> {
    let count = usize::try_from(claim.item_count).map_err(Problem::internal)?;
    let middle = count.div_ceil(2);
    let [first, second] =
        payload::cut(&claim.payload, claim.has_rows(), middle).map_err(Problem::internal)?;
    let at = i32::try_from(middle).map_err(Problem::internal)?;
    let mut change = Change::begin(services).await?;
    if split(change.connection(), claim, at, [&first, &second]).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    dispatch::note(&mut change, Queue::Chunk, claim.organisation);
    change.commit().await?;
    Ok(Hold::Kept)
}

async fn split(
    tx: &mut PgConnection,
    claim: &Claim,
    at: i32,
    [first, second]: [&[u8]; 2],
) -> Result<Hold, Problem> {
    let (middle, end) = (usize::try_from(at), usize::try_from(claim.item_count));
    let (middle, end) = (middle.map_err(Problem::internal)?, end.map_err(Problem::internal)?);
    let (lines, other_lines) = (claim.lines.part(0..middle), claim.lines.part(middle..end));
    let (indexes, other_indexes) =
        claim.indexes.as_ref().and_then(|indexes| indexes.split_at_checked(middle)).unzip();
    let (compared, others_compared) =
        claim.compared.as_ref().and_then(|compared| compared.split_at_checked(middle)).unzip();
    let (duplicates, others): (Vec<_>, Vec<_>) = claim.duplicates.iter().partition(|of| of.position < at);
    let apart = |of: Vec<Duplicate>, from: i32| -> (Vec<i32>, Vec<Option<i64>>) {
        of.into_iter().map(|of| (of.position - from, of.line_of_first)).unzip()
    };
    let ((duplicates, duplicates_of), (others, others_of)) = (apart(duplicates, 0), apart(others, at));
    // the second half keeps the number, and so its place before the next chunk; the chunk before its job, the usual order of locks
    let halved = sqlx::query!(
        "UPDATE job_chunk
         SET state = 'queued', leased_until = NULL, token = token + 1, next_attempt_at = now(), attempts = 0, payload = $4,
             item_count = item_count - $5, first_index = first_index + $5, indexes = $6, lines = $7, duplicates = $8, duplicates_of = $9,
             keys = NULL, compared = $10
         WHERE job_id = $1 AND number = $2 AND token = $3 AND leased_until IS NOT NULL",
        claim.job.get(),
        claim.number,
        claim.token,
        second,
        at,
        other_indexes as Option<&[i32]>,
        other_lines.stored(),
        &others,
        &others_of as &[Option<i64>],
        others_compared as Option<&[Option<String>]>,
    )
    .execute(&mut *tx)
    .await?;
    let job = sqlx::query!(
        "UPDATE job SET chunks_open = chunks_open + 1, changed_at = clock_timestamp()
         WHERE id = $1 AND state IN ('queued', 'running', 'retrying')",
        claim.job.get(),
    )
    .execute(&mut *tx)
    .await?;
    if halved.rows_affected() == 0 || job.rows_affected() == 0 {
        return Ok(Hold::Lost);
    }
    // the first half goes before all others; the lock on the job reserves its number
    sqlx::query!(
        "INSERT INTO job_chunk (job_id, number, state, acceptance, payload, item_count, first_index, indexes, lines, duplicates,
             duplicates_of, compared, is_decided, crashes, started_at)
         SELECT job_id, (SELECT min(number) - 1 FROM job_chunk WHERE job_id = $1), 'queued', acceptance, $3, $4,
                first_index - $4, $5, $6, $7, $8, $9, is_decided, crashes, started_at
         FROM job_chunk WHERE job_id = $1 AND number = $2",
        claim.job.get(),
        claim.number,
        first,
        at,
        indexes as Option<&[i32]>,
        lines.stored(),
        &duplicates,
        &duplicates_of as &[Option<i64>],
        compared as Option<&[Option<String>]>,
    )
    .execute(&mut *tx)
    .await?;
    Ok(Hold::Kept)
}
