//! Carrier preferences: by what carrier an order is shipped that is sent without one
//! (`docs/reference/carriers.md#carrier-preference`). `organisation` never changes; `position` is unique in the organisation and
//! e-shop, where no e-shop counts as one.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::account::belonging::owner;
use crate::list::fields::preference::CARRIER_PREFERENCE;
use crate::record::{Editable, FieldChange, Judged, Unique, changes_json};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::amount::amount;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::country::country;
use longshore_kernel::currency::currency;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::input::{Given, Object, Rule, array, boolean, id, int32, integer, object, text};
use longshore_kernel::problem::{Problem, Violation, refuses};
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Countries that a condition may name: there are fewer.
pub const MAX_COUNTRIES: usize = 300;
/// Ways of shipping that a condition may name.
pub const MAX_METHODS: usize = 100;
/// Grams that a condition may name.
pub const MAX_WEIGHT: i64 = 1_000_000_000_000;

record_fields! {
    /// A carrier preference as it is stored.
    CarrierPreference
    /// What a body gives of a carrier preference.
    CarrierPreferenceFields
    {
        /// Whose it is; never changes.
        organisation, "organisation": Option<Uuid> => Uuid, id();
        /// The e-shop whose orders it is for; absent: all of the organisation.
        eshop, "eshop": Given<Uuid> => Option<Uuid>, id();
        /// Its place among those of the same e-shop: the lowest is looked at first.
        position, "position": Option<i32> => i32, int32(0..=i32::MAX);
        /// Whether it is looked at.
        active, "active": Option<bool> => bool, boolean();
        /// The carrier.
        carrier, "carrier": Option<Uuid> => Uuid, id();
        /// A service of the carrier.
        carrier_service, "carrierService": Given<Uuid> => Option<Uuid>, id();
        /// What must be true of an order.
        conditions, "conditions": Option<Value> => Value, conditions();
    }
}

/// The conditions of a preference: those that are given, as they are stored.
pub fn conditions() -> impl Rule<Out = Value> + Clone {
    object(|object| {
        let countries = object.nullable("countries", array(1..=MAX_COUNTRIES, country())).value();
        let methods = object.nullable("deliveryMethods", array(1..=MAX_METHODS, text(1..=255))).value();
        let [min_weight, max_weight] = range(object, ["minWeight", "maxWeight"], integer(0..=MAX_WEIGHT));
        let [min_value, max_value] = range(object, ["minValue", "maxValue"], amount());
        let currency = object.nullable("currency", currency()).value();
        if (min_value.is_some() || max_value.is_some()) && currency.is_none() {
            object.refuse("currency", "required", "is required with minValue and maxValue");
        }
        let [cod, pickup_place, b2b] =
            ["cod", "pickupPlace", "b2b"].map(|name| object.nullable(name, boolean()).value());
        let given: [(&str, Value); 10] = [
            ("countries", json!(countries)),
            ("deliveryMethods", json!(methods)),
            ("minWeight", json!(min_weight)),
            ("maxWeight", json!(max_weight)),
            ("minValue", json!(min_value)),
            ("maxValue", json!(max_value)),
            ("currency", json!(currency)),
            ("cod", json!(cod)),
            ("pickupPlace", json!(pickup_place)),
            ("b2b", json!(b2b)),
        ];
        let given = given.into_iter().filter(|(_, value)| !value.is_null());
        Some(given.map(|(name, value)| (name.to_owned(), value)).collect())
    })
}

