//! Carriers: the last step of shipping (`docs/reference/carriers.md#carrier`).
//!
//! The look-up by code goes through the same table of fields as the one by id. Attaching and detaching organisations is
//! all or nothing, and idempotent: what is so already stays so.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::account::belonging::{Belonging, strangers};
use crate::list::fields::carrier::CARRIER;
use crate::record::{Editable, FieldChange, Judged, Unique, changes_json, settle_ids};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::country::country;
use longshore_kernel::input::{Reader, Rule, array, boolean, drafts, id, int32, text};
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Organisations that one request may name.
pub const MAX_ORGANISATIONS: usize = 10_000;
/// Countries that a carrier may operate in: there are fewer.
pub const MAX_COUNTRIES: usize = 300;

record_fields! {
    /// A carrier as it is stored.
    Carrier
    /// What a body gives of a carrier.
    CarrierFields
    {
        /// Name.
        name, "name": Option<String> => String, text(1..=255);
        /// Code; unique.
        code, "code": Option<i32> => i32, int32(0..=i32::MAX);
        /// Organisations that may use it, sorted, each once.
        organisations, "organisations": Option<Vec<Uuid>> => Vec<Uuid>, drafts(0..=MAX_ORGANISATIONS, id());
        /// ISO 3166-1 alpha-2, as they came.
        countries_of_operation, "countriesOfOperation": Option<Vec<String>> => Vec<String>,
            array(0..=MAX_COUNTRIES, country());
        /// Whether it is active.
        active, "active": Option<bool> => bool, boolean();
    }
}

impl Editable for Carrier {
    const RESOURCE: &'static crate::list::resource::Resource = &CARRIER;
    const PATH: &'static str = "/api/carrier";
    const ENTITY: &'static str = "carrier";
    const REQUIRED: &'static [&'static str] = &["name", "code"];
    const UNIQUE: &'static [Unique] = &[Unique {
        constraint: "carrier_code_is_unique",
        field: "code",
        within: &[],
        message: "belongs to another carrier",
    }];

    fn blank(id: Uuid) -> Self {
        Self { id, active: true, ..Self::default() }
    }

    async fn lock(connection: &mut PgConnection, _: &Scope, id: Uuid) -> Result<Option<Self>, sqlx::Error> {
        // two steps: what is attached is read after it is locked
        sqlx::query!("SELECT FROM carrier WHERE id = $1 FOR NO KEY UPDATE", id)
            .execute(&mut *connection)
            .await?;
        sqlx::query_as!(
            Self,
            r#"SELECT id, name, code,
                      ARRAY(SELECT organisation_id FROM carrier_organisation WHERE carrier_id = carrier.id
                            ORDER BY organisation_id) AS "organisations!",
                      countries_of_operation, active, version
               FROM carrier WHERE id = $1"#,
            id,
        )
        .fetch_optional(connection)
        .await
    }

    async fn judge(
        connection: &mut PgConnection,
        Judged { given, .. }: Judged<'_, Self>,
    ) -> Result<Vec<Violation>, Problem> {
        let ids = given.organisations.as_deref().unwrap_or_default();
        Ok(strangers(connection, Belonging::Organisation, None, "organisations", ids).await?)
    }

    fn settle(given: &mut CarrierFields) {
        settle_ids(&mut given.organisations);
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
                 INSERT INTO carrier AS c (id, name, code, countries_of_operation, active)
                 VALUES ($9, $10, $11, $13, $14)
                 ON CONFLICT (id) DO UPDATE
                 SET name = excluded.name, code = excluded.code,
                     countries_of_operation = excluded.countries_of_operation, active = excluded.active,
                     version = c.version + 1
                 RETURNING id, version, changed_at
             ), detached AS (
                 DELETE FROM carrier_organisation WHERE carrier_id = $9 AND organisation_id <> ALL($12)
             ), attached AS (
                 INSERT INTO carrier_organisation (carrier_id, organisation_id) SELECT $9, unnest($12::uuid[])
                 ON CONFLICT DO NOTHING
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, NULL::uuid AS organisation, '{}'::uuid[] AS eshops, $15::jsonb AS changes,
                        '{}'::jsonb AS data
                 FROM written
             )",
            self.id,
            self.name,
            self.code,
            &self.organisations,
            &self.countries_of_operation,
            self.active,
            changes_json(changes),
        )
        .await
    }
}

/// The id of the carrier with that code, without a scope.
pub async fn id_of_code(services: &Services, code: &str) -> Result<Uuid, Problem> {
    if code.is_empty() || !code.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Problem::violation("code", "wrong_type", "must be an integer, written in digits"));
    }
    // more digits than a code can have are the code of no carrier
    let Ok(code) = code.parse::<i32>() else { return Err(Problem::not_found(CARRIER.name)) };
    sqlx::query_scalar!("SELECT id FROM carrier WHERE code = $1", code)
        .fetch_optional(&services.db.main)
        .await?
        .ok_or_else(|| Problem::not_found(CARRIER.name))
}

/// The body that names the organisations which may use a carrier, or no longer may.
pub fn organisations() -> impl Rule<Out = Vec<Uuid>> {
    drafts(1..=MAX_ORGANISATIONS, id())
}

/// Allows organisations to use a carrier, or no longer allows them.
pub async fn set_organisations(
    services: &Services,
    context: &Context,
    carrier: Uuid,
    body: Value,
    attach: bool,
) -> Result<Answer, Problem> {
    let (ids, refused) = Reader::draft(body, organisations());
    let mut change = Change::begin(services).await?;
    let Some(old) = Carrier::lock(change.connection(), context.scope(), carrier).await? else {
        return Err(Problem::not_found(CARRIER.name));
    };
    let unknown = strangers(change.connection(), Belonging::Organisation, None, "", &ids).await?;
    Problem::refuse(with_found(refused, unknown))?;
    let mut new = old.clone();
    if attach {
        new.organisations.extend(ids);
        new.organisations.sort_unstable();
        new.organisations.dedup();
    } else {
        new.organisations.retain(|id| !ids.contains(id));
    }
    if new.organisations != old.organisations {
        let (action, was, becomes) = (
            if attach { "carrier.organisation_add" } else { "carrier.organisation_remove" },
            json!(old.organisations),
            json!(new.organisations),
        );
        let changes = [FieldChange { field: "organisations", old: was, new: becomes }];
        let recorded = new.write(change.connection(), &context.origin, action, &changes).await?;
        change.note(recorded);
    }
    change.answer(context.claim, Answer::done()).await
}
