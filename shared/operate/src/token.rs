//! The access tokens of programs, for operators.

use chrono::{DateTime, Utc};

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, TokenId};
use longshore_kernel::problem::Problem;

/// Tokens that are shown.
pub const SHOWN: usize = 200;

/// An access token; never itself.
#[derive(Clone, Debug)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub role: String,
    /// Its organisation; absent where it sees everything.
    pub organisation_id: Option<OrganisationId>,
    /// Name of that.
    pub organisation: Option<String>,
    /// The e-shop that it is bound to.
    pub eshop: Option<String>,
    /// The wms that it is the program of.
    pub wms: Option<String>,
    /// Who created it.
    pub created_by: String,
    /// When.
    pub created_at: DateTime<Utc>,
    /// When it was used last.
    pub last_used_at: Option<DateTime<Utc>>,
    /// When it ends.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
    /// By whom.
    pub revoked_by: Option<String>,
}

/// Which tokens are wanted; all of it is required.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    /// Of this organisation.
    pub organisation: Option<OrganisationId>,
    /// This one.
    pub id: Option<TokenId>,
}

/// The tokens of a scope, newest first and those that were revoked last; one more than [`SHOWN`] says that there are more.
pub async fn list(db: &Database, scope: &Scope, wanted: Filter) -> Result<Vec<Token>, Problem> {
    let found = sqlx::query_as!(
        Token,
        r#"SELECT t.id, t.name, t.role, t.organisation_id AS "organisation_id: OrganisationId",
                  (SELECT name FROM organisation o WHERE o.id = t.organisation_id) AS organisation,
                  (SELECT name FROM eshop s WHERE s.id = t.eshop_id) AS eshop,
                  (SELECT name FROM wms w WHERE w.id = t.wms_id) AS wms, t.created_by, t.created_at, t.last_used_at, t.expires_at,
                  t.revoked_at, t.revoked_by
           FROM access_token t
           WHERE t.admin_id IS NULL AND t.business_user_id IS NULL AND in_scope($1, t.organisation_id)
             AND in_eshop($2, t.eshop_id) AND ($3::uuid IS NULL OR t.organisation_id = $3)
             AND ($5::uuid IS NULL OR t.id = $5)
           ORDER BY t.revoked_at IS NOT NULL, t.created_at DESC, t.id DESC LIMIT $4"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        wanted.organisation as Option<OrganisationId>,
        i64::try_from(SHOWN + 1).map_err(Problem::internal)?,
        wanted.id as Option<TokenId>,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// The name of one that works, if it is in the scope.
pub async fn name(db: &Database, scope: &Scope, id: TokenId) -> Result<Option<String>, Problem> {
    let found = sqlx::query_scalar!(
        "SELECT name FROM access_token
         WHERE id = $2 AND revoked_at IS NULL AND admin_id IS NULL AND business_user_id IS NULL AND in_scope($1, organisation_id)",
        scope.organisations() as Option<&[OrganisationId]>,
        id.get(),
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}
