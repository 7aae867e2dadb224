//! The access tokens of programs, for operators.

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{OrganisationId, TokenId};
use longshore_kernel::problem::Problem;

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
