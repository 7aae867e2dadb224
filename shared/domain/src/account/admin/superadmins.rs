//! The last active superadmin stays one (`docs/reference/accounts.md#admins`): or nobody could let anybody in again.

use sqlx::PgConnection;

use longshore_kernel::problem::{CONFLICT, Problem};

/// Held by whoever may take an active superadmin away, one at a time, until the end of the transaction: two who each
/// leave the other's alone could leave none together. It is taken before any row of an admin is locked.
#[derive(Debug)]
pub(super) struct Guard {
    there_was_one: bool,
}

impl Guard {
    /// Waits for its turn.
    pub(super) async fn take(tx: &mut PgConnection) -> Result<Self, sqlx::Error> {
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('active superadmins', 0))")
            .execute(&mut *tx)
            .await?;
        Ok(Self { there_was_one: is_there_one(tx).await? })
    }

    /// Whether the change may stand: there still is one, unless there was none before it.
    pub(super) async fn permits(self, tx: &mut PgConnection) -> Result<bool, sqlx::Error> {
        Ok(!self.there_was_one || is_there_one(tx).await?)
    }
}

async fn is_there_one(tx: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM admin WHERE role = 'superadmin' AND active) AS "one!""#)
        .fetch_one(tx)
        .await
}

/// What who tries is told.
pub(super) fn last() -> Problem {
    Problem::new(&CONFLICT, "the last active superadmin cannot be deactivated, demoted or deleted")
}
