//! Carrier services: the shipping options of a carrier (`docs/reference/carriers.md#carrier-service`). `carrier` never
//! changes; `code` is unique in it.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::list::fields::service::CARRIER_SERVICE;
use crate::record::{Editable, FieldChange, Judged, Unique, changes_json, moved};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::input::{id, int32, text};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;

record_fields! {
    /// A carrier service as it is stored.
    CarrierService
    /// What a body gives of a carrier service.
    CarrierServiceFields
    {
        /// Its carrier; never changes.
        carrier, "carrier": Option<Uuid> => Uuid, id();
        /// Name.
        name, "name": Option<String> => String, text(1..=255);
        /// Code; unique in its carrier.
        code, "code": Option<i32> => i32, int32(0..=i32::MAX);
    }
}

impl Editable for CarrierService {
    const RESOURCE: &'static crate::list::resource::Resource = &CARRIER_SERVICE;
    const PATH: &'static str = "/api/carrier-service";
    const ENTITY: &'static str = "carrier_service";
    const REQUIRED: &'static [&'static str] = &["carrier", "name", "code"];
    const UNIQUE: &'static [Unique] = &[Unique {
        constraint: "carrier_service_code_is_unique_in_its_carrier",
        field: "code",
        within: &["carrier"],
        message: "belongs to another service of the carrier",
    }];

    fn blank(id: Uuid) -> Self {
        Self { id, ..Self::default() }
    }

    async fn lock(connection: &mut PgConnection, _: &Scope, id: Uuid) -> Result<Option<Self>, sqlx::Error> {
        sqlx::query_as!(
            Self,
            "SELECT id, carrier_id AS carrier, name, code, version FROM carrier_service WHERE id = $1
             FOR NO KEY UPDATE",
            id,
        )
        .fetch_optional(connection)
        .await
    }

    async fn judge(
        connection: &mut PgConnection,
        Judged { old, given, .. }: Judged<'_, Self>,
    ) -> Result<Vec<Violation>, Problem> {
        let violation = match (old, given.carrier) {
            (Some(old), carrier) => moved("carrier", carrier, old.carrier),
            (None, Some(carrier)) => {
                let is_there = sqlx::query_scalar!(
                    r#"SELECT EXISTS (SELECT FROM carrier WHERE id = $1) AS "is_there!""#,
                    carrier,
                )
                .fetch_one(connection)
                .await?;
                let message = "does not exist";
                (!is_there).then(|| Violation::new("carrier", "unknown_reference", message))
            }
            (None, None) => None,
        };
        Ok(violation.into_iter().collect())
    }

    /// A service that comes is shown by its carrier, whose version it raises.
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
                 INSERT INTO carrier_service AS s (id, carrier_id, name, code) VALUES ($9, $10, $11, $12)
                 ON CONFLICT (id) DO UPDATE
                 SET name = excluded.name, code = excluded.code,
                     version = s.version + 1
                 RETURNING id, version, changed_at, carrier_id, version = 1 AS is_new
             ), touched AS (
                 UPDATE carrier SET version = version + 1
                 WHERE id IN (SELECT carrier_id FROM written WHERE is_new)
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, NULL::uuid AS organisation, '{}'::uuid[] AS eshops, $13::jsonb AS changes,
                        '{}'::jsonb AS data
                 FROM written
             )",
            self.id,
            self.carrier,
            self.name,
            self.code,
            changes_json(changes),
        )
        .await
    }
}
