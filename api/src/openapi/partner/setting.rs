//! Integration settings.

use longshore_domain::job::guard;
use longshore_domain::partner::setting::Integration;
use longshore_domain::partner::setting::body::{self, FEED_TYPES};
use longshore_kernel::authentication;
use longshore_kernel::input::Rule as _;
use serde_json::{Value, json};

use crate::openapi::example::{CHANGED, CREATED, ESHOP, INTEGRATION_SETTING, ORGANISATION, WAREHOUSE, WMS};
use crate::openapi::job::answers_job;
use crate::openapi::operation::{Operation, operation};
use crate::openapi::schema::{
    Said, Shape, VERSION, accepted, any_integer, any_text, boolean, id, members, named, object, one_of,
    or_null, part_of, timestamp,
};
use crate::openapi::webhook;
use crate::routes::partner::setting;

/// The operations on settings.
pub(super) fn operations() -> Vec<Operation> {
    let shown = || named("IntegrationSetting");
    vec![
        operation(setting::get_integration_setting, "Reads the integration setting of an e-shop")
            .says("The id is the id of the e-shop. Credentials are masked. 422 if the stored credentials cannot be read.")
            .schema("IntegrationSetting", record())
            .answers(200, "The integration setting.", shown(), Some(example()))
            .with(&["ETag", "Location"])
            .refuses(&[422]),
        operation(setting::store_integration_setting, "Stores the integration setting of an e-shop")
            .says(
                "Creates or replaces the whole setting: fields that are left out get their defaults. `***` in `credentials` keeps the stored value.",
            )
            .body("IntegrationSettingToStore", to_store(), json!({
                "integrationType": "baselinker", "active": true, "credentials": {"token": "a token of the partner"},
                "baseUrl": "https://api.partner.example/connector", "inventories": [{"inventoryId": "307"}],
                "warehouses": [{"warehouseId": "bl_206", "warehouse": WAREHOUSE, "wms": WMS}],
                "productSync": {"enabled": true, "intervalMinutes": 60},
                "stockSync": {"enabled": true, "intervalMinutes": 15, "reserve": 2},
            }))
            .answers(200, "The integration setting after the change.", shown(), Some(example()))
            .with(&["ETag", "Location"])
            // a deleted setting comes back
            .never(&[410]),
        operation(setting::delete_integration_setting, "Deletes the integration setting of an e-shop")
            .says("Reading the setting returns 410 until it is stored again.")
            .done(),
        answers_job(
            operation(setting::test_integration_setting, "Tests the connection to the partner of an e-shop"),
            "Reads the beginning of what a sync would read, with the stored credentials, and changes nothing. `connection` of the job says what happened. Also works while the setting is not active.",
        ),
    ]
}

fn to_store() -> Shape {
    members(&body::schema())
        .about("An integration setting to store.")
        .part("credentials", called_credentials)
        .part("inventories", called_inventory)
        .part("warehouses", called_warehouse)
        .part("productSync", |sync| sync.explain(OF_SYNCS).called("ProductScheduleToStore"))
        .part("stockSync", |sync| sync.explain(OF_SYNCS).called("StockScheduleToStore"))
        .explain(MEANINGS)
}

/// A token of BaseLinker, or the members of one type for a feed.
pub(super) fn called_credentials(credentials: Shape) -> Said {
    credentials
        .explain(webhook::OF_AUTHENTICATION)
        .about("The credentials for calls to the partner.")
        .called("PartnerCredentials")
}

fn called_inventory(inventory: Shape) -> Said {
    inventory.called("PartnerInventory")
}

fn called_warehouse(warehouse: Shape) -> Said {
    warehouse.explain(OF_WAREHOUSES).called("PartnerWarehouse")
}

