//! E-shops: products are sold in them, and webhooks belong to them (`docs/reference/organisations.md#e-shop`).
//!
//! `organisation` never changes; every warehouse is one of the organisation, and `defaultWarehouse` one of `warehouses`.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::belonging::{Belonging, owner, strangers};
use crate::list::fields::eshop::{ESHOP, INTEGRATION_TYPES};
use crate::record::{self, Editable, FieldChange, Judged, changes_json, settle_ids};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::input::{
    Given, Reader, Rule, Schema, array, boolean, custom, drafts, id, one_of, text,
};
use longshore_kernel::problem::{Problem, Violation, refuses};
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Warehouses that an e-shop may be served from.
pub const MAX_WAREHOUSES: usize = 1_000;
/// Partners that an e-shop may name.
pub const MAX_PARTNERS: usize = 100;

record_fields! {
    /// An e-shop as it is stored.
    Eshop
    /// What a body gives of an e-shop.
    EshopFields
    {
        /// Whose it is; never changes.
        organisation, "organisation": Option<Uuid> => Uuid, id();
        /// Name.
        name, "name": Option<String> => String, text(1..=255);
        /// Default warehouse; one of its warehouses.
        default_warehouse, "defaultWarehouse": Given<Uuid> => Option<Uuid>, id();
        /// Warehouses it is served from, sorted, each once.
        warehouses, "warehouses": Option<Vec<Uuid>> => Vec<Uuid>, drafts(0..=MAX_WAREHOUSES, id());
        /// Whether it is active.
        active, "active": Option<bool> => bool, boolean();
        /// Associated partners: objects, as they came.
        partners, "partners": Given<Value> => Option<Value>, partners();
        /// Sales channel identifier.
        sales_channel_id, "salesChannelId": Given<String> => Option<String>, text(0..=255);
        /// Whether expeditions wait for confirmation before processing.
        wait_before_processing, "waitBeforeProcessing": Option<bool> => bool, boolean();
        /// Whether they may be edited before processing.
        edit_before_processing, "editBeforeProcessing": Option<bool> => bool, boolean();
        /// Type of integration.
        integration_type, "integrationType": Given<String> => Option<String>, integration_type();
    }
}

fn integration_type() -> impl Rule<Out = String> {
    one_of(INTEGRATION_TYPES).then(|_, kind| Some(kind.to_owned()))
}

/// An array of objects that Postgres can hold.
fn partners() -> impl Rule<Out = Value> {
    let partner = custom(Schema::AnyObject, |reader: &mut Reader, value: Value| {
        if !value.is_object() {
            reader.wrong_type("an object", &value);
            return None;
        }
        if has_null_character(&value) {
            reader.refuse("invalid_character", "must not contain U+0000");
            return None;
        }
        Some(value)
    });
    array(0..=MAX_PARTNERS, partner).then(|_, partners| Some(Value::Array(partners)))
}

fn has_null_character(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_null_character),
        Value::Object(members) => members.iter().any(|(k, v)| k.contains('\0') || has_null_character(v)),
        _ => false,
    }
}

