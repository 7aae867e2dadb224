//! The lease of a lane: its time, and how it is made to last.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

/// How long a lease lasts unless it is renewed.
pub const LEASE: Duration = Duration::from_secs(3);

/// The time by the clock of Postgres, as it was read with a lease: that of the process may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct PostgresTime {
    now: DateTime<Utc>,
    read: Instant,
}

impl PostgresTime {
    /// A time that was read at a moment.
    pub(crate) fn new(now: DateTime<Utc>, read: Instant) -> Self {
        Self { now, read }
    }

    /// The moment that was read: the lease had begun.
    #[must_use]
    pub fn read_at(&self) -> DateTime<Utc> {
        self.now
    }

    /// The current moment; behind by the time that reading it took.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.now + self.read.elapsed()
    }
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// It lasts [`LEASE`] from before it was asked for.
    Yes,
    /// So it does, but the destination was changed, is no longer active, or is held: what is under way may end, and nothing
    /// may begin.
    ToEnd,
    /// It is lost, or the lane leads elsewhere.
    No,
}

/// The function that makes the lease of a lane last: `renewal!(lane, its key, the field of the key in `Lease`, conditions)`. The
/// conditions are on the lane `l`: its destination is still as it was when the lease read it, which had the version `$4`.
macro_rules! renewal {
    ($lane:literal, $key:literal, $of:ident $(, $condition:literal)+ $(,)?) => {
        /// Makes a lease last. A worker that may begin no more calls confirms it with `ending`: who rotates the secret
        /// waits for that.
        pub async fn renew(
            db: &longshore_kernel::database::Database,
            lease: &Lease,
            ending: bool,
        ) -> Result<$crate::calling::Renewed, longshore_kernel::problem::Problem> {
            let renewed = match renew_by(&db.leases, lease, ending, false).await? {
                // the lane is locked: it is waited for where this costs no other its lease
                None => renew_by(&db.main, lease, ending, true).await?,
                renewed => renewed,
            };
            Ok(renewed.unwrap_or($crate::calling::Renewed::No))
        }

        /// Nothing if the lane is locked, unless this `waits` for it.
        async fn renew_by(
            db: &sqlx::PgPool,
            lease: &Lease,
            ending: bool,
            waits: bool,
        ) -> Result<Option<$crate::calling::Renewed>, sqlx::Error> {
            // the rotations of the lane are read under its lock: a rotation that was committed since the statement began is seen
            let row = sqlx::query!(
                "WITH free AS MATERIALIZED (
                     -- one that was released is not taken again by a statement that comes after that
                     SELECT " + $key + " AS id FROM " + $lane + "
                     WHERE " + $key + " = $1 AND token = $2 AND leased_until > '-infinity' AND NOT $7
                     FOR NO KEY UPDATE SKIP LOCKED
                 ), waited AS MATERIALIZED (
                     SELECT " + $key + " AS id FROM " + $lane + "
                     WHERE " + $key + " = $1 AND token = $2 AND leased_until > '-infinity' AND $7
                     FOR NO KEY UPDATE
                 ), renewed AS (
                     UPDATE " + $lane + " l SET leased_until = now() + make_interval(secs => $3), ending = $6
                     WHERE l." + $key + " = ANY (ARRAY(SELECT id FROM free UNION ALL SELECT id FROM waited))
                     RETURNING l.rotations = $5" $(+ " AND " + $condition)+ + " AS as_leased
                 )
                 SELECT (SELECT as_leased FROM renewed) AS as_leased,
                        EXISTS (SELECT FROM " + $lane + " l
                                WHERE l." + $key + r#" = $1 AND l.token = $2 AND l.leased_until > '-infinity') AS "is_theirs!""#,
                lease.$of.get(),
                lease.token,
                $crate::calling::LEASE.as_secs_f64(),
                lease.version,
                lease.rotations,
                ending,
                waits,
            )
            .fetch_one(db)
            .await?;
            Ok(match row.as_leased {
                Some(true) => Some($crate::calling::Renewed::Yes),
                Some(false) => Some($crate::calling::Renewed::ToEnd),
                None if row.is_theirs && !waits => None,
                None => Some($crate::calling::Renewed::No),
            })
        }
    };
}

pub(crate) use renewal;
