//! `restored`: what each webhook is told once Postgres was set back (`docs/reference/webhooks.md#restored`).

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::json;
use sqlx::PgConnection;

use crate::webhook::event::RESTORED;

/// Tells every webhook, whatever it subscribes to, that changes between `since` and `at` may be lost: one event for each e-shop or
/// organisation that is listened to, and a delivery for each of its webhooks, that of an inactive one to be kept. Returns how many deliveries there are. Workers find
/// the lanes by themselves.
///
/// # Errors
/// Those of the database.
pub async fn tell_of_restore(
    connection: &mut PgConnection,
    epoch: i32,
    since: DateTime<Utc>,
    at: DateTime<Utc>,
) -> Result<u64, sqlx::Error> {
    let time = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Micros, false);
    let told = sqlx::query!(
        "WITH heard AS MATERIALIZED (
             SELECT uuid_v7() AS event, source_id, eshop_id, organisation_id
             FROM (SELECT DISTINCT source_id, eshop_id, organisation_id FROM webhook) AS listening
         ), told AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
             SELECT event, $1, organisation_id, CASE WHEN eshop_id IS NULL THEN 'organisation' ELSE 'eshop' END, source_id,
                    jsonb_build_object('id', source_id) || $2::jsonb FROM heard
         )
         INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), w.id, w.eshop_id, h.event, now() FROM heard h JOIN webhook w USING (source_id)",
        RESTORED.name,
        json!({"at": time(at), "since": time(since), "epoch": epoch}),
    )
    .execute(connection)
    .await?;
    Ok(told.rows_affected())
}
