//! Carriers and their services.

use longshore_shared::kernel::input::Rule as _;
use longshore_shared::list::fields::carrier::CARRIER as CARRIERS;
use longshore_shared::list::fields::service::CARRIER_SERVICE as SERVICES;
use longshore_shared::shipping::carrier::{Carrier, organisations};
use longshore_shared::shipping::service::CarrierService;
use serde_json::json;

use super::example::{CARRIER as POST, CARRIER_SERVICE as PARCEL, CHANGED, CREATED, ORGANISATION};
use super::operation::{Operation, list, operation, read};
use super::record::Described;
use super::schema::{Shape, accepted, pattern, record_of};
use crate::routes::shipping::{carrier, service};

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
    vec![
        list(carrier::list_carriers, &CARRIERS, "Lists carriers").says(SEEN),
        operation(carrier::create_carrier, "Creates a carrier")
            .says("`code` must be unique; otherwise 400 `already_taken`.")
            .body("CarrierToCreate", carrier_body(true), json!({
                "name": "Bay Post", "code": 42, "organisations": [ORGANISATION], "countriesOfOperation": ["CZ", "SK"],
                "active": true,
            }))
            .created(&CARRIERS),
        read(carrier::get_carrier, &CARRIERS, "Reads a carrier").says(SEEN),
        operation(carrier::get_carrier_by_code, "Reads a carrier by its code")
            .says(SEEN)
            .parameter("code", pattern(1..=10, "^[0-9]+$"))
            .record(200, "The record.", &CARRIERS)
            .with(&["ETag"])
            .refuses(&[400, 404]),
        operation(carrier::update_carrier, "Changes a carrier")
            .says("Changes the given fields.")
            .body("CarrierToUpdate", carrier_body(false), json!({"name": "Bay Post Express"}))
            .updated(&CARRIERS),
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
        list(service::list_carrier_services, &SERVICES, "Lists carrier services"),
        operation(service::create_carrier_service, "Creates a carrier service")
            .says("`code` must be unique in its carrier; otherwise 400 `already_taken`.")
            .body("CarrierServiceToCreate", service_body(true), json!({
                "carrier": POST, "name": "Parcel to a box", "code": 2,
            }))
            .created(&SERVICES),
        read(service::get_carrier_service, &SERVICES, "Reads a carrier service"),
        operation(service::update_carrier_service, "Changes a carrier service")
            .says("Changes the given fields. `carrier` cannot be changed.")
            .body("CarrierServiceToUpdate", service_body(false), json!({"name": "Parcel by hand"}))
            .updated(&SERVICES),
    ]
}

const SEEN: &str =
    "Callers of an organisation see the carriers that it may use, and in `organisations` only their own.";

fn carrier_body(is_new: bool) -> Shape {
    record_of::<Carrier>(is_new).about("A carrier to create or change.").explain(MEANINGS)
}

fn service_body(is_new: bool) -> Shape {
    record_of::<CarrierService>(is_new)
        .about("A carrier service to create or change.")
        .explain(&[("code", "Unique in its carrier.")])
}

const MEANINGS: &[(&str, &str)] = &[
    ("code", "Unique."),
    ("organisations", "The organisations that may use the carrier."),
    ("services", "Its shipping options."),
    ("countriesOfOperation", "ISO 3166-1 alpha-2 country code."),
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
            "countriesOfOperation": ["CZ", "SK"], "active": true, "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
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
