//! Wms: a virtual warehouse that tracks inventory in physical ones (`docs/reference/warehouses.md#wms`).
//!
//! `organisation` never changes; every warehouse is one of the organisation. A wms cannot leave a warehouse whose default
//! it is. [`super::warehouse`] says what the two share.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::account::belonging::{Belonging, lock_places, owner, strangers};
use crate::list::fields::wms::WMS;
use crate::record::{self, Editable, FieldChange, Judged, changes_json, settle_ids};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::input::{drafts, id, text};
use longshore_kernel::problem::{Problem, Violation, refuses};
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Warehouses that a wms may work in.
pub const MAX_WAREHOUSES: usize = 1_000;

record_fields! {
    /// A wms as it is stored.
    Wms
    /// What a body gives of a wms.
    WmsFields
    {
        /// Whose it is; never changes.
        organisation, "organisation": Option<Uuid> => Uuid, id();
        /// Name.
        name, "name": Option<String> => String, text(1..=255);
        /// Distribution center; any uuid.
        distribution_center, "distributionCenter": Option<Uuid> => Uuid, id();
        /// Store key.
        store_key, "storeKey": Option<String> => String, text(0..=255);
        /// Internal identifier.
        internal_id, "internalId": Option<String> => String, text(0..=255);
        /// Warehouses it works in, sorted, each once.
        warehouses, "warehouses": Option<Vec<Uuid>> => Vec<Uuid>, drafts(0..=MAX_WAREHOUSES, id());
    }
}

impl Editable for Wms {
    const RESOURCE: &'static crate::list::resource::Resource = &WMS;
    const PATH: &'static str = "/api/wms";
    const ENTITY: &'static str = "wms";
    const REQUIRED: &'static [&'static str] =
        &["organisation", "name", "distributionCenter", "storeKey", "internalId"];

    fn blank(id: Uuid) -> Self {
        Self { id, ..Self::default() }
    }

    fn quota(&self) -> Option<(Kind, OrganisationId)> {
        Some((Kind::Wms, self.organisation.into()))
    }

    async fn lock(
        connection: &mut PgConnection,
        scope: &Scope,
        id: Uuid,
    ) -> Result<Option<Self>, sqlx::Error> {
        let organisation = sqlx::query_scalar!(
            "SELECT organisation_id FROM wms
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
            r#"SELECT id, organisation_id AS organisation, name, distribution_center, store_key, internal_id,
                      ARRAY(SELECT warehouse_id FROM warehouse_wms WHERE wms_id = wms.id
                            ORDER BY warehouse_id) AS "warehouses!",
                      version
               FROM wms WHERE id = $1 FOR NO KEY UPDATE"#,
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
            let ids = given.warehouses.as_deref().unwrap_or_default();
            violations.extend(
                strangers(connection, Belonging::Warehouse, Some(organisation), "warehouses", ids).await?,
            );
        }
        let is_judged = old.is_some() && !refuses(refused, "warehouses");
        if is_judged && is_default_elsewhere(connection, new).await? {
            let message = "must contain the warehouses that have it as their default wms";
            violations.push(Violation::new("warehouses", "not_allowed", message));
        }
        Ok(violations)
    }

    fn settle(given: &mut WmsFields) {
        settle_ids(&mut given.warehouses);
    }

    /// A wms that comes is shown by its organisation, whose version it raises.
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
                 INSERT INTO wms AS w (id, organisation_id, name, distribution_center, store_key, internal_id)
                 VALUES ($9, $10, $11, $12, $13, $14)
                 ON CONFLICT (id) DO UPDATE
                 SET name = excluded.name, distribution_center = excluded.distribution_center,
                     store_key = excluded.store_key, internal_id = excluded.internal_id,
                     version = w.version + 1
                 RETURNING id, version, changed_at, organisation_id, version = 1 AS is_new
             ), unlinked AS (
                 DELETE FROM warehouse_wms WHERE wms_id = $9 AND warehouse_id <> ALL($15) RETURNING warehouse_id
             ), linked AS (
                 INSERT INTO warehouse_wms (warehouse_id, wms_id) SELECT unnest($15::uuid[]), $9
                 ON CONFLICT DO NOTHING RETURNING warehouse_id
             ), touched AS (
                 UPDATE warehouse SET version = version + 1
                 WHERE id IN (SELECT warehouse_id FROM unlinked UNION ALL SELECT warehouse_id FROM linked)
             ), shown AS (
                 UPDATE organisation SET version = version + 1
                 WHERE id IN (SELECT organisation_id FROM written WHERE is_new)
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops, $16::jsonb AS changes,
                        '{}'::jsonb AS data
                 FROM written
             )",
            self.id,
            self.organisation,
            self.name,
            self.distribution_center,
            self.store_key,
            self.internal_id,
            &self.warehouses,
            changes_json(changes),
        )
        .await
    }
}

/// Whether a warehouse that the wms would leave has it as its default.
async fn is_default_elsewhere(connection: &mut PgConnection, wms: &Wms) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM warehouse
               WHERE organisation_id = $1 AND default_wms_id = $2 AND id <> ALL ($3)
           ) AS "exists!""#,
        wms.organisation,
        wms.id,
        &wms.warehouses,
    )
    .fetch_one(connection)
    .await
}

/// What a new wms is to be, in short.
#[derive(Clone, Debug)]
pub struct NewWms {
    /// Its organisation.
    pub organisation: OrganisationId,
    /// Name.
    pub name: String,
    /// Distribution center; any uuid.
    pub distribution_center: Uuid,
    /// Store key.
    pub store_key: String,
    /// Internal identifier.
    pub internal_id: String,
}

/// Creates a wms from within; returns its id.
pub async fn create(services: &Services, origin: &Origin, new: &NewWms) -> Result<Uuid, Problem> {
    let given = WmsFields {
        organisation: Some(new.organisation.get()),
        name: Some(new.name.clone()),
        distribution_center: Some(new.distribution_center),
        store_key: Some(new.store_key.clone()),
        internal_id: Some(new.internal_id.clone()),
        warehouses: None,
    };
    record::insert::<Wms>(services, origin, given).await
}
