//! Blocks: a partner refuses a token for some time after too many requests. Until then, no worker calls
//! the partner with this token, for any e-shop. It is stored in Postgres, so it survives a restart.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgExecutor, PgPool};

use super::baselinker::TokenHash;
use longshore_kernel::problem::Problem;

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// When it ends.
    pub until: DateTime<Utc>,
    /// What the partner said.
    pub message: String,
}

/// The block of a token, if there is one.
pub async fn find(executor: impl PgExecutor<'_>, token: TokenHash) -> Result<Option<Block>, Problem> {
    Ok(sqlx::query_as!(
        Block,
        "SELECT until, message FROM partner_block WHERE token_hash = $1 AND until > now()",
        token.as_bytes(),
    )
    .fetch_optional(executor)
    .await?)
}

/// Records that a token is blocked for so long from now; returns until when. What was said last counts.
pub async fn record(
    db: &PgPool,
    token: TokenHash,
    wait: Duration,
    message: &str,
) -> Result<DateTime<Utc>, Problem> {
    Ok(sqlx::query_scalar!(
        "INSERT INTO partner_block (token_hash, until, message)
         VALUES ($1, clock_timestamp() + make_interval(secs => $2), $3)
         ON CONFLICT (token_hash) DO UPDATE SET until = excluded.until, message = excluded.message, recorded_at = now()
         RETURNING until",
        token.as_bytes(),
        wait.as_secs_f64(),
        message,
    )
    .fetch_one(db)
    .await?)
}

/// Forgets blocks that have ended; returns how many.
pub async fn expire(db: &PgPool) -> Result<u64, Problem> {
    Ok(sqlx::query!("DELETE FROM partner_block WHERE until < now()").execute(db).await?.rows_affected())
}
