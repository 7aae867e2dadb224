//! Whose lanes are.

use std::collections::HashMap;

use uuid::Uuid;

use longshore_kernel::database::Database;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;

/// The organisations of these webhooks, as far as there are such webhooks.
pub async fn owners(db: &Database, webhooks: &[WebhookId]) -> Result<HashMap<WebhookId, Uuid>, Problem> {
    let rows = sqlx::query!(
        r#"SELECT id AS "id: WebhookId", organisation_id FROM webhook WHERE id = ANY ($1)"#,
        webhooks as &[WebhookId]
    )
    .fetch_all(&db.main)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.organisation_id)).collect())
}
