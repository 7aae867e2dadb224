//! Integration settings.

use longshore_shared::kernel::destination::DESTINATION_LENGTH;
use longshore_shared::partner::setting::Integration;
use longshore_shared::partner::setting::body::{INTERVAL_MINUTES, LARGEST_RESERVE, LONGEST_INTERVAL, MOST};
use serde_json::{Value, json};

use crate::openapi::example::{CHANGED, CREATED, ESHOP, INTEGRATION_SETTING, ORGANISATION, WAREHOUSE, WMS};
use crate::openapi::operation::{Operation, delete, get, post};
use crate::openapi::schema::{
    Said, Shape, VERSION, any_integer, any_text, array, boolean, default, id, integer, named, object, one_of,
    or_null, text, timestamp, url,
};
use crate::openapi::webhook;
use crate::routes::partner::setting;

const PATH: &str = "/api/partner-integration/eshop-setting/{id}";

/// The operations on settings.
pub(super) fn operations() -> Vec<Operation> {
    let shown = || named("IntegrationSetting");
    vec![
        get(PATH, setting::get_integration_setting, "Reads the integration setting of an e-shop")
            .says("By the id of the e-shop. Credentials are masked; stored ones that cannot be read are 422.")
            .schema("IntegrationSetting", record())
            .answers(200, "The setting.", shown(), Some(example()))
            .with(&["ETag", "Location"])
            .refuses(&[410, 422]),
        post(PATH, setting::store_integration_setting, "Stores the integration setting of an e-shop")
            .says(
                "Creates or replaces it, as a whole: what is left out has its default. `***` in `credentials` keeps what is \
                 stored.",
            )
            .body("IntegrationSettingToStore", to_store(), json!({
                "integrationType": "baselinker", "active": true, "credentials": {"token": "a token of the partner"},
                "baseUrl": "https://api.partner.example/connector", "inventories": [{"inventoryId": "307"}],
                "warehouses": [{"warehouseId": "bl_206", "warehouse": WAREHOUSE, "wms": WMS}],
                "productSync": {"enabled": true, "intervalMinutes": 60},
                "stockSync": {"enabled": true, "intervalMinutes": 15, "reserve": 2},
            }))
            .answers(200, "The setting as it is now.", shown(), Some(example()))
            .with(&["ETag", "Location"]),
        delete(PATH, setting::delete_integration_setting, "Deletes the integration setting of an e-shop")
            .says("Reading it is 410 until it is stored anew.")
            .done()
            .refuses(&[410]),
    ]
}

fn to_store() -> Shape {
    let interval = || default(integer(1..=i64::from(LONGEST_INTERVAL)), i64::from(INTERVAL_MINUTES));
    let sync =
        || object().optional("enabled", default(boolean(), false)).optional("intervalMinutes", interval());
    let stock_sync = sync().optional("reserve", default(integer(0..=i64::from(LARGEST_RESERVE)), 0));
    object()
        .about("An integration setting as it is wanted.")
        .optional("eshop", id())
        .required("integrationType", one_of(Integration::NAMES))
        .optional("active", default(boolean(), true))
        .optional("credentials", credentials())
        .nullable("baseUrl", url(1..=DESTINATION_LENGTH))
        .optional("inventories", inventories())
        .optional("warehouses", warehouses())
        .optional("productSync", sync().explain(OF_SYNCS).called("ProductScheduleToStore"))
        .optional("stockSync", stock_sync.explain(OF_SYNCS).called("StockScheduleToStore"))
        .explain(MEANINGS)
}

/// A token of BaseLinker, or the members of one type for a feed.
fn credentials() -> Said {
    webhook::authentication(&["none", "basic", "bearer"])
        .without("type")
        .about("How the partner knows who calls.")
        .called("PartnerCredentials")
}

fn inventories() -> Said {
    let inventory = object().required("inventoryId", text(1..=255)).called("PartnerInventory");
    array(0..=MOST, inventory)
}

fn warehouses() -> Said {
    let mapping =
        object().required("warehouseId", text(1..=255)).required("warehouse", id()).nullable("wms", id());
    array(0..=MOST, mapping.explain(OF_WAREHOUSES).called("PartnerWarehouse"))
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
        .about("How the system of an e-shop's partner is reached, and what is done there.")
        .required("id", id())
        .required("eshop", id())
        .required("organisation", id())
        .required("integrationType", one_of(Integration::NAMES))
        .required("active", boolean())
        .required("credentials", credentials())
        .required("baseUrl", or_null(any_text()))
        .required("inventories", inventories())
        .required("warehouses", warehouses())
        .required("productSync", sync().explain(OF_SYNCS).called("ProductSchedule"))
        .required("stockSync", stock_sync.explain(OF_SYNCS).called("StockSchedule"))
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
    ("eshop", "The e-shop of the path."),
    ("integrationType", "The partner: BaseLinker, or a URL that serves NDJSON or JSON."),
    ("active", "Whether it is used at all."),
    ("credentials", "Of `baselinker` the `token`, which must be there; of `feed` one of the types, or none."),
    (
        "baseUrl",
        "Where the partner is, if not where it always is; a `feed` must say it. An `https` URL without credentials or \
         fragment, of no private address.",
    ),
    ("inventories", "Parts of the partner's catalogue that are read; each once."),
    ("warehouses", "Which of our warehouses a warehouse of the partner is; each of theirs once."),
    ("productSync", "Products by the clock."),
    ("stockSync", "Stocks by the clock."),
];

const STANDING: &[(&str, &str)] = &[
    (
        "nextProductSync",
        "When products are due by the clock; null while they are not, or the e-shop is not active.",
    ),
    ("nextStockSync", "The same for stocks."),
    (
        "blockedUntil",
        "Until when the partner lets nobody in with this token (baselinker): every job waits for it.",
    ),
    (
        "lastError",
        "What a job that called the partner failed with, in words for an operator; null once one of its kind succeeds, or \
         the setting is stored anew.",
    ),
];

const OF_WAREHOUSES: &[(&str, &str)] = &[
    ("warehouseId", "The partner's id of it."),
    ("warehouse", "Ours, of the organisation."),
    ("wms", "The wms in it; null is its default."),
];

const OF_SYNCS: &[(&str, &str)] =
    &[("intervalMinutes", "How often."), ("reserve", "Pieces that the partner is not told of.")];

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
