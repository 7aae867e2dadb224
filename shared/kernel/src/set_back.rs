//! Whether Postgres was set back, and outsiders know more than it (`docs/backup.md#after-a-restore`).
//!
//! A set-back is seen by the [pulse], and stays pending until `longshore-api restored` has mended it. Until then no call to
//! a warehouse begins; everything else goes on.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{PgConnection, PgExecutor};

use super::database::Database;
use super::pulse;
use super::queue::Queues;

/// How long Redis may take to say which pulse it remembers.
const PATIENCE: Duration = Duration::from_secs(1);

/// A set-back that is not mended; several that are not, in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetBack {
    /// The epoch that it began; of several, the last.
    pub epoch: i32,
    /// When it was seen; of several, when the first was.
    pub seen_at: DateTime<Utc>,
    /// What was committed from then on may be lost.
    pub since: DateTime<Utc>,
    /// The last moment of which somebody remembers a commit; `None` if nobody remembers one.
    pub until: Option<DateTime<Utc>>,
}

impl SetBack {
    /// For how long what was committed may be lost, at most: until the next pulse after the last that is remembered would have come, and
    /// where nobody remembers one, until it was seen.
    #[must_use]
    pub fn longest_loss(&self) -> TimeDelta {
        let until = self.until.map_or(self.seen_at, |until| until + pulse::EVERY);
        (until - self.since).max(TimeDelta::zero())
    }
}

/// The set-back that is not mended, if there is one.
///
/// # Errors
/// Those of the connection.
pub async fn pending(connection: impl PgExecutor<'_>) -> Result<Option<SetBack>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT max(epoch) AS epoch, min(seen_at) AS seen_at, min(since) AS since, max("until") AS "until"
           FROM set_back WHERE mended_at IS NULL"#
    )
    .fetch_one(connection)
    .await?;
    Ok(match (row.epoch, row.seen_at, row.since) {
        (Some(epoch), Some(seen_at), Some(since)) => {
            Some(SetBack { epoch, seen_at, since, until: row.until })
        }
        _ => None,
    })
}

/// Compares as a process does that remembers nothing, for a command that comes before all others.
///
/// # Errors
/// Those of the connection.
pub async fn look(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    pulse::greet(connection, &pulse::Memory::default()).await
}

/// Raises the pulse unless another worker just has, and compares it with what this process and Redis remember. For workers, each second
/// ([`pulse::EVERY`]).
///
/// # Errors
/// Those of Postgres. Where Redis is away, what this process remembers is compared.
pub async fn watch(db: &Database, queues: &Queues) -> Result<(), sqlx::Error> {
    recall(db, queues).await;
    let mut connection = db.main.acquire().await?;
    let is_new = pulse::raise(&mut connection, &db.pulse).await?;
    drop(connection);
    if is_new {
        recall(db, queues).await;
    }
    Ok(())
}

/// Remembers the pulse that Redis does, and lets Redis remember that of this process: the higher one. A process that has just started and
/// does this first compares its first connection with it.
pub async fn recall(db: &Database, queues: &Queues) {
    match tokio::time::timeout(PATIENCE, queues.remember(db.pulse.highest())).await {
        Ok(Ok(Some(pulse))) => db.pulse.remember(pulse),
        Ok(Ok(None)) => {}
        // the queues report that Redis is away
        Ok(Err(error)) => tracing::debug!(%error, "Redis does not say which pulse it remembers"),
        Err(_) => tracing::debug!("Redis does not say in time which pulse it remembers"),
    }
}
