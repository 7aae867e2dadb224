//! Packaging options: the values of `packagingType` of a product besides `A` (`docs/reference/products.md#packaging-options`).
//! The operator defines them, and all callers can read them.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::list::fields::packaging::PACKAGING_OPTION;
use crate::record::{Editable, FieldChange, Judged, Unique, changes_json};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::input::text;
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;

record_fields! {
    /// A packaging option as it is stored.
    PackagingOption
    /// What a body gives of a packaging option.
    PackagingOptionFields
    {
        /// What products name it by; unique.
        code, "code": Option<String> => String, text(1..=255);
        /// Name.
        name, "name": Option<String> => String, text(1..=255);
    }
}

impl Editable for PackagingOption {
    const RESOURCE: &'static crate::list::resource::Resource = &PACKAGING_OPTION;
    const PATH: &'static str = "/api/packaging-option";
    const ENTITY: &'static str = "packaging_option";
    const REQUIRED: &'static [&'static str] = &["code", "name"];
    const UNIQUE: &'static [Unique] = &[Unique {
        constraint: "packaging_option_code_is_unique",
        field: "code",
        within: &[],
        message: "belongs to another packaging option",
    }];

    fn blank(id: Uuid) -> Self {
        Self { id, ..Self::default() }
    }

    async fn lock(connection: &mut PgConnection, _: &Scope, id: Uuid) -> Result<Option<Self>, sqlx::Error> {
        sqlx::query_as!(
            Self,
            "SELECT id, code, name, version FROM packaging_option WHERE id = $1 FOR NO KEY UPDATE",
            id,
        )
        .fetch_optional(connection)
        .await
    }

    async fn judge(_: &mut PgConnection, _: Judged<'_, Self>) -> Result<Vec<Violation>, Problem> {
        Ok(Vec::new())
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
                 INSERT INTO packaging_option AS p (id, code, name) VALUES ($9, $10, $11)
                 ON CONFLICT (id) DO UPDATE
                 SET code = excluded.code, name = excluded.name,
                     version = p.version + 1
                 RETURNING id, version, changed_at
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, NULL::uuid AS organisation, '{}'::uuid[] AS eshops, $12::jsonb AS changes,
                        '{}'::jsonb AS data
                 FROM written
             )",
            self.id,
            self.code,
            self.name,
            changes_json(changes),
        )
        .await
    }
}
