//! Carriers and their services.

use longshore_shared::list::fields::carrier::CARRIER as CARRIERS;
use longshore_shared::list::fields::service::CARRIER_SERVICE as SERVICES;
use longshore_shared::shipping::carrier::{MAX_COUNTRIES, MAX_ORGANISATIONS};
use serde_json::json;

use super::example::{CARRIER as POST, CARRIER_SERVICE as PARCEL, CHANGED, CREATED, ORGANISATION};
use super::operation::{Operation, get, list, post, put, read};
use super::record::Described;
use super::schema::{Said, Shape, array, boolean, country, default, id, integer, object, pattern, text};
use crate::routes::shipping::{carrier, service};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let organisations = |operation: Operation, says: &str| {
        let operation = operation
            .says(says)
            .says("All or nothing. Organisations that already are in this state stay as they are.");
        operation.body("CarrierOrganisations", organisations(), json!([ORGANISATION])).done()
    };
    vec![
        list("/api/carrier/list", carrier::list_carriers, &CARRIERS, "Lists carriers").says(SEEN),
        post("/api/carrier", carrier::create_carrier, "Creates a carrier")
            .says("`code` must be unique; otherwise 400 `already_taken`.")
            .body("CarrierToCreate", carrier_to_create(), json!({
                "name": "Bay Post", "code": 42, "organisations": [ORGANISATION], "countriesOfOperation": ["CZ", "SK"],
                "active": true,
            }))
            .created(&CARRIERS),
        read("/api/carrier/{id}", carrier::get_carrier, &CARRIERS, "Reads a carrier").says(SEEN),
        get("/api/carrier/code/{code}", carrier::get_carrier_by_code, "Reads a carrier by its code")
            .says(SEEN)
            .parameter("code", pattern(1..=10, "^[0-9]+$"))
            .record(200, "The record.", &CARRIERS)
            .with(&["ETag"])
            .refuses(&[400, 404]),
        put("/api/carrier/{id}", carrier::update_carrier, "Changes a carrier")
            .says("Changes the given fields.")
            .body("CarrierToUpdate", carrier_to_create().for_update(), json!({"name": "Bay Post Express"}))
            .updated(&CARRIERS),
        organisations(
            put(
                "/api/carrier/{id}/organisation-add",
                carrier::add_carrier_organisations,
                "Gives organisations access to a carrier",
            ),
            "The organisations can see and use the carrier from now on.",
        ),
        organisations(
            put(
                "/api/carrier/{id}/organisation-remove",
                carrier::remove_carrier_organisations,
                "Removes the access of organisations to a carrier",
            ),
            "The organisations can no longer see or use the carrier.",
        ),
        list("/api/carrier-service/list", service::list_carrier_services, &SERVICES, "Lists carrier services"),
        post("/api/carrier-service", service::create_carrier_service, "Creates a carrier service")
            .says("`code` must be unique in its carrier; otherwise 400 `already_taken`.")
            .body("CarrierServiceToCreate", service_to_create(), json!({
                "carrier": POST, "name": "Parcel to a box", "code": 2,
            }))
            .created(&SERVICES),
        read("/api/carrier-service/{id}", service::get_carrier_service, &SERVICES, "Reads a carrier service"),
        put("/api/carrier-service/{id}", service::update_carrier_service, "Changes a carrier service")
            .says("Changes the given fields. `carrier` cannot be changed.")
            .body("CarrierServiceToUpdate", service_to_create().for_update(), json!({"name": "Parcel by hand"}))
            .updated(&SERVICES),
    ]
}

const SEEN: &str =
    "Callers of an organisation see the carriers that it may use, and in `organisations` only their own.";

fn organisations() -> Said {
    array(1..=MAX_ORGANISATIONS, id())
}

/// The code of a carrier or of a carrier service.
fn code() -> Said {
    integer(0..=i64::from(i32::MAX))
}

fn carrier_to_create() -> Shape {
    object()
        .about("A carrier to create or change.")
        .required("name", text(1..=255))
        .required("code", code())
        .optional("organisations", array(0..=MAX_ORGANISATIONS, id()))
        .optional("countriesOfOperation", array(0..=MAX_COUNTRIES, country()))
        .optional("active", default(boolean(), true))
        .explain(MEANINGS)
}

fn service_to_create() -> Shape {
    object()
        .about("A carrier service to create or change.")
        .required("carrier", id())
        .required("name", text(1..=255))
        .required("code", code())
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
