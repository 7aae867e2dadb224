//! Warehouses: the physical ones (specification, part 2).

pub mod fields;

use uuid::Uuid;

use crate::platform::context::Origin;
use crate::platform::ids;
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::record_change;

/// What a new warehouse is to be.
#[derive(Clone, Debug)]
pub struct NewWarehouse {
    /// Its organisation.
    pub organisation: Uuid,
    /// Name.
    pub name: String,
    /// Custom identifier.
    pub custom_id: String,
    /// Wms that work in it, all of its organisation; the first is its default.
    pub wmses: Vec<Uuid>,
}

/// Creates a warehouse; answers its id.
pub async fn create(services: &Services, origin: &Origin, new: &NewWarehouse) -> Result<Uuid, Problem> {
    let known = sqlx::query_scalar!(
        r#"SELECT count(*) AS "known!" FROM wms WHERE organisation_id = $1 AND id = ANY($2)"#,
        new.organisation,
        &new.wmses,
    )
    .fetch_one(&services.db.main)
    .await?;
    if usize::try_from(known).ok() != Some(new.wmses.len()) {
        return Err(Problem::violation("wmses", "unknown_reference", "must be wms of the organisation"));
    }
    let id = ids::new_id();
    record_change!(
        &services.db.main,
        origin,
        "warehouse.create",
        "warehouse",
        "",
        "WITH made AS (
             INSERT INTO warehouse (id, organisation_id, name, custom_id, default_wms_id)
             VALUES ($9, $10, $11, $12, $14)
             RETURNING *
         ), linked AS (
             INSERT INTO warehouse_wms (warehouse_id, wms_id) SELECT $9, unnest($13::uuid[])
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('name', jsonb_build_array(NULL, name),
                        'customId', jsonb_build_array(NULL, custom_id),
                        'wmses', jsonb_build_array(NULL, to_jsonb($13::uuid[]))) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
        new.organisation,
        new.name,
        new.custom_id,
        &new.wmses,
        new.wmses.first().copied() as Option<Uuid>,
    )
    .await?;
    Ok(id)
}
