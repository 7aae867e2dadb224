//! Carriers, their services, and preferences for them.

use longshore_domain::list::fields::carrier::CARRIER as CARRIERS;
use longshore_domain::list::fields::preference::CARRIER_PREFERENCE as PREFERENCES;
use longshore_domain::list::fields::service::CARRIER_SERVICE as SERVICES;
use longshore_domain::shipping::carrier::{Carrier, organisations};
use longshore_domain::shipping::preference::{CarrierPreference, conditions};
use longshore_domain::shipping::service::CarrierService;
use longshore_kernel::input::Rule as _;
use serde_json::{Value, json};

use super::editable::editable;
use super::example::{
    CARRIER as POST, CARRIER_PREFERENCE as PREFERRED, CARRIER_SERVICE as PARCEL, CHANGED, CREATED, ESHOP,
    ORGANISATION,
};
use super::operation::{Operation, list, operation, read};
use super::record::Described;
use super::schema::{Said, Shape, accepted, body_of, pattern, record_of};
use crate::routes::resource;
use crate::routes::shipping::{carrier, preference};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let shares = |operation: Operation, says: &str| {
        let operation = operation
            .says(says)
            .says("All or nothing. Organisations that already are in this state stay as they are.");
        operation
            .body("CarrierOrganisations", accepted(&organisations().schema()), json!([ORGANISATION]))
            .done()
    };
    let creation = json!({
        "name": "Bay Post", "code": 42, "organisations": [ORGANISATION], "countriesOfOperation": ["CZ", "GB"],
        "active": true,
    });
    let change = json!({"name": "Bay Post Express"});
    // what it shows depends on the caller, so its own handler reads one
    let [carriers, create_carrier, _, update_carrier] = editable::<Carrier>(
        &CARRIER,
        ["a carrier", "carriers"],
        creation,
        change,
        &["Changes the given fields."],
    );
    let creation = json!({"carrier": POST, "name": "Parcel to a box", "code": 2});
    let change = json!({"name": "Parcel by hand"});
    let names = ["a carrier service", "carrier services"];
    let says = "Changes the given fields. `carrier` cannot be changed.";
    let [services, create_service, service, update_service] =
        editable::<CarrierService>(&CARRIER_SERVICE, names, creation, change, &[says]);
    vec![
        carriers.says(SEEN),
        create_carrier.says("`code` must be unique; otherwise 400 `already_taken`."),
        read(carrier::get_carrier, &CARRIER, "Reads a carrier").says(SEEN),
        operation(carrier::get_carrier_by_code, "Reads a carrier by its code")
            .says(SEEN)
            .parameter("code", pattern(1..=10, "^[0-9]+$"))
            .record(200, "The record.", &CARRIER)
            .with(&["ETag"]),
        update_carrier,
        shares(
            operation(carrier::add_carrier_organisations,
                "Gives organisations access to a carrier",
            ),
            "The organisations can see and use the carrier from now on.",
        ),
        shares(
            operation(carrier::remove_carrier_organisations,
                "Removes the access of organisations to a carrier",
            ),
            "The organisations can no longer see or use the carrier.",
        ),
        services,
        create_service.says("`code` must be unique in its carrier; otherwise 400 `already_taken`."),
        service,
        update_service,
        list(resource::list::<CarrierPreference>, &CARRIER_PREFERENCE, "Lists carrier preferences").says(OF_ORGANISATION),
        operation(resource::create::<CarrierPreference>, "Creates a carrier preference")
            .says("An order that is sent without a carrier gets that of the first active preference whose conditions hold: those of its e-shop, then those of its organisation, by `position`. `position` must be unique among them; otherwise 400 `already_taken`.")
            .body("CarrierPreferenceToCreate", preference_body(true), preferred())
            .created(&CARRIER_PREFERENCE),
        read(resource::get::<CarrierPreference>, &CARRIER_PREFERENCE, "Reads a carrier preference").says(OF_ORGANISATION),
        operation(resource::update::<CarrierPreference>, "Changes a carrier preference")
            .says("Changes the given fields; null clears a nullable field. `conditions` are replaced as a whole. `organisation` cannot be changed.")
            .body("CarrierPreferenceToUpdate", preference_body(false), json!({"active": true}))
            .updated(&CARRIER_PREFERENCE),
        operation(preference::delete_carrier_preference, "Deletes a carrier preference")
            .says("Orders that were shipped by it keep their carrier.")
            .done(),
    ]
}

