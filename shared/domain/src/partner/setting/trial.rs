//! A test of the connection to the partner of an e-shop (`docs/reference/syncs.md#connection-test`).

use super::{ENTITY, of_scope};
use crate::job::connection;
use crate::job::kind::TestIntegration;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Accepts a test (`POST /api/partner-integration/eshop-setting/{eshopId}/test`), also of a setting that is not active: it can be
/// tried before it is switched on.
pub async fn test(services: &Services, context: &Context, eshop: EshopId) -> Result<Answer, Problem> {
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    let owner = of_scope(change.connection(), scope, eshop, true).await?;
    let is_stored = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM integration_setting WHERE eshop_id = $1) AS "is_stored!""#,
        eshop.get(),
    )
    .fetch_one(change.connection())
    .await?;
    if !is_stored {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, eshop).await);
    }
    let of = (owner.organisation, Some(eshop));
    let job =
        connection::accept(&mut change, &context.origin, &TestIntegration {}, of, eshop.to_string()).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "integration_setting.test",
        ENTITY,
        None,
        "WITH changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('test', jsonb_build_array(NULL, $10::uuid)) AS changes, '{}'::jsonb AS data
             FROM integration_setting WHERE eshop_id = $9
         )",
        eshop.get(),
        job.get(),
    )
    .await?;
    change.note(recorded);
    change.answer(context.claim, Answer::accepted_job(job)).await
}