/// The two bounds of a condition; either may be absent.
fn range<R: Rule<Out: PartialOrd> + Clone>(
    object: &mut Object<'_>,
    [least, most]: [&'static str; 2],
    rule: R,
) -> [Option<R::Out>; 2] {
    let bounds = [object.nullable(least, rule.clone()).value(), object.nullable(most, rule).value()];
    if let [Some(from), Some(to)] = &bounds
        && from > to
    {
        object.refuse(most, "out_of_range", format!("must not be less than {least}"));
    }
    bounds
}

impl Editable for CarrierPreference {
    const RESOURCE: &'static crate::list::resource::Resource = &CARRIER_PREFERENCE;
    const PATH: &'static str = "/api/carrier-preference";
    const ENTITY: &'static str = "carrier_preference";
    const REQUIRED: &'static [&'static str] = &["organisation", "position", "carrier"];
    const UNIQUE: &'static [Unique] = &[Unique {
        constraint: "position_is_unique_in_the_organisation_and_eshop",
        field: "position",
        within: &["organisation", "eshop"],
        message: "belongs to another preference of the same e-shop",
    }];

    fn blank(id: Uuid) -> Self {
        Self { id, active: true, conditions: json!({}), ..Self::default() }
    }

    fn quota(&self) -> Option<(Kind, OrganisationId)> {
        Some((Kind::CarrierPreference, self.organisation.into()))
    }

    async fn lock(
        connection: &mut PgConnection,
        scope: &Scope,
        id: Uuid,
    ) -> Result<Option<Self>, sqlx::Error> {
        sqlx::query_as!(
            Self,
            "SELECT id, organisation_id AS organisation, eshop_id AS eshop, position, active, carrier_id AS carrier,
                    carrier_service_id AS carrier_service, conditions, version
             FROM carrier_preference
             WHERE in_scope($1, organisation_id) AND (eshop_id IS NULL OR in_eshop($2, eshop_id)) AND id = $3
             FOR NO KEY UPDATE",
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
        let Some(organisation) = organisation else { return Ok(violations) };
        let mut found = strangers(connection, organisation, new, old, given).await?;
        if refuses(refused, "carrier") {
            // its services are not known
            found.retain(|violation| violation.property_path != "carrierService");
        }
        violations.extend(found);
        Ok(violations)
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
                 INSERT INTO carrier_preference AS p (id, organisation_id, eshop_id, position, active, carrier_id, carrier_service_id,
                                                      conditions)
                 VALUES ($9, $10, $11, $12, $13, $14, $15, $16)
                 ON CONFLICT (id) DO UPDATE
                 SET eshop_id = excluded.eshop_id, position = excluded.position, active = excluded.active,
                     carrier_id = excluded.carrier_id, carrier_service_id = excluded.carrier_service_id,
                     conditions = excluded.conditions, version = p.version + 1
                 RETURNING id, version, changed_at, organisation_id
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                        $17::jsonb AS changes, '{}'::jsonb AS data
                 FROM written
             )",
            self.id,
            self.organisation,
            self.eshop,
            self.position,
            self.active,
            self.carrier,
            self.carrier_service,
            self.conditions,
            changes_json(changes),
        )
        .await
    }
}

/// What is wrong with the e-shop, the carrier and the service that a body gives.
async fn strangers(
    connection: &mut PgConnection,
    organisation: OrganisationId,
    new: &CarrierPreference,
    old: Option<&CarrierPreference>,
    given: &CarrierPreferenceFields,
) -> Result<Vec<Violation>, sqlx::Error> {
    let known = sqlx::query!(
        r#"SELECT EXISTS (SELECT FROM eshop WHERE id = $2 AND organisation_id = $1) AS "is_eshop!",
                  EXISTS (SELECT FROM carrier c JOIN carrier_organisation o ON o.carrier_id = c.id AND o.organisation_id = $1
                          WHERE c.id = $3 AND c.active) AS "is_carrier!",
                  EXISTS (SELECT FROM carrier_service WHERE id = $4 AND carrier_id = $3) AS "is_service!""#,
        organisation.get(),
        new.eshop,
        new.carrier,
        new.carrier_service,
    )
    .fetch_one(connection)
    .await?;
    // a record that is sent back names what may no longer be given
    let is_other = |gives: bool, is_same: bool| gives && !is_same;
    let gives_eshop = is_other(given.eshop.is_given(), old.is_some_and(|old| old.eshop == new.eshop));
    let gives_carrier = is_other(given.carrier.is_some(), old.is_some_and(|old| old.carrier == new.carrier));
    let gives_service = is_other(
        given.carrier_service.is_given(),
        old.is_some_and(|old| old.carrier_service == new.carrier_service),
    );
    let is_carrier_refused = gives_carrier && !known.is_carrier;
    let refused = [
        (
            gives_eshop && new.eshop.is_some() && !known.is_eshop,
            "eshop",
            "must be an e-shop of the organisation",
        ),
        (is_carrier_refused, "carrier", "must be an active carrier that is attached to the organisation"),
        // another carrier takes its services with it; those of one that is refused are not the caller's to know
        (
            (gives_carrier || gives_service)
                && !is_carrier_refused
                && new.carrier_service.is_some()
                && !known.is_service,
            "carrierService",
            "must be a service of the carrier",
        ),
    ];
    let refused = refused.into_iter().filter(|(is_refused, ..)| *is_refused);
    Ok(refused.map(|(_, field, message)| Violation::new(field, "unknown_reference", message)).collect())
}

/// Deletes a preference: 204. Orders that were shipped by it keep their carrier. `check` refuses a version.
pub async fn delete(
    services: &Services,
    context: &Context,
    id: Uuid,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    const ENTITY: &str = CarrierPreference::ENTITY;
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    let Some(old) = CarrierPreference::lock(change.connection(), scope, id).await? else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, id).await);
    };
    check(old.version)?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "carrier_preference.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM carrier_preference WHERE id = $9 RETURNING *
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, eshop_id, version, deleted_by)
             SELECT $7, id, organisation_id, eshop_id, version, $3 FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('eshop', jsonb_build_array(eshop_id, NULL),
                        'position', jsonb_build_array(position, NULL),
                        'carrier', jsonb_build_array(carrier_id, NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
    )
    .await?;
    change.note(recorded);
    change.answer(context.claim, Answer::done()).await
}
