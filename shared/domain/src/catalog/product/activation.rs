//! Activating and deactivating a product (`docs/reference/products.md#activation`).

use sqlx::PgConnection;
use uuid::Uuid;

use super::{ENTITY, EVENT};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded, hand_over};
use longshore_kernel::context::Context;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Switches one product on or off.
///
/// It takes an acceptance number when it arrives, before it waits for any lock, and writes only if the stored one is older:
/// the latest acceptance wins, regardless of the order of execution. A product that is as it should be remembers the
/// number, and no more.
pub async fn set_active(
    services: &Services,
    context: &Context,
    id: Uuid,
    active: bool,
) -> Result<Answer, Problem> {
    let recorded = write(&mut *services.db.main.acquire().await?, context, id, active).await?;
    if recorded.changed == 0 && !exists(services, context, id).await? {
        return Err(Problem::not_found(ENTITY));
    }
    hand_over(services, recorded.lanes);
    Ok(Answer::done())
}

/// The same, unless `check` refuses the version. The product is locked in between.
pub async fn set_active_if(
    services: &Services,
    context: &Context,
    id: Uuid,
    active: bool,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let version = sqlx::query_scalar!(
        "SELECT version FROM product
         WHERE id = $3 AND in_scope($1, organisation_id)
           AND ($2::uuid IS NULL OR EXISTS (SELECT FROM product_eshop WHERE product_id = product.id AND eshop_id = $2))
         FOR NO KEY UPDATE",
        context.scope().organisations() as Option<&[OrganisationId]>,
        context.scope().eshop() as Option<EshopId>,
        id,
    )
    .fetch_optional(change.connection())
    .await?;
    check(version.ok_or_else(|| Problem::not_found(ENTITY))?)?;
    let recorded = write(change.connection(), context, id, active).await?;
    change.note(recorded);
    change.commit().await?;
    Ok(Answer::done())
}

async fn write(
    connection: &mut PgConnection,
    context: &Context,
    id: Uuid,
    active: bool,
) -> Result<Recorded, sqlx::Error> {
    record_change!(
        connection,
        context.origin,
        if active { "product.activate" } else { "product.deactivate" },
        ENTITY,
        Some(EVENT),
        "WITH accepted AS MATERIALIZED (
             SELECT nextval('acceptance') AS number
         ), found AS MATERIALIZED (
             SELECT id, active, number FROM product, accepted
             WHERE id = $11 AND in_scope($9, organisation_id)
               AND ($10::uuid IS NULL
                    OR EXISTS (SELECT FROM product_eshop WHERE product_id = product.id AND eshop_id = $10))
             FOR NO KEY UPDATE OF product
         ), written AS (
             UPDATE product p
             SET active = $12, active_acceptance = found.number,
                 version = CASE WHEN p.active = $12 THEN p.version ELSE p.version + 1 END
             FROM found
             WHERE p.id = found.id AND p.active_acceptance < found.number
             RETURNING p.id, p.version, p.changed_at, p.organisation_id, p.product_sku, found.active AS was
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = written.id) AS eshops,
                    jsonb_build_object('active', jsonb_build_array(was, $12)) AS changes,
                    event_data(id, jsonb_build_object('organisation', organisation_id, 'productSku', product_sku),
                        '{active}', jsonb_build_object('active', $12)) AS data
             FROM written WHERE was <> $12
         )",
        context.scope().organisations() as Option<&[OrganisationId]>,
        context.scope().eshop() as Option<EshopId>,
        id,
        active,
    )
    .await
}

async fn exists(services: &Services, context: &Context, id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM product
               WHERE id = $3 AND in_scope($1, organisation_id)
                 AND ($2::uuid IS NULL
                      OR EXISTS (SELECT FROM product_eshop WHERE product_id = product.id AND eshop_id = $2))
           ) AS "exists!""#,
        context.scope().organisations() as Option<&[OrganisationId]>,
        context.scope().eshop() as Option<EshopId>,
        id,
    )
    .fetch_one(&services.db.main)
    .await
}
