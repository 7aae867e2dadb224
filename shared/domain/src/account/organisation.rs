//! Organisations: the tenants (`docs/reference/organisations.md#organisation`). Only the operator creates and changes them.
//!
//! A create requires `name` and `primaryCountry`; other texts that are left out are empty.

use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::list::fields::event::ORGANIZATION_CHANGE;
use crate::list::fields::organisation::ORGANISATION;
use crate::record::{self, Editable, FieldChange, Judged, changes_json, event_data};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::country::country;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::input::{Given, array, boolean, id, int32, text};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Owners that an organisation may have.
pub const MAX_OWNERS: usize = 1_000;
/// The longest stock advice close interval, in days: a hundred years.
pub const MAX_CLOSE_INTERVAL: i32 = 36_500;

record_fields! {
    /// An organisation as it is stored.
    Organisation
    /// What a body gives of an organisation.
    OrganisationFields
    {
        /// Name.
        name, "name": Option<String> => String, text(1..=255);
        /// Registration number.
        registration_number, "registrationNumber": Option<String> => String, text(0..=255);
        /// VAT number.
        vat_number, "vatNumber": Option<String> => String, text(0..=255);
        /// Address, first line.
        address_line1, "addressLine1": Option<String> => String, text(0..=255);
        /// Address, second line.
        address_line2, "addressLine2": Option<String> => String, text(0..=255);
        /// Address, third line.
        address_line3, "addressLine3": Option<String> => String, text(0..=255);
        /// ISO 3166-1 alpha-2.
        primary_country, "primaryCountry": Option<String> => String, country();
        /// Owner; any uuid.
        owner, "owner": Given<Uuid> => Option<Uuid>, id();
        /// Owners; any uuids, as they came.
        owners, "owners": Option<Vec<Uuid>> => Vec<Uuid>, array(0..=MAX_OWNERS, id());
        /// Whether it is active.
        active, "active": Option<bool> => bool, boolean();
        /// Organisation code.
        code, "code": Given<String> => Option<String>, text(0..=255);
        /// Whether automatic exchange is enabled.
        automatic_exchange_enabled, "automaticExchangeEnabled": Option<bool> => bool, boolean();
        /// Whether address validation is ignored.
        ignore_address_validation, "ignoreAddressValidation": Option<bool> => bool, boolean();
        /// Days.
        stock_advice_close_interval, "stockAdviceCloseInterval": Given<i32> => Option<i32>,
            int32(0..=MAX_CLOSE_INTERVAL);
    }
}

impl Editable for Organisation {
    const RESOURCE: &'static crate::list::resource::Resource = &ORGANISATION;
    const PATH: &'static str = "/api/organisation";
    const ENTITY: &'static str = "organisation";
    const REQUIRED: &'static [&'static str] = &["name", "primaryCountry"];

    fn blank(id: Uuid) -> Self {
        Self { id, active: true, ..Self::default() }
    }

    async fn lock(
        connection: &mut PgConnection,
        scope: &Scope,
        id: Uuid,
    ) -> Result<Option<Self>, sqlx::Error> {
        sqlx::query_as!(
            Self,
            "SELECT id, name, registration_number, vat_number, address_line1, address_line2, address_line3,
                    primary_country, owner, owners, active, code, automatic_exchange_enabled,
                    ignore_address_validation, stock_advice_close_interval, version
             FROM organisation WHERE in_scope($1, id) AND id = $2
             FOR NO KEY UPDATE",
            scope.organisations() as Option<&[OrganisationId]>,
            id,
        )
        .fetch_optional(connection)
        .await
    }

    async fn judge(_: &mut PgConnection, _: Judged<'_, Self>) -> Result<Vec<Violation>, Problem> {
        Ok(Vec::new())
    }

    /// The webhooks of all its e-shops hear of it (`docs/reference/webhooks.md#events`).
    async fn write(
        &self,
        connection: &mut PgConnection,
        origin: &Origin,
        action: &str,
        changes: &[FieldChange],
    ) -> Result<Recorded, sqlx::Error> {
        record_change!(
            connection,
            origin,
            action,
            Self::ENTITY,
            Some(ORGANIZATION_CHANGE),
            "WITH written AS (
                 INSERT INTO organisation AS o (id, name, registration_number, vat_number, address_line1,
                     address_line2, address_line3, primary_country, owner, owners, active, code,
                     automatic_exchange_enabled, ignore_address_validation, stock_advice_close_interval)
                 VALUES ($9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
                 ON CONFLICT (id) DO UPDATE
                 SET name = excluded.name, registration_number = excluded.registration_number,
                     vat_number = excluded.vat_number, address_line1 = excluded.address_line1,
                     address_line2 = excluded.address_line2, address_line3 = excluded.address_line3,
                     primary_country = excluded.primary_country, owner = excluded.owner, owners = excluded.owners,
                     active = excluded.active, code = excluded.code,
                     automatic_exchange_enabled = excluded.automatic_exchange_enabled,
                     ignore_address_validation = excluded.ignore_address_validation,
                     stock_advice_close_interval = excluded.stock_advice_close_interval,
                     version = o.version + 1
                 RETURNING id, version, changed_at
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, id AS organisation,
                        ARRAY(SELECT e.id FROM eshop e WHERE e.organisation_id = written.id) AS eshops,
                        $24::jsonb AS changes, $25::jsonb AS data
                 FROM written
             )",
            self.id,
            self.name,
            self.registration_number,
            self.vat_number,
            self.address_line1,
            self.address_line2,
            self.address_line3,
            self.primary_country,
            self.owner as Option<Uuid>,
            &self.owners,
            self.active,
            self.code.as_deref() as Option<&str>,
            self.automatic_exchange_enabled,
            self.ignore_address_validation,
            self.stock_advice_close_interval as Option<i32>,
            changes_json(changes),
            event_data(self.id, &[("name", json!(self.name))], changes, Vec::new()),
        )
        .await
    }
}

/// What a new organisation is to be, in short: the rest is as a create would leave it.
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

/// Creates an organisation from within; returns its id.
pub async fn create(
    services: &Services,
    origin: &Origin,
    new: &NewOrganisation,
) -> Result<OrganisationId, Problem> {
    let [line1, line2, line3] = new.address.clone();
    let given = OrganisationFields {
        name: Some(new.name.clone()),
        registration_number: Some(new.registration_number.clone()),
        vat_number: Some(new.vat_number.clone()),
        address_line1: Some(line1),
        address_line2: Some(line2),
        address_line3: Some(line3),
        primary_country: Some(new.primary_country.clone()),
        code: new.code.clone().map_or(Given::Absent, Given::Value),
        ..OrganisationFields::default()
    };
    record::insert::<Organisation>(services, origin, given).await.map(OrganisationId::from)
}
