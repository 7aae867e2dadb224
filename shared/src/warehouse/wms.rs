//! Wms: a virtual warehouse that tracks inventory in physical ones (specification, part 2).

pub mod fields;

use uuid::Uuid;

use crate::platform::context::Origin;
use crate::platform::ids;
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::record_change;

/// What a new wms is to be.
#[derive(Clone, Debug)]
pub struct NewWms {
    /// Its organisation.
    pub organisation: Uuid,
    /// Name.
    pub name: String,
    /// Distribution center; any uuid.
    pub distribution_center: Uuid,
    /// Store key.
    pub store_key: String,
    /// Internal identifier.
    pub internal_id: String,
}

/// Creates a wms; answers its id.
pub async fn create(services: &Services, origin: &Origin, new: &NewWms) -> Result<Uuid, Problem> {
    let id = ids::new_id();
    record_change!(
        &services.db.main,
        origin,
        "wms.create",
        "wms",
        "",
        "WITH made AS (
             INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
             VALUES ($9, $10, $11, $12, $13, $14)
             RETURNING *
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('name', jsonb_build_array(NULL, name),
                        'distributionCenter', jsonb_build_array(NULL, distribution_center),
                        'storeKey', jsonb_build_array(NULL, store_key),
                        'internalId', jsonb_build_array(NULL, internal_id)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
        new.organisation,
        new.name,
        new.distribution_center,
        new.store_key,
        new.internal_id,
    )
    .await?;
    Ok(id)
}
