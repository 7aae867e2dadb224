//! The organisations of lanes.

use std::collections::HashMap;

use longshore_kernel::database::Database;
use longshore_kernel::ids::{OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;

/// The organisations of these webhooks, as far as there are such webhooks.
pub async fn owners(
    db: &Database,
    webhooks: &[WebhookId],
) -> Result<HashMap<WebhookId, OrganisationId>, Problem> {
    let rows = sqlx::query!(
        r#"SELECT id AS "id: WebhookId", organisation_id AS "organisation: OrganisationId" FROM webhook WHERE id = ANY ($1)"#,
        webhooks as &[WebhookId]
    )
    .fetch_all(&db.main)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.organisation)).collect())
}
