//! Whether Postgres was set back, and outsiders know more than it (`docs/operating.md#after-a-restore`).
//!
//! A set-back is seen by the [pulse](super::pulse), and stays pending until `longshore-api restored` has mended it. Until then no call to
//! a warehouse begins; everything else goes on.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgExecutor;

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
    /// For how long what was committed may be lost, at most: until the last commit that is remembered, and otherwise until it was seen.
    #[must_use]
    pub fn longest_loss(&self) -> TimeDelta {
        (self.until.unwrap_or(self.seen_at) - self.since).max(TimeDelta::zero())
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
