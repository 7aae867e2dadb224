//! The last use of tokens: noted by the look-up, and written in batches, at most once a minute per token.
//!
//! Writing does not wait for locks: locked rows are written in the next minute. It raises neither a version nor
//! `changedAt`, since it is no change of the token.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::PgPool;

use longshore_kernel::cause::causes;
use longshore_kernel::database::Database;
use longshore_kernel::ids::TokenId;
use longshore_kernel::problem::Problem;

/// Tokens that may wait to be written; those past it are noted in the next minute.
const MOST: usize = 10_000;

/// Tokens whose last use is not written yet.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    db: Database,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    tokens: HashSet<TokenId>,
    /// A task is writing, and continues until nothing is pending.
    is_written: bool,
}

impl Uses {
    pub(super) fn new(db: Database) -> Self {
        Self { db, waiting: Arc::default() }
    }

    /// Notes that a token is used, in the minute in which that was not written yet. Those that come while one batch is being
    /// written are the next one.
    pub(super) fn note(&self, token: TokenId) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.tokens.len() < MOST {
            waiting.tokens.insert(token);
        }
        if !waiting.is_written {
            waiting.is_written = true;
            tokio::spawn(self.clone().keep());
        }
    }

    async fn keep(self) {
        while let Some(tokens) = self.take() {
            if let Err(error) = write(&self.db.main, &tokens).await {
                tracing::debug!(error = %causes(&error), "cannot record when tokens were last used");
            }
        }
    }

    fn take(&self) -> Option<Vec<TokenId>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_written = !waiting.tokens.is_empty();
        waiting.is_written.then(|| waiting.tokens.drain().collect())
    }
}

async fn write(db: &PgPool, tokens: &[TokenId]) -> Result<(), Problem> {
    sqlx::query!(
        "WITH due AS MATERIALIZED (
             SELECT id FROM access_token
             WHERE id = ANY ($1) AND (last_used_at IS NULL OR last_used_at < date_trunc('minute', now()))
             ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
         ), used AS (
             UPDATE access_token SET last_used_at = now() WHERE id = ANY (ARRAY(SELECT id FROM due)) RETURNING session_id
         ), open AS MATERIALIZED (
             SELECT id FROM session WHERE id = ANY (ARRAY(SELECT session_id FROM used))
             ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
         )
         UPDATE session SET last_used_at = now() WHERE id = ANY (ARRAY(SELECT id FROM open))",
        tokens as &[TokenId],
    )
    .execute(db)
    .await?;
    Ok(())
}
