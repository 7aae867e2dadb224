//! Deleting an order.

use sqlx::PgConnection;

use crate::expedition::decision::wrong_status;
use crate::expedition::invoice;
use crate::expedition::order;
use crate::expedition::write::ENTITY;
use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Deletes an order that is on hold, incorrect or canceled: 204. Its number is free again.
pub async fn delete(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    let Some(order) = order::lock(change.connection(), scope, &[id]).await?.pop() else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, id.get()).await);
    };
    check(order.version)?;
    let status = order.state.status;
    if !status.is_editable() && status != Status::Canceled {
        return Err(wrong_status(
            status,
            "an order is deleted while it is on hold or incorrect, or once it is canceled",
        ));
    }
    if was_handed_over(change.connection(), id).await? {
        return Err(wrong_status(status, "an order that was handed over to its warehouse is kept"));
    }
    invoice::discard(change.connection(), id).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "expedition.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM expedition WHERE id = $9 RETURNING id, organisation_id, eshop_id, version, status
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, eshop_id, version, deleted_by)
             SELECT $7, id, organisation_id, eshop_id, version, $3 FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('orderNumber', jsonb_build_array($10::text, NULL)) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        id.get(),
        order.order_number,
    )
    .await?;
    change.note(recorded);
    change.answer(context.claim, Answer::done()).await
}

/// Whether its warehouse has ever reported on it, or it was ever handed over.
async fn was_handed_over(connection: &mut PgConnection, id: ExpeditionId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM audit
               WHERE entity_type = $2 AND entity_id = $1 AND action IN ('expedition.status', 'expedition.news'))
               OR EXISTS (SELECT FROM expedition_handover WHERE id = $1) AS "was!""#,
        id.get(),
        ENTITY,
    )
    .fetch_one(connection)
    .await
}
