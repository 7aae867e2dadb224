//! Organisations and their e-shops, accounts, and the audit.

mod access;
mod person;

pub(super) use self::access::{ACCESS_TOKEN, SESSION};
pub(super) use self::person::{ADMIN, BUSINESS_USER};

use longshore_shared::account::eshop::{MAX_PARTNERS, MAX_WAREHOUSES};
use longshore_shared::account::organisation::{MAX_CLOSE_INTERVAL, MAX_OWNERS};
use longshore_shared::list::fields::audit::AUDIT as RECORDS;
use longshore_shared::list::fields::eshop::ESHOP as ESHOPS;
use longshore_shared::list::fields::eshop::INTEGRATION_TYPES;
use longshore_shared::list::fields::organisation::ORGANISATION as ORGANISATIONS;
use serde_json::{Value, json};

use super::example::{
    ANY, CHANGED, CREATED, ESHOP as SHOP, ORGANISATION as ORG, PRODUCT, TOKEN, WAREHOUSE, WMS,
};
use super::operation::{Operation, list, post, put, read};
use super::record::Described;
use super::schema::{
    Shape, any_object, array, array_of, boolean, default, id, integer, object, one_of, pattern, text,
};
use crate::routes::account::{audit, eshop, organisation, read as handlers};

/// How an update treats the given fields.
const CHANGES: &str = "The given fields change, absent ones stay, and null clears a nullable one.";

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let mut operations = vec![
        list("/api/organisation/list", handlers::list_organisations, &ORGANISATIONS, "Lists organisations"),
        post("/api/organisation", organisation::create_organisation, "Creates an organisation")
            .body("OrganisationToCreate", organisation_to_create(), organisation_creation())
            .created(&ORGANISATIONS),
        read("/api/organisation/{id}", organisation::get_organisation, &ORGANISATIONS, "Reads an organisation"),
        put("/api/organisation/{id}", organisation::update_organisation, "Changes an organisation")
            .says(CHANGES)
            .body(
                "OrganisationToUpdate",
                organisation_to_create().for_update(),
                json!({"name": "Harbour Gifts Ltd.", "stockAdviceCloseInterval": 14}),
            )
            .updated(&ORGANISATIONS),
        list("/api/eshop/list", handlers::list_eshops, &ESHOPS, "Lists e-shops"),
        post("/api/eshop", eshop::create_eshop, "Creates an e-shop")
            .body("EshopToCreate", eshop_to_create(), eshop_creation())
            .created(&ESHOPS),
        read("/api/eshop/{id}", eshop::get_eshop, &ESHOPS, "Reads an e-shop"),
        put("/api/eshop/{id}", eshop::update_eshop, "Changes an e-shop")
            .says(CHANGES)
            .says("`organisation` never changes.")
            .body(
                "EshopToUpdate",
                eshop_to_create().for_update(),
                json!({"name": "Harbour shop", "waitBeforeProcessing": true}),
            )
            .updated(&ESHOPS),
        list("/api/audit", audit::list_audit, &RECORDS, "Lists what was done").says(
            "By whom, when, and why; the oldest first. What belongs to no organisation is for those who see everything.",
        ),
    ];
    operations.extend(access::operations());
    operations.extend(person::operations());
    operations
}

fn organisation_to_create() -> Shape {
    object()
        .about("An organisation as it is wanted.")
        .required("name", text(1..=255))
        .optional("registrationNumber", default(text(0..=255), ""))
        .optional("vatNumber", default(text(0..=255), ""))
        .optional("addressLine1", default(text(0..=255), ""))
        .optional("addressLine2", default(text(0..=255), ""))
        .optional("addressLine3", default(text(0..=255), ""))
        .required("primaryCountry", pattern(2..=2, "^[A-Z]{2}$"))
        .nullable("owner", id())
        .optional("owners", array(0..=MAX_OWNERS, id()))
        .optional("active", default(boolean(), true))
        .nullable("code", text(0..=255))
        .optional("automaticExchangeEnabled", default(boolean(), false))
        .optional("ignoreAddressValidation", default(boolean(), false))
        .nullable("stockAdviceCloseInterval", integer(0..=i64::from(MAX_CLOSE_INTERVAL)))
        .explain(ORGANISATION_MEANINGS)
}

fn organisation_creation() -> Value {
    json!({
        "name": "Harbour Gifts", "registrationNumber": "10000001", "vatNumber": "CZ10000001",
        "addressLine1": "Harbour Street 1", "addressLine2": "110 00 Prague", "primaryCountry": "CZ",
        "owners": [ANY],
    })
}

