//! Distinguishes chunks that kill their process from chunks whose process was killed from outside.
//!
//! A chunk that was running when its process died is a suspect, and no more than that: processes are killed by operators,
//! by the system, or by other work in it. No job fails because of that, however often it happens. A suspect is executed
//! alone, in a separate process that its worker watches. Only if *that* process dies while the worker survives, there is
//! evidence: then the chunk is halved, and each half is executed in the same way, until one item is left. When its process
//! has died several times, with time in between, that item is refused with that reason, and all other items are processed.

use std::time::Duration;

use sqlx::PgConnection;

use super::chunk::{Claim, Count};
use super::dispatch;
use super::item_error::ItemError;
use super::payload;
use super::{execution, payload::Unreadable};
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

/// Deaths alone after which a single item has killed its process.
pub const MOST_DEATHS: i32 = 3;
/// Wait after the first of them; it grows by the same factor.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const FACTOR: u32 = 4;

/// `code` of the error of an item that kills its process.
pub const CODE: &str = "process_died";

/// What follows from a death alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The claim was lost.
    Lost,
    /// Its halves are executed separately.
    Halved,
    /// It is tried again after this.
    Again(Duration),
    /// It has failed: one item, or what cannot be divided.
    Failed,
}

/// The process that executed the chunk, and nothing else, has died; `how`, as an operator knows it (a signal).
/// Whether the items of its job are [divisible](super::kind::Job::is_divisible) is for the caller to know.
pub async fn died_alone(
    services: &Services,
    claim: &Claim,
    is_divisible: bool,
    how: &str,
) -> Result<Verdict, Problem> {
    let is_divisible = is_divisible && !claim.calls_partner;
    if is_divisible && claim.item_count > 1 {
        return halve(services, claim).await;
    }
    let deaths = sqlx::query_scalar!(
        "UPDATE job_chunk SET deaths_alone = deaths_alone + 1
         WHERE job_id = $1 AND number = $2 AND token = $3 AND leased_until IS NOT NULL RETURNING deaths_alone",
        claim.job.get(),
        claim.number,
        claim.token,
    )
    .fetch_optional(&services.db.main)
    .await?;
    let Some(deaths) = deaths else { return Ok(Verdict::Lost) };
    let reason = format!("the worker process died {deaths} times while running only this chunk ({how})");
    if deaths < MOST_DEATHS {
        let wait = FIRST_WAIT * FACTOR.pow(u32::try_from(deaths - 1).unwrap_or(0));
        let held = super::chunk::postpone(&services.db.main, claim.held(), wait, Some(&reason)).await?;
        return Ok(if held.is_lost() { Verdict::Lost } else { Verdict::Again(wait) });
    }
    let ended = if is_divisible {
        refuse(services, claim, reason).await?
    } else {
        execution::give_up(services, claim, &reason).await?
    };
    Ok(if ended.is_lost() { Verdict::Lost } else { Verdict::Failed })
}

/// Ends a chunk of one item, which is refused.
async fn refuse(services: &Services, claim: &Claim, message: String) -> Result<Hold, Problem> {
    let (payload, key) = if claim.has_rows() {
        // not read any further than it must be: reading it may be what kills
        (payload::unpack_rows(&claim.payload).map_err(unreadable)?.first().map(|row| row.to_vec()), None)
    } else {
        let id = payload::unpack_ids::<uuid::Uuid>(&claim.payload).map_err(unreadable)?.first().copied();
        (id.map(|id| id.as_bytes().to_vec()), id.map(|id| id.to_string()))
    };
    let (index, line) = (claim.index(0), claim.lines.of(0));
    let payload = payload.unwrap_or_default();
    let error = ItemError { index, line, key, code: CODE, message, payload, notice: false };
    let mut change = Change::begin(services).await?;
    let count = Count { failed: 1, ..Count::default() };
    if execution::complete(&mut change, claim, count, &[error]).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    change.commit().await?;
    Ok(Hold::Kept)
}

fn unreadable(error: Unreadable) -> Problem {
    Problem::internal(error)
}

/// Makes two chunks of one, both suspects. Of a job in order, they are executed before all that follow.
async fn halve(services: &Services, claim: &Claim) -> Result<Verdict, Problem> {
    let count = usize::try_from(claim.item_count).map_err(Problem::internal)?;
    let middle = count.div_ceil(2);
    let [first, second] = payload::cut(&claim.payload, claim.has_rows(), middle).map_err(unreadable)?;
    let at = i32::try_from(middle).map_err(Problem::internal)?;
    let mut change = Change::begin(services).await?;
    if split(change.connection(), claim, at, [&first, &second]).await?.is_lost() {
        return Ok(Verdict::Lost);
    }
    dispatch::note(&mut change, Queue::Chunk, claim.organisation);
    change.commit().await?;
    Ok(Verdict::Halved)
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
    let (duplicates, others): (Vec<i32>, Vec<i32>) = claim.duplicates.iter().partition(|place| **place < at);
    let others: Vec<i32> = others.into_iter().map(|place| place - at).collect();
    // the second half keeps the number, and so its place before the next chunk; the chunk before its job, the usual order of locks
    let halved = sqlx::query!(
        "UPDATE job_chunk
         SET state = 'queued', leased_until = NULL, token = token + 1, next_attempt_at = now(), attempts = 0, payload = $4,
             item_count = item_count - $5, first_index = first_index + $5, indexes = $6, lines = $7, duplicates = $8, keys = NULL
         WHERE job_id = $1 AND number = $2 AND token = $3 AND leased_until IS NOT NULL",
        claim.job.get(),
        claim.number,
        claim.token,
        second,
        at,
        other_indexes as Option<&[i32]>,
        other_lines.stored(),
        &others,
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
             crashes, started_at)
         SELECT job_id, (SELECT min(number) - 1 FROM job_chunk WHERE job_id = $1), 'queued', acceptance, $3, $4,
                first_index - $4, $5, $6, $7, crashes, started_at
         FROM job_chunk WHERE job_id = $1 AND number = $2",
        claim.job.get(),
        claim.number,
        first,
        at,
        indexes as Option<&[i32]>,
        lines.stored(),
        &duplicates,
    )
    .execute(&mut *tx)
    .await?;
    Ok(Hold::Kept)
}