impl Editable for Eshop {
    const RESOURCE: &'static crate::list::resource::Resource = &ESHOP;
    const PATH: &'static str = "/api/eshop";
    const ENTITY: &'static str = "eshop";
    const REQUIRED: &'static [&'static str] = &["organisation", "name"];

    fn blank(id: Uuid) -> Self {
        Self { id, active: true, ..Self::default() }
    }

    fn quota(&self) -> Option<(Kind, OrganisationId)> {
        Some((Kind::Eshop, self.organisation.into()))
    }

    async fn lock(
        connection: &mut PgConnection,
        scope: &Scope,
        id: Uuid,
    ) -> Result<Option<Self>, sqlx::Error> {
        // two steps: the links are read after they are locked
        sqlx::query!(
            "SELECT FROM eshop WHERE in_scope($1, organisation_id) AND id = $2
             FOR NO KEY UPDATE",
            scope.organisations() as Option<&[OrganisationId]>,
            id,
        )
        .execute(&mut *connection)
        .await?;
        sqlx::query_as!(
            Self,
            r#"SELECT id, organisation_id AS organisation, name, default_warehouse_id AS default_warehouse,
                      ARRAY(SELECT warehouse_id FROM eshop_warehouse WHERE eshop_id = eshop.id
                            ORDER BY warehouse_id) AS "warehouses!",
                      active, partners, sales_channel_id, wait_before_processing, edit_before_processing,
                      integration_type, version
               FROM eshop
               WHERE in_scope($1, organisation_id) AND in_eshop($2, id)
                 AND id = $3"#,
            scope.organisations() as Option<&[OrganisationId]>,
            scope.eshop() as Option<EshopId>,
            id,
        )
        .fetch_optional(connection)
        .await
    }

    async fn judge(
        connection: &mut PgConnection,
        Judged { new, old, given, scope, refused }: Judged<'_, Self>,
    ) -> Result<Vec<Violation>, Problem> {
        let stored = old.map(|old| old.organisation);
        let (organisation, mut violations) = owner(connection, scope, stored, given.organisation).await?;
        if let Some(organisation) = organisation {
            let ids = given.warehouses.as_deref().unwrap_or_default();
            violations.extend(
                strangers(connection, Belonging::Warehouse, Some(organisation), "warehouses", ids).await?,
            );
        }
        let is_foreign = new.default_warehouse.is_some_and(|id| !new.warehouses.contains(&id));
        if is_foreign && !refuses(refused, "warehouses") {
            let message = "must be one of the warehouses";
            violations.push(Violation::new("defaultWarehouse", "not_allowed", message));
        }
        Ok(violations)
    }

    fn settle(given: &mut EshopFields) {
        settle_ids(&mut given.warehouses);
    }

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
            None,
            "WITH written AS (
                 INSERT INTO eshop AS e (id, organisation_id, name, default_warehouse_id, active, partners,
                     sales_channel_id, wait_before_processing, edit_before_processing, integration_type)
                 VALUES ($9, $10, $11, $12, $14, $15, $16, $17, $18, $19)
                 ON CONFLICT (id) DO UPDATE
                 SET name = excluded.name, default_warehouse_id = excluded.default_warehouse_id,
                     active = excluded.active, partners = excluded.partners,
                     sales_channel_id = excluded.sales_channel_id,
                     wait_before_processing = excluded.wait_before_processing,
                     edit_before_processing = excluded.edit_before_processing,
                     integration_type = excluded.integration_type,
                     version = e.version + 1
                 RETURNING id, version, changed_at, organisation_id
             ), unlinked AS (
                 DELETE FROM eshop_warehouse WHERE eshop_id = $9 AND warehouse_id <> ALL($13)
             ), linked AS (
                 INSERT INTO eshop_warehouse (eshop_id, warehouse_id) SELECT $9, unnest($13::uuid[])
                 ON CONFLICT DO NOTHING
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops, $20::jsonb AS changes,
                        '{}'::jsonb AS data
                 FROM written
             )",
            self.id,
            self.organisation,
            self.name,
            self.default_warehouse as Option<Uuid>,
            &self.warehouses,
            self.active,
            self.partners.clone() as Option<Value>,
            self.sales_channel_id.as_deref() as Option<&str>,
            self.wait_before_processing,
            self.edit_before_processing,
            self.integration_type.as_deref() as Option<&str>,
            changes_json(changes),
        )
        .await
    }
}

/// What a new e-shop is to be, in short.
#[derive(Clone, Debug)]
pub struct NewEshop {
    /// Its organisation.
    pub organisation: OrganisationId,
    /// Name.
    pub name: String,
    /// Warehouses it is served from, all of its organisation; the first is its default.
    pub warehouses: Vec<Uuid>,
}

/// Creates an e-shop from within; returns its id.
pub async fn create(services: &Services, origin: &Origin, new: &NewEshop) -> Result<EshopId, Problem> {
    let given = EshopFields {
        organisation: Some(new.organisation.get()),
        name: Some(new.name.clone()),
        default_warehouse: new.warehouses.first().copied().map_or(Given::Absent, Given::Value),
        warehouses: Some(new.warehouses.clone()),
        ..EshopFields::default()
    };
    record::insert::<Eshop>(services, origin, given).await.map(EshopId::from)
}
