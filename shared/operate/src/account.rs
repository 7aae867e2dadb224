//! The account of a visitor: where it is logged in, and its second factor.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use longshore_kernel::database::Database;
use longshore_kernel::ids::SessionId;
use longshore_kernel::problem::Problem;

/// Sessions that are shown: the newest.
const SESSIONS: i64 = 50;

/// A login that lasts.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The address that it came from.
    pub address: Option<String>,
    /// What the client said it was.
    pub user_agent: Option<String>,
    /// When it began.
    pub created_at: DateTime<Utc>,
    /// When it was used.
    pub last_used_at: DateTime<Utc>,
    /// When it ends, unless it is continued.
    pub expires_at: DateTime<Utc>,
}

/// The second factor of an admin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Whether logging in asks for it.
    pub active: bool,
    /// Recovery codes that are left.
    pub recovery_codes: i32,
}

/// The sessions of an account that last, newest first.
pub async fn sessions(db: &Database, account: Uuid) -> Result<Vec<Session>, Problem> {
    let found = sqlx::query_as!(
        Session,
        "SELECT id, address, user_agent, created_at, last_used_at, expires_at FROM session
         WHERE account_id = $1 AND ended_at IS NULL AND expires_at > now() ORDER BY created_at DESC, id DESC LIMIT $2",
        account,
        SESSIONS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// The second factor of an admin, if it has begun to set one up.
pub async fn factor(db: &Database, admin: Uuid) -> Result<Option<Factor>, Problem> {
    let found = sqlx::query_as!(
        Factor,
        r#"SELECT active, cardinality(recovery_codes) AS "recovery_codes!" FROM second_factor WHERE admin_id = $1"#,
        admin,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}
