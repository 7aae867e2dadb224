//! Organisations and their e-shops.

use longshore_shared::account::eshop::fields::ESHOP as ESHOPS;
use longshore_shared::account::organisation::fields::ORGANISATION as ORGANISATIONS;
use serde_json::json;

use super::example::{ANY, CHANGED, CREATED, ESHOP as SHOP, ORGANISATION as ORG, WAREHOUSE, WMS};
use super::operation::{Operation, list};
use super::record::Described;
use super::schema::{any_object, array_of};
use crate::routes::account::read;

/// Operations of this room.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        list("/api/organisation/list", read::list_organisations, &ORGANISATIONS, "Lists organisations"),
        list("/api/eshop/list", read::list_eshops, &ESHOPS, "Lists e-shops"),
    ]
}

/// Organisations.
pub(super) const ORGANISATION: Described = Described {
    resource: &ORGANISATIONS,
    about: "The tenant: it owns e-shops, products, suppliers and wms.",
    fields: &[
        ("primaryCountry", "ISO 3166-1 alpha-2."),
        ("stockAdviceCloseInterval", "Days."),
        ("wmses", "Its wms."),
    ],
    shapes: &[],
    example: || {
        json!({
            "id": ORG, "name": "Harbour Gifts", "registrationNumber": "10000001", "vatNumber": "CZ10000001",
            "addressLine1": "Harbour Street 1", "addressLine2": "110 00 Prague", "addressLine3": "",
            "primaryCountry": "CZ", "owner": null, "owners": [], "active": true, "createdAt": CREATED, "wmses": [WMS],
            "suppliers": [], "code": null, "automaticExchangeEnabled": false, "ignoreAddressValidation": false,
            "stockAdviceCloseInterval": null, "changedAt": CHANGED,
        })
    },
};

/// E-shops.
pub(super) const ESHOP: Described = Described {
    resource: &ESHOPS,
    about: "What products are sold in, and what webhooks are bound to.",
    fields: &[("waitBeforeProcessing", "Whether expeditions wait for confirmation before processing.")],
    shapes: &[("partners", || array_of(any_object()))],
    example: || {
        json!({
            "id": SHOP, "name": "Harbour shop", "organisation": ORG, "defaultWarehouse": null, "warehouses": [WAREHOUSE],
            "active": true, "createdAt": CREATED, "partners": null, "salesChannelId": ANY,
            "waitBeforeProcessing": false, "editBeforeProcessing": false, "integrationType": null,
            "changedAt": CHANGED,
        })
    },
};
