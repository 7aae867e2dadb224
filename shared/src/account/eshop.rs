//! E-shops: what products are sold in, and what webhooks are bound to (specification, part 2).

pub mod fields;

use uuid::Uuid;

use crate::platform::context::Origin;
use crate::platform::ids;
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::record_change;

/// What a new e-shop is to be.
#[derive(Clone, Debug)]
pub struct NewEshop {
    /// Its organisation.
    pub organisation: Uuid,
    /// Name.
    pub name: String,
    /// Warehouses it is served from, all of its organisation; the first is its default.
    pub warehouses: Vec<Uuid>,
}

/// Creates an e-shop; answers its id.
pub async fn create(services: &Services, origin: &Origin, new: &NewEshop) -> Result<Uuid, Problem> {
    let known = sqlx::query_scalar!(
        r#"SELECT count(*) AS "known!" FROM warehouse WHERE organisation_id = $1 AND id = ANY($2)"#,
        new.organisation,
        &new.warehouses,
    )
    .fetch_one(&services.db.main)
    .await?;
    if usize::try_from(known).ok() != Some(new.warehouses.len()) {
        return Err(Problem::violation(
            "warehouses",
            "unknown_reference",
            "must be warehouses of the organisation",
        ));
    }
    let id = ids::new_id();
    record_change!(
        &services.db.main,
        origin,
        "eshop.create",
        "eshop",
        "",
        "WITH made AS (
             INSERT INTO eshop (id, organisation_id, name, default_warehouse_id, active, wait_before_processing,
                 edit_before_processing)
             VALUES ($9, $10, $11, $13, true, false, false)
             RETURNING id, organisation_id, name
         ), linked AS (
             INSERT INTO eshop_warehouse (eshop_id, warehouse_id) SELECT $9, unnest($12::uuid[])
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('name', jsonb_build_array(NULL, name),
                        'warehouses', jsonb_build_array(NULL, to_jsonb($12::uuid[]))) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
        new.organisation,
        new.name,
        &new.warehouses,
        new.warehouses.first().copied() as Option<Uuid>,
    )
    .await?;
    Ok(id)
}
