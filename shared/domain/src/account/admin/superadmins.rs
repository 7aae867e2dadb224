//! The last active superadmin cannot be removed (`docs/reference/accounts.md#admins`): without one, no account could be
//! created again.

use sqlx::PgConnection;

use longshore_kernel::problem::{CONFLICT, Problem};

/// Locks changes that could remove an active superadmin until the end of the transaction: two concurrent ones could each
/// keep the other's superadmin and together leave none. It is taken before any row of an admin is locked.
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

    /// Whether the change is allowed: an active superadmin remains, or there was none before it.
    pub(super) async fn permits(self, tx: &mut PgConnection) -> Result<bool, sqlx::Error> {
        Ok(!self.there_was_one || is_there_one(tx).await?)
    }
}

async fn is_there_one(tx: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM admin WHERE role = 'superadmin' AND active) AS "one!""#)
        .fetch_one(tx)
        .await
}

/// The refusal.
pub(super) fn last() -> Problem {
    Problem::new(&CONFLICT, "the last active superadmin cannot be deactivated, demoted or deleted")
}