const ORGANISATION_MEANINGS: &[(&str, &str)] = &[
    ("primaryCountry", "ISO 3166-1 alpha-2."),
    ("owner", "Any uuid."),
    ("owners", "Any uuids."),
    ("stockAdviceCloseInterval", "Days."),
    ("wmses", "Its wms."),
];

/// Organisations.
pub(super) const ORGANISATION: Described = Described {
    resource: &ORGANISATIONS,
    about: "The tenant: it owns e-shops, products, suppliers and wms.",
    fields: ORGANISATION_MEANINGS,
    shapes: &[],
    example: || {
        json!({
            "id": ORG, "name": "Harbour Gifts", "registrationNumber": "10000001", "vatNumber": "CZ10000001",
            "addressLine1": "Harbour Street 1", "addressLine2": "110 00 Prague", "addressLine3": "",
            "primaryCountry": "CZ", "owner": null, "owners": [], "active": true, "createdAt": CREATED, "wmses": [WMS],
            "suppliers": [], "code": null, "automaticExchangeEnabled": false, "ignoreAddressValidation": false,
            "stockAdviceCloseInterval": null, "changedAt": CHANGED, "version": 3,
        })
    },
};

fn eshop_to_create() -> Shape {
    object()
        .about("An e-shop as it is wanted.")
        .required("organisation", id())
        .required("name", text(1..=255))
        .nullable("defaultWarehouse", id())
        .optional("warehouses", array(0..=MAX_WAREHOUSES, id()))
        .optional("active", default(boolean(), true))
        .nullable("partners", array(0..=MAX_PARTNERS, any_object()))
        .nullable("salesChannelId", text(0..=255))
        .optional("waitBeforeProcessing", default(boolean(), false))
        .optional("editBeforeProcessing", default(boolean(), false))
        .nullable("integrationType", one_of(INTEGRATION_TYPES))
        .explain(ESHOP_MEANINGS)
}

fn eshop_creation() -> Value {
    json!({
        "organisation": ORG, "name": "Harbour shop", "defaultWarehouse": WAREHOUSE, "warehouses": [WAREHOUSE],
        "partners": [{"name": "Harbour marketplace"}], "integrationType": "feed",
    })
}

const ESHOP_MEANINGS: &[(&str, &str)] = &[
    ("organisation", "Whose it is; never changes."),
    ("defaultWarehouse", "One of `warehouses`."),
    ("warehouses", "Where it is served from: warehouses of the organisation; duplicates are ignored."),
    ("waitBeforeProcessing", "Whether expeditions wait for confirmation before processing."),
    ("editBeforeProcessing", "Whether expeditions may be edited before processing."),
];

/// E-shops.
pub(super) const ESHOP: Described = Described {
    resource: &ESHOPS,
    about: "What products are sold in, and what webhooks are bound to.",
    fields: ESHOP_MEANINGS,
    shapes: &[("partners", || array_of(any_object()))],
    example: || {
        json!({
            "id": SHOP, "name": "Harbour shop", "organisation": ORG, "defaultWarehouse": null, "warehouses": [WAREHOUSE],
            "active": true, "createdAt": CREATED, "partners": null, "salesChannelId": ANY,
            "waitBeforeProcessing": false, "editBeforeProcessing": false, "integrationType": null,
            "changedAt": CHANGED, "version": 3,
        })
    },
};

/// Audit records.
pub(super) const AUDIT: Described = Described {
    resource: &RECORDS,
    about: "What was done to a record. It is never changed.",
    fields: &[
        ("actor", "Who did it, by what the account was called at that time."),
        ("action", "What was done, as in `product.update`."),
        ("entity", "The record that it was done to."),
        ("changes", "What it was and what it became, by field; secrets are `***`."),
        ("requestId", "The request that asked for it."),
        ("job", "The job that did it."),
    ],
    shapes: &[("changes", any_object)],
    example: || {
        json!({
            "id": ANY, "at": CHANGED, "actor": {"type": "token", "id": TOKEN, "name": "connector"},
            "action": "product.update", "entity": {"type": "product", "id": PRODUCT}, "organisation": ORG,
            "changes": {"weight": [320, 410]}, "requestId": "0192a1b2-7000-7000-8000-00000000000e", "job": null,
        })
    },
};
