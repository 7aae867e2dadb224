//! Product services: optional features that are activated for a product
//! (`docs/reference/products.md#product-services`).

use uuid::Uuid;

use super::{ENTITY, EVENT};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Every product service.
pub const SERVICES: &[&str] = &["inbound_localisation_check"];

/// Switches a service of a product on or off; nothing changes where it is so already. There must be such a
/// product and such a service.
pub async fn set_service(
    services: &Services,
    context: &Context,
    id: Uuid,
    service: &str,
    is_on: bool,
) -> Result<Answer, Problem> {
    if !SERVICES.contains(&service) {
        return Err(Problem::not_found("product service"));
    }
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    let found = sqlx::query_scalar!(
        "SELECT id FROM product WHERE in_scope($1, organisation_id) AND id = $2
         FOR NO KEY UPDATE",
        scope.organisations() as Option<&[OrganisationId]>,
        id,
    )
    .fetch_optional(change.connection())
    .await?;
    if found.is_none() {
        return Err(Problem::not_found(ENTITY));
    }
    let recorded = record_change!(
        change.connection(),
        context.origin,
        if is_on { "product.service_on" } else { "product.service_off" },
        ENTITY,
        Some(EVENT),
        "WITH old AS MATERIALIZED (
             SELECT id, services FROM product WHERE id = $9
         ), written AS (
             UPDATE product p
             SET services = CASE WHEN $11 THEN array_append(p.services, $10::text)
                                 ELSE array_remove(p.services, $10::text) END,
                 version = p.version + 1
             FROM old
             WHERE p.id = old.id AND ($10::text = ANY (old.services)) <> $11
             RETURNING p.id, p.version, p.changed_at, p.organisation_id, p.product_sku, p.services, old.services AS was
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = written.id) AS eshops,
                    jsonb_build_object('services', jsonb_build_array(to_jsonb(was), to_jsonb(services))) AS changes,
                    event_data(id, jsonb_build_object('organisation', organisation_id, 'productSku', product_sku),
                        '{services}', jsonb_build_object('services', services)) AS data
             FROM written
         )",
        id,
        service,
        is_on,
    )
    .await?;
    change.note(recorded);
    change.answer(context.claim, Answer::done()).await
}
