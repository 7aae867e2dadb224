//! Warehouses: the physical ones (`docs/reference/warehouses.md#warehouse`).
//!
//! `organisation` never changes; every wms is one of the organisation, and `defaultWms` one of `wmses`. The wms of
//! warehouses are one relation with two sides: a change from one side also raises the version of the other.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::account::belonging::{Belonging, lock_places, owner, strangers};
use crate::list::fields::warehouse::WAREHOUSE;
use crate::record::{self, Editable, FieldChange, Judged, changes_json, settle_ids};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::input::{Given, drafts, id, text};
use longshore_kernel::problem::{Problem, Violation, refuses};
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Wms that may work in a warehouse.
pub const MAX_WMSES: usize = 1_000;

record_fields! {
    /// A warehouse as it is stored.
    Warehouse
    /// What a body gives of a warehouse.
    WarehouseFields
    {
        /// Whose it is; never changes.
        organisation, "organisation": Option<Uuid> => Uuid, id();
        /// Name.
        name, "name": Option<String> => String, text(1..=255);
        /// Custom identifier.
        custom_id, "customId": Option<String> => String, text(0..=255);
        /// Wms that work in it, sorted, each once.
        wmses, "wmses": Option<Vec<Uuid>> => Vec<Uuid>, drafts(0..=MAX_WMSES, id());
        /// Default wms; one of its wmses.
        default_wms, "defaultWms": Given<Uuid> => Option<Uuid>, id();
    }
}

impl Editable for Warehouse {
    const RESOURCE: &'static crate::list::resource::Resource = &WAREHOUSE;
    const PATH: &'static str = "/api/warehouse";
    const ENTITY: &'static str = "warehouse";
    const REQUIRED: &'static [&'static str] = &["organisation", "name", "customId"];

    fn blank(id: Uuid) -> Self {
        Self { id, ..Self::default() }
    }

    fn quota(&self) -> Option<(Kind, OrganisationId)> {
        Some((Kind::Warehouse, self.organisation.into()))
    }

    async fn lock(
        connection: &mut PgConnection,
        scope: &Scope,
        id: Uuid,
    ) -> Result<Option<Self>, sqlx::Error> {
        let organisation = sqlx::query_scalar!(
            "SELECT organisation_id FROM warehouse
             WHERE in_scope($1, organisation_id) AND id = $2",
            scope.organisations() as Option<&[OrganisationId]>,
            id,
        )
        .fetch_optional(&mut *connection)
        .await?;
        let Some(organisation) = organisation else { return Ok(None) };
        lock_places(connection, organisation.into()).await?;
        sqlx::query_as!(
            Self,
            r#"SELECT id, organisation_id AS organisation, name, custom_id, default_wms_id AS default_wms,
                      ARRAY(SELECT wms_id FROM warehouse_wms WHERE warehouse_id = warehouse.id
                            ORDER BY wms_id) AS "wmses!",
                      version
               FROM warehouse WHERE id = $1 FOR NO KEY UPDATE"#,
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
            lock_places(connection, organisation).await?;
            let ids = given.wmses.as_deref().unwrap_or_default();
            violations.extend(strangers(connection, Belonging::Wms, Some(organisation), "wmses", ids).await?);
        }
        let is_foreign = new.default_wms.is_some_and(|id| !new.wmses.contains(&id));
        if is_foreign && !refuses(refused, "wmses") {
            violations.push(Violation::new("defaultWms", "not_allowed", "must be one of the wmses"));
        }
        Ok(violations)
    }

    fn settle(given: &mut WarehouseFields) {
        settle_ids(&mut given.wmses);
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
                 INSERT INTO warehouse AS w (id, organisation_id, name, custom_id, default_wms_id)
                 VALUES ($9, $10, $11, $12, $14)
                 ON CONFLICT (id) DO UPDATE
                 SET name = excluded.name, custom_id = excluded.custom_id, default_wms_id = excluded.default_wms_id,
                     version = w.version + 1
                 RETURNING id, version, changed_at, organisation_id
             ), unlinked AS (
                 DELETE FROM warehouse_wms WHERE warehouse_id = $9 AND wms_id <> ALL($13) RETURNING wms_id
             ), linked AS (
                 INSERT INTO warehouse_wms (warehouse_id, wms_id) SELECT $9, unnest($13::uuid[])
                 ON CONFLICT DO NOTHING RETURNING wms_id
             ), touched AS (
                 UPDATE wms SET version = version + 1
                 WHERE id IN (SELECT wms_id FROM unlinked UNION ALL SELECT wms_id FROM linked)
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops, $15::jsonb AS changes,
                        '{}'::jsonb AS data
                 FROM written
             )",
            self.id,
            self.organisation,
            self.name,
            self.custom_id,
            &self.wmses,
            self.default_wms as Option<Uuid>,
            changes_json(changes),
        )
        .await
    }
}

/// What a new warehouse is to be, in short.
#[derive(Clone, Debug)]
pub struct NewWarehouse {
    /// Its organisation.
    pub organisation: OrganisationId,
    /// Name.
    pub name: String,
    /// Custom identifier.
    pub custom_id: String,
    /// Wms that work in it, all of its organisation; the first is its default.
    pub wmses: Vec<Uuid>,
}

/// Creates a warehouse from within; returns its id.
pub async fn create(services: &Services, origin: &Origin, new: &NewWarehouse) -> Result<Uuid, Problem> {
    let given = WarehouseFields {
        organisation: Some(new.organisation.get()),
        name: Some(new.name.clone()),
        custom_id: Some(new.custom_id.clone()),
        wmses: Some(new.wmses.clone()),
        default_wms: new.wmses.first().copied().map_or(Given::Absent, Given::Value),
    };
    record::insert::<Warehouse>(services, origin, given).await
}
