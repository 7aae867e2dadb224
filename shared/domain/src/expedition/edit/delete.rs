//! Deleting an order.

use std::collections::HashSet;

use sqlx::PgConnection;

use crate::expedition::decision::wrong_status;
use crate::expedition::invoice;
use crate::expedition::order::{self, Doubt};
use crate::expedition::write::ENTITY;
use crate::list::fields::event::EXPEDITION_DELETED;
use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// What is done first of an order that its warehouse may have since a set-back.
const IN_DOUBT: &str = "its warehouse may have it since the database was set back; cancel it first (PUT …/cancel), which asks the warehouse";

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
    if order.state.doubt != Doubt::None {
        return Err(wrong_status(status, IN_DOUBT));
    }
    if !kept(change.connection(), &[id]).await?.is_empty() {
        return Err(wrong_status(status, "an order that was handed over to its warehouse is kept"));
    }
    if !status.is_editable() && status != Status::Canceled {
        return Err(wrong_status(status, "hold or cancel it first"));
    }
    invoice::discard(change.connection(), id).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "expedition.delete",
        ENTITY,
        Some(EXPEDITION_DELETED),
        "WITH handed AS (
             DELETE FROM expedition_handover WHERE id = $9
         ), made AS (
             DELETE FROM expedition WHERE id = $9 RETURNING id, organisation_id, eshop_id, version, changed_at
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, eshop_id, version, deleted_by)
             SELECT $7, id, organisation_id, eshop_id, version, $3 FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, ARRAY[eshop_id] AS eshops,
                    jsonb_build_object('orderNumber', jsonb_build_array($10::text, NULL)) AS changes,
                    jsonb_build_object('id', id, 'organisation', organisation_id, 'eshop', eshop_id, 'orderNumber', $10::text,
                        'externalId', $11::text) AS data,
                    -- above all that was told of it, as another change would be
                    greatest(version, version_floor()) + 1 AS version, greatest(clock_timestamp(), changed_at + interval '1 microsecond') AS at
             FROM made
         )",
        id.get(),
        order.order_number,
        order.external_id,
    )
    .await?;
    change.note(recorded);
    change.answer(context.claim, Answer::done()).await
}

/// Orders that are never deleted: their warehouse has reported on them, or they were handed over.
pub(in crate::expedition) async fn kept(
    connection: &mut PgConnection,
    orders: &[ExpeditionId],
) -> Result<HashSet<ExpeditionId>, sqlx::Error> {
    if orders.is_empty() {
        return Ok(HashSet::new());
    }
    let kept = sqlx::query_scalar!(
        // each by its key, independent of the statistics
        r#"SELECT g.id AS "id!: ExpeditionId"
           FROM unnest($1::uuid[]) AS g (id)
           CROSS JOIN LATERAL (
               SELECT EXISTS (
                   SELECT FROM audit
                   WHERE entity_type = $2 AND entity_id = g.id
                     AND (action IN ('expedition.status', 'expedition.news') OR changes -> 'handover' ->> 0 = 'sending'))
                   -- one that was in doubt, and that no call is known of, was asked back by the floor of a set-back
                   OR EXISTS (SELECT FROM expedition_handover
                              WHERE id = g.id AND (handover_state IS DISTINCT FROM 'withdrawn' OR handover_number <> handover_floor()))
                   AS is_kept
           ) AS k
           WHERE k.is_kept"#,
        orders as &[ExpeditionId],
        ENTITY,
    )
    .fetch_all(connection)
    .await?;
    Ok(kept.into_iter().collect())
}
