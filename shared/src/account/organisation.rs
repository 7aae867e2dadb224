//! Organisations: the tenants (specification, part 2).

pub mod fields;

use uuid::Uuid;

use crate::platform::change::hand_over;
use crate::platform::context::Origin;
use crate::platform::ids;
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::record_change;

/// What a new organisation is to be.
#[derive(Clone, Debug, Default)]
pub struct NewOrganisation {
    /// Name.
    pub name: String,
    /// Registration number.
    pub registration_number: String,
    /// VAT number.
    pub vat_number: String,
    /// Address in three lines.
    pub address: [String; 3],
    /// Primary country, two letters.
    pub primary_country: String,
    /// Organisation code.
    pub code: Option<String>,
}

/// Creates an organisation; answers its id.
pub async fn create(services: &Services, origin: &Origin, new: &NewOrganisation) -> Result<Uuid, Problem> {
    let id = ids::new_id();
    let recorded = record_change!(
        &services.db.main,
        origin,
        "organisation.create",
        "organisation",
        "organization_change",
        "WITH made AS (
             INSERT INTO organisation (id, name, registration_number, vat_number, address_line1, address_line2,
                 address_line3, primary_country, owners, active, code, automatic_exchange_enabled,
                 ignore_address_validation)
             VALUES ($9, $10, $11, $12, $13, $14, $15, $16, '{}', true, $17, false, false)
             RETURNING id, name, registration_number, vat_number, primary_country, code
         ), changed AS (
             SELECT id AS entity, id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object(
                        'name', jsonb_build_array(NULL, name),
                        'registrationNumber', jsonb_build_array(NULL, registration_number),
                        'vatNumber', jsonb_build_array(NULL, vat_number),
                        'primaryCountry', jsonb_build_array(NULL, primary_country),
                        'code', jsonb_build_array(NULL, code)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
        new.name,
        new.registration_number,
        new.vat_number,
        new.address[0],
        new.address[1],
        new.address[2],
        new.primary_country,
        new.code.as_deref(),
    )
    .await?;
    hand_over(services, recorded.lanes);
    Ok(id)
}
