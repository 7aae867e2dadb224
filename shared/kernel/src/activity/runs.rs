//! Results and durations of what is run: the calls of each destination, and the jobs of each kind.

use std::time::Duration;

use sqlx::PgPool;

use super::pending::Tally;
use super::{CALLS_MINUTES, LAST_SLOT};
use crate::ids::WebhookId;

/// How runs went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tallied {
    pub(super) good: i64,
    pub(super) bad: i64,
    /// How long all of them took together.
    pub(super) milliseconds: i64,
    pub(super) slowest: i64,
}

impl Tallied {
    /// One run.
    pub(super) fn one(is_good: bool, took: Duration) -> Self {
        let milliseconds = i64::try_from(took.as_millis()).unwrap_or(i64::MAX).min(1 << LAST_SLOT);
        Self { good: i64::from(is_good), bad: i64::from(!is_good), milliseconds, slowest: milliseconds }
    }
}

impl Tally for Tallied {
    fn add(&mut self, more: Self) {
        self.good += more.good;
        self.bad += more.bad;
        self.milliseconds += more.milliseconds;
        self.slowest = self.slowest.max(more.slowest);
    }
}

/// The columns of a statement.
#[derive(Default)]
struct Columns<K> {
    keys: Vec<K>,
    good: Vec<i64>,
    bad: Vec<i64>,
    milliseconds: Vec<i64>,
    slowest: Vec<i64>,
}

impl<K: Default> Columns<K> {
    fn of(counted: Vec<(K, Tallied)>) -> Self {
        let mut columns = Self::default();
        for (key, tallied) in counted {
            columns.keys.push(key);
            columns.good.push(tallied.good);
            columns.bad.push(tallied.bad);
            columns.milliseconds.push(tallied.milliseconds);
            columns.slowest.push(tallied.slowest);
        }
        columns
    }
}

pub(super) async fn write_calls(db: &PgPool, counted: Vec<(WebhookId, Tallied)>) -> Result<(), sqlx::Error> {
    let columns = Columns::of(counted);
    sqlx::query!(
        "INSERT INTO webhook_activity AS a (webhook_id, minute, delivered, failed, milliseconds, slowest)
             SELECT given.webhook_id, date_bin(make_interval(mins => $6), now(), 'epoch'), given.delivered, given.failed,
                    given.milliseconds, given.slowest
             FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                  AS given (webhook_id, delivered, failed, milliseconds, slowest)
             ON CONFLICT (webhook_id, minute) DO UPDATE
             SET delivered = a.delivered + excluded.delivered, failed = a.failed + excluded.failed,
                 milliseconds = a.milliseconds + excluded.milliseconds, slowest = greatest(a.slowest, excluded.slowest)",
        &columns.keys as &[WebhookId],
        &columns.good,
        &columns.bad,
        &columns.milliseconds,
        &columns.slowest,
        CALLS_MINUTES,
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn write_kinds(
    db: &PgPool,
    counted: Vec<(&'static str, Tallied)>,
) -> Result<(), sqlx::Error> {
    let columns = Columns::of(counted);
    sqlx::query!(
        "INSERT INTO job_activity AS a (kind, minute, succeeded, failed, milliseconds, slowest)
         SELECT given.kind, date_trunc('minute', now()), given.succeeded, given.failed, given.milliseconds, given.slowest
         FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
              AS given (kind, succeeded, failed, milliseconds, slowest)
         ON CONFLICT (kind, minute) DO UPDATE
         SET succeeded = a.succeeded + excluded.succeeded, failed = a.failed + excluded.failed,
             milliseconds = a.milliseconds + excluded.milliseconds, slowest = greatest(a.slowest, excluded.slowest)",
        &columns.keys as &[&str],
        &columns.good,
        &columns.bad,
        &columns.milliseconds,
        &columns.slowest,
    )
    .execute(db)
    .await?;
    Ok(())
}
