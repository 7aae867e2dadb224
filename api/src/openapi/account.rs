//! Organisations and their e-shops, accounts, and the audit.

mod access;
mod person;

pub(super) use self::access::{ACCESS_TOKEN, SESSION};
pub(super) use self::person::{ADMIN, BUSINESS_USER};

use longshore_domain::account::eshop::Eshop;
use longshore_domain::account::organisation::Organisation;
use longshore_domain::list::fields::audit::AUDIT as RECORDS;
use longshore_domain::list::fields::eshop::ESHOP as ESHOPS;
use longshore_domain::list::fields::organisation::ORGANISATION as ORGANISATIONS;
use serde_json::{Value, json};

use super::editable::editable;
use super::example::{
    ANY, CHANGED, CREATED, ESHOP as SHOP, ORGANISATION as ORG, PRODUCT, TOKEN, WAREHOUSE, WMS,
};
use super::operation::{Operation, list};
use super::record::Described;
use super::schema::{any_object, array_of};
use crate::routes::account::audit;

/// How an update treats the given fields.
const CHANGES: &str = "Changes the given fields; null clears a nullable field.";

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    let change = json!({"name": "Harbour Gifts Ltd.", "stockAdviceCloseInterval": 14});
    let (names, creation) = (["an organisation", "organisations"], organisation_creation());
    operations.extend(editable::<Organisation>(&ORGANISATION, names, creation, change, &[CHANGES]));
    let change = json!({"name": "Harbour shop", "waitBeforeProcessing": true});
    let says = [CHANGES, "`organisation` cannot be changed."];
    operations.extend(editable::<Eshop>(&ESHOP, ["an e-shop", "e-shops"], eshop_creation(), change, &says));
    operations.push(
        list(audit::list_audit, &AUDIT, "Lists audit records").says(
            "Each record says who made which change, when, and by which request. The oldest record comes first. Only accounts and tokens that can see everything see records without an organisation.",
        ),
    );
    operations.extend(access::operations());
    operations.extend(person::operations());
    operations
}

fn organisation_creation() -> Value {
    json!({
        "name": "Harbour Gifts", "registrationNumber": "10000001", "vatNumber": "CZ10000001",
        "addressLine1": "Harbour Street 1", "addressLine2": "110 00 Prague", "primaryCountry": "CZ",
        "owners": [ANY],
    })
}

const ORGANISATION_MEANINGS: &[(&str, &str)] = &[
    ("primaryCountry", "ISO 3166-1 alpha-2, or `XK` (Kosovo)."),
    ("owner", "A UUID of your choice."),
    ("owners", "UUIDs of your choice."),
    ("stockAdviceCloseInterval", "Days."),
    ("wmses", "The wms of the organisation."),
];

/// Organisations.
pub(super) const ORGANISATION: Described = Described {
    resource: &ORGANISATIONS,
    about: "A tenant. It owns e-shops, products, suppliers, warehouses and wms.",
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

fn eshop_creation() -> Value {
    json!({
        "organisation": ORG, "name": "Harbour shop", "defaultWarehouse": WAREHOUSE, "warehouses": [WAREHOUSE],
        "partners": [{"name": "Harbour marketplace"}], "integrationType": "feed",
    })
}

const ESHOP_MEANINGS: &[(&str, &str)] = &[
    ("organisation", "The owner. It cannot be changed."),
    ("defaultWarehouse", "The default warehouse; one of `warehouses`."),
    (
        "warehouses",
        "The warehouses that serve the e-shop. They must belong to the organisation; duplicates are ignored.",
    ),
    ("waitBeforeProcessing", "Whether expeditions wait for confirmation before processing."),
    ("editBeforeProcessing", "Whether expeditions may be edited before processing."),
];

/// E-shops.
pub(super) const ESHOP: Described = Described {
    resource: &ESHOPS,
    about: "A shop of an organisation. Products are sold in it, and webhooks belong to it.",
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
    about: "A record of one change. Audit records are never changed.",
    fields: &[
        ("actor", "Who made the change, with the name of the account or token at that time."),
        ("action", "The action, such as `product.update`."),
        ("entity", "The record that was changed."),
        ("changes", "The old and new value of each changed field. Secrets are `***`."),
        ("requestId", "The id of the request."),
        ("job", "The job that made the change."),
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
