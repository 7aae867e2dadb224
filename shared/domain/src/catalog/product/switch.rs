//! Activating and deactivating many products (`docs/reference/jobs.md#bulk-operations`): one statement for a whole chunk.

use sqlx::PgConnection;

use super::{ENTITY, EVENT};
use crate::job::acceptance::{self, Taken};
use crate::job::chosen::{self, Bulk};
use crate::job::kind::{Job, Within};
use crate::job::payload::IDS_PER_CHUNK;
use crate::list::fields::product::PRODUCT;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{EshopId, OrganisationId, ProductId};
use longshore_kernel::input::Rule;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// How products are taken.
const TAKEN: Taken = Taken { per_chunk: IDS_PER_CHUNK, order: "{t}.id" };

/// The body of a bulk switch.
pub fn body() -> impl Rule<Out = Bulk> {
    chosen::bulk(acceptance::ids(), &PRODUCT)
}

/// Accepts a bulk switch; `job` is the constructor of its type. The job is of the organisations whose products it is about.
pub async fn accept<J: Job>(
    services: &Services,
    context: &Context,
    job: impl Fn(Within) -> J,
    bulk: impl Into<Bulk>,
) -> Result<Answer, Problem> {
    acceptance::accept(services, context, job, bulk.into(), TAKEN, organisations).await
}

/// Whose products these are, as far as the scope includes them. If no id is known, the job belongs to the whole scope of
/// the caller, and callers with a smaller scope do not see it. (A product never changes its organisation, so one look-up is
/// enough.)
async fn organisations(
    tx: &mut PgConnection,
    scope: &Scope,
    ids: &[ProductId],
) -> Result<Vec<OrganisationId>, sqlx::Error> {
    let within = scope.organisations();
    if let Some([only]) = within {
        return Ok(vec![*only]);
    }
    let found = sqlx::query_scalar!(
        // each by its key, as the first in the order of ids: other indexes have both columns, and are read whole
        r#"SELECT DISTINCT p.organisation_id AS "id: OrganisationId"
         FROM unnest($1::uuid[]) AS given (id) CROSS JOIN LATERAL (
             SELECT organisation_id FROM product WHERE id >= given.id AND id <= given.id ORDER BY id LIMIT 1
         ) p
         WHERE in_scope($2, p.organisation_id)"#,
        ids as &[ProductId],
        within as Option<&[OrganisationId]>,
    )
    .fetch_all(tx)
    .await?;
    Ok(if found.is_empty() { within.unwrap_or_default().to_vec() } else { found })
}

/// Which products, to what, and in whose name.
#[derive(Clone, Copy, Debug)]
pub struct Switch<'s> {
    /// The products; those outside the scope are left alone.
    pub ids: &'s [ProductId],
    /// What `active` becomes.
    pub active: bool,
    /// Number of the acceptance: a product that a later one has switched stays as it is.
    pub acceptance: i64,
    /// Organisations of the scope; absent: all.
    pub organisations: Option<&'s [OrganisationId]>,
    /// The one e-shop of the scope, where it is that narrow.
    pub eshop: Option<EshopId>,
}

/// Switches products. A product that is switched already only remembers the newer acceptance: no audit, no event.
pub async fn switch(
    tx: &mut PgConnection,
    origin: &Origin,
    wish: Switch<'_>,
) -> Result<Recorded, sqlx::Error> {
    record_change!(
        tx,
        origin,
        if wish.active { "product.activate" } else { "product.deactivate" },
        ENTITY,
        Some(EVENT),
        "WITH asked AS MATERIALIZED (
             SELECT DISTINCT id FROM unnest($9::uuid[]) AS a (id) ORDER BY id
         ), target AS MATERIALIZED (
             -- Each by itself, in the order of keys. Asked for by one condition, a row that somebody else has just changed is
             -- compared with all ids again: ten who switch the same ten thousand took half a minute each.
             SELECT p.id, p.active FROM asked CROSS JOIN LATERAL (
                 SELECT p.id, p.active FROM product p
                 WHERE p.id = asked.id AND p.active_acceptance < $11
                   AND in_scope($12, p.organisation_id)
                   AND ($13::uuid IS NULL
                        OR EXISTS (SELECT FROM product_eshop e WHERE e.product_id = p.id AND e.eshop_id = $13))
                 FOR UPDATE OF p
             ) p
         ), written AS (
             UPDATE product p
             SET active = $10, active_acceptance = $11,
                 version = CASE WHEN t.active = $10 THEN p.version ELSE p.version + 1 END
             FROM target t WHERE p.id = ANY (ARRAY[t.id])
             RETURNING p.id, p.version, p.changed_at, p.organisation_id, p.product_sku, t.active AS was
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation,
                    ARRAY(SELECT eshop_id FROM product_eshop e WHERE e.product_id = written.id) AS eshops,
                    jsonb_build_object('active', jsonb_build_array(was, $10)) AS changes,
                    event_data(id, jsonb_build_object('organisation', organisation_id, 'productSku', product_sku),
                        '{active}', jsonb_build_object('active', $10)) AS data
             FROM written WHERE was <> $10
         )",
        wish.ids as &[ProductId],
        wish.active,
        wish.acceptance,
        wish.organisations as Option<&[OrganisationId]>,
        wish.eshop as Option<EshopId>,
    )
    .await
}

/// Positions of ids that are no product of the scope.
pub async fn unknown(tx: &mut PgConnection, wish: Switch<'_>) -> Result<Vec<usize>, sqlx::Error> {
    let positions = sqlx::query_scalar!(
        r#"SELECT i.position AS "position!"
           FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, position)
           WHERE (SELECT true FROM product p
                  WHERE p.id >= i.id AND p.id <= i.id AND in_scope($2, p.organisation_id)
                    AND ($3::uuid IS NULL
                         OR EXISTS (SELECT FROM product_eshop e WHERE e.product_id = p.id AND e.eshop_id = $3))
                  ORDER BY p.id LIMIT 1) IS NULL
           ORDER BY i.position"#,
        wish.ids as &[ProductId],
        wish.organisations as Option<&[OrganisationId]>,
        wish.eshop as Option<EshopId>,
    )
    .fetch_all(tx)
    .await?;
    Ok(positions.into_iter().filter_map(|position| usize::try_from(position - 1).ok()).collect())
}