fn record() -> Shape {
    let sync = || object().required("enabled", boolean()).required("intervalMinutes", any_integer());
    let stock_sync = sync().required("reserve", any_integer());
    let error = object()
        .required("at", timestamp())
        .required("kind", any_text())
        .required("job", id())
        .required("message", any_text())
        .called("PartnerFailure");
    object()
        .about("How the worker reaches the partner of an e-shop, and what it synchronises.")
        .required("id", id())
        .required("eshop", id())
        .required("organisation", id())
        .required("integrationType", one_of(Integration::NAMES))
        .required("active", boolean())
        .required("credentials", called_credentials(members(&authentication::schema(FEED_TYPES, false))))
        .required("baseUrl", or_null(any_text()))
        .required("inventories", part_of(accepted(&body::inventories().schema()), called_inventory))
        .required("warehouses", part_of(accepted(&body::warehouses().schema()), called_warehouse))
        .required("productSync", sync().explain(OF_SYNCS).called("ProductSchedule"))
        .required("stockSync", stock_sync.explain(OF_SYNCS).called("StockSchedule"))
        .required("guard", or_null(accepted(&guard::rule().schema())))
        .required("nextProductSync", or_null(timestamp()))
        .required("nextStockSync", or_null(timestamp()))
        .required("blockedUntil", or_null(timestamp()))
        .required("lastError", or_null(error))
        .required("createdAt", timestamp())
        .required("changedAt", timestamp())
        .required("version", named(VERSION))
        .explain(MEANINGS)
        .explain(STANDING)
}

const MEANINGS: &[(&str, &str)] = &[
    ("eshop", "The e-shop in the path."),
    ("integrationType", "The partner: BaseLinker, or a URL that serves NDJSON or JSON."),
    ("active", "Whether the setting is in use."),
    ("credentials", "`baselinker` requires the `token`. `feed` has one of the types, or none."),
    (
        "baseUrl",
        "The address of the partner, if it is not the standard one. Required for a `feed`. An `https` URL without credentials, fragment or private address.",
    ),
    ("inventories", "The parts of the partner's catalogue to read, without duplicates."),
    (
        "warehouses",
        "Maps warehouses of the partner to warehouses of the organisation. Each warehouse of the partner may appear once.",
    ),
    ("productSync", "The schedule of product syncs."),
    ("stockSync", "The schedule of stock syncs."),
];

const STANDING: &[(&str, &str)] = &[
    (
        "nextProductSync",
        "When the next scheduled product sync is due. Null without a schedule or while the e-shop is inactive.",
    ),
    ("nextStockSync", "When the next scheduled stock sync is due."),
    ("blockedUntil", "Until when the partner blocks this token (BaseLinker). All jobs wait until then."),
    (
        "lastError",
        "The error of the last failed job that called the partner, in words for an operator. Null after a job of the same kind succeeds or the setting is stored again.",
    ),
];

const OF_WAREHOUSES: &[(&str, &str)] = &[
    ("warehouseId", "The partner's id of the warehouse."),
    ("warehouse", "The warehouse of the organisation."),
    ("wms", "The wms in the warehouse; null means the default wms of the warehouse."),
];

const OF_SYNCS: &[(&str, &str)] = &[
    ("intervalMinutes", "Minutes between two syncs."),
    ("reserve", "Pieces to subtract from the quantity that is sent to the partner."),
];

fn example() -> Value {
    json!({
        "id": INTEGRATION_SETTING, "eshop": ESHOP, "organisation": ORGANISATION, "integrationType": "baselinker",
        "active": true, "credentials": {"token": "***"}, "baseUrl": "https://api.partner.example/connector",
        "inventories": [{"inventoryId": "307"}],
        "warehouses": [{"warehouseId": "bl_206", "warehouse": WAREHOUSE, "wms": WMS}],
        "productSync": {"enabled": true, "intervalMinutes": 60},
        "stockSync": {"enabled": true, "intervalMinutes": 15, "reserve": 2}, "nextProductSync": null,
        "nextStockSync": null, "blockedUntil": null, "lastError": null, "createdAt": CREATED,
        "changedAt": CHANGED, "version": 3,
    })
}
