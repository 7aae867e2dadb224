//! Distinguishes chunks that kill their process from chunks whose process was killed from outside.
//!
//! A chunk that was running when its process died is a suspect, and no more than that: processes are killed by operators,
//! by the system, or by other work in it. No job fails because of that, however often it happens. A suspect is executed
//! alone, in a separate process that its worker watches. Only if *that* process dies while the worker survives, there is
//! evidence: then the chunk is halved, and each half is executed in the same way, until one item is left. When its process
//! has died several times, with time in between, that item is refused with that reason, and all other items are processed.

use std::time::Duration;

use super::chunk::Claim;
use super::failing;
use super::item_error::ItemError;
use super::payload;
use longshore_kernel::problem::Problem;
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
        let halved = failing::halve(services, claim).await?;
        return Ok(if halved.is_lost() { Verdict::Lost } else { Verdict::Halved });
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
        failing::refuse(services, claim, killer(claim, reason)?).await?
    } else {
        failing::give_up(services, claim, &reason).await?
    };
    Ok(if ended.is_lost() { Verdict::Lost } else { Verdict::Failed })
}

/// The one item of a chunk, which has killed its process.
fn killer(claim: &Claim, message: String) -> Result<ItemError, Problem> {
    let (payload, key) = if claim.has_rows() {
        // not read any further than it must be: reading it may be what kills
        (
            payload::unpack_rows(&claim.payload).map_err(Problem::internal)?.first().map(|row| row.to_vec()),
            None,
        )
    } else {
        let ids = payload::unpack_ids::<uuid::Uuid>(&claim.payload).map_err(Problem::internal)?;
        let id = ids.first().copied();
        (id.map(|id| id.as_bytes().to_vec()), id.map(|id| id.to_string()))
    };
    let (index, line) = (claim.index(0), claim.lines.of(0));
    Ok(ItemError {
        index,
        line,
        key,
        code: CODE,
        message,
        field: None,
        payload: payload.unwrap_or_default(),
        notice: false,
    })
}