const SEEN: &str =
    "Callers of an organisation see the carriers that it may use, and in `organisations` only their own.";

const OF_ORGANISATION: &str =
    "A caller that is bound to an e-shop sees those of the e-shop and those of every e-shop.";

fn preference_body(is_new: bool) -> Shape {
    record_of::<CarrierPreference>(is_new)
        .about("A carrier preference to create or change.")
        .part("conditions", |conditions| conditions.explain(CONDITIONS).called("CarrierConditions"))
        .explain(PREFERENCE)
}

fn preferred() -> Value {
    json!({
        "organisation": ORGANISATION, "eshop": ESHOP, "position": 10, "active": true, "carrier": POST,
        "carrierService": PARCEL, "conditions": {"countries": ["CZ", "GB"], "maxWeight": 20_000, "cod": false},
    })
}

const PREFERENCE: &[(&str, &str)] = &[
    ("eshop", "The e-shop whose orders it is for; null: every e-shop of the organisation."),
    ("position", "The lowest is looked at first. Unique among the preferences of the same e-shop."),
    ("active", "Whether it is looked at."),
    ("carrierService", "A service of the carrier."),
    ("conditions", "What must be true of an order: all of it. The default is no condition."),
];

const CONDITIONS: &[(&str, &str)] = &[
    ("countries", "The order is delivered to one of these countries."),
    ("deliveryMethods", "`deliveryMethod` of the order is one of these."),
    ("minWeight", "The products of the order weigh at least so many grams. An unknown weight does not hold."),
    ("maxWeight", "The products of the order weigh at most so many grams. An unknown weight does not hold."),
    ("minValue", "`value` of the order is at least this. Requires `currency`."),
    ("maxValue", "`value` of the order is at most this. Requires `currency`."),
    ("currency", "`currency` of the order, ISO 4217."),
    ("cod", "Whether the order is paid on delivery."),
    ("pickupPlace", "Whether the order names a pickup place."),
    ("b2b", "Whether the order is of a business; null counts as false."),
];

fn of_preference() -> Said {
    body_of(&conditions()).explain(CONDITIONS).called("CarrierConditions")
}

/// Carrier preferences.
pub(super) const CARRIER_PREFERENCE: Described = Described {
    resource: &PREFERENCES,
    about: "By what carrier an order is shipped that is sent without one.",
    fields: PREFERENCE,
    shapes: &[("conditions", of_preference)],
    example: || {
        let mut record = preferred();
        for (name, value) in [
            ("id", json!(PREFERRED)),
            ("createdAt", json!(CREATED)),
            ("changedAt", json!(CHANGED)),
            ("version", json!(3)),
        ] {
            record[name] = value;
        }
        record
    },
};

const MEANINGS: &[(&str, &str)] = &[
    ("code", "Unique."),
    ("organisations", "The organisations that may use the carrier."),
    ("services", "Its shipping options."),
    ("countriesOfOperation", "ISO 3166-1 alpha-2, or `XK` (Kosovo)."),
];

/// Carriers.
pub(super) const CARRIER: Described = Described {
    resource: &CARRIERS,
    about: "A company that ships parcels.",
    fields: MEANINGS,
    shapes: &[],
    example: || {
        json!({
            "id": POST, "name": "Bay Post", "code": 42, "organisations": [ORGANISATION], "services": [PARCEL],
            "countriesOfOperation": ["CZ", "GB"], "active": true, "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        })
    },
};

/// Carrier services.
pub(super) const CARRIER_SERVICE: Described = Described {
    resource: &SERVICES,
    about: "A shipping option of a carrier.",
    fields: &[("code", "Unique in its carrier.")],
    shapes: &[],
    example: || {
        json!({
            "id": PARCEL, "name": "Parcel to a box", "code": 2, "carrier": POST, "createdAt": CREATED,
            "changedAt": CHANGED, "version": 3,
        })
    },
};
