//! A test of the connection to the partner of an e-shop (`docs/reference/syncs.md#connection-test`).

use super::{ENTITY, of_scope};
use crate::job::connection;
use crate::job::kind::TestIntegration;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Accepts a test (`POST /api/partner-integration/eshop-setting/{eshopId}/test`), also of a setting that is not active: it can be
/// tried before it is switched on.
pub async fn test(services: &Services, context: &Context, eshop: EshopId) -> Result<Answer, Problem> {
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    let organisation = of_scope(change.connection(), scope, eshop, true).await?.organisation;
    let stored = sqlx::query_scalar!("SELECT id FROM integration_setting WHERE eshop_id = $1", eshop.get())
        .fetch_optional(change.connection())
        .await?;
    let Some(id) = stored else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, eshop).await);
    };
    let setting =
        connection::Setting { entity: (ENTITY, id), of: eshop.get(), organisation, eshop: Some(eshop) };
    connection::accept(change, context, &TestIntegration {}, setting).await
}
