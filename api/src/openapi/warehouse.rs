//! Warehouses, wms, stock, suppliers and stock advices.

mod stock_advice;
mod supplier;

use longshore_domain::list::fields::stock::PRODUCT_STOCK as STOCKS;
use longshore_domain::list::fields::warehouse::WAREHOUSE as WAREHOUSES;
use longshore_domain::list::fields::wms::WMS as WMSES;
use longshore_domain::warehouse::warehouse::Warehouse;
use longshore_domain::warehouse::wms::Wms;
use serde_json::json;

pub(super) use self::stock_advice::STOCK_ADVICE;
pub(super) use self::supplier::SUPPLIER;
use super::editable::editable;
use super::example::{
    ANY, CHANGED, CREATED, ORGANISATION, PRODUCT, PRODUCT_STOCK as STOCK, WAREHOUSE as HALL, WMS as INVENTORY,
};
use super::operation::{Operation, list, read};
use super::record::Described;
use crate::routes::warehouse::read as handlers;

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    let creation = json!({
        "organisation": ORGANISATION, "name": "Quay warehouse", "customId": "W2", "wmses": [INVENTORY],
        "defaultWms": INVENTORY,
    });
    let change = json!({"name": "Harbour warehouse, north"});
    let says = "Changes the given fields; null clears `defaultWms`. `organisation` cannot be changed.";
    let names = ["a warehouse", "warehouses"];
    operations.extend(editable::<Warehouse>(&WAREHOUSE, names, creation, change, &[says]));
    let creation = json!({
        "organisation": ORGANISATION, "name": "Quay inventory", "distributionCenter": ANY, "storeKey": "quay",
        "internalId": "2", "warehouses": [HALL],
    });
    let change = json!({"name": "Harbour inventory, north"});
    let says = "Changes the given fields. `organisation` cannot be changed. A wms cannot be removed from a warehouse that has it as its default.";
    operations.extend(editable::<Wms>(&WMS, ["a wms", "wms"], creation, change, &[says]));
    operations.extend([
        list(handlers::list_product_stocks, &PRODUCT_STOCK, "Lists stocks"),
        read(handlers::get_product_stock, &PRODUCT_STOCK, "Reads a stock"),
    ]);
    operations.extend(supplier::operations());
    operations.extend(stock_advice::operations());
    operations
}

const OF_WAREHOUSE: &[(&str, &str)] = &[
    ("wmses", "The wms of the warehouse. They must belong to the organisation."),
    ("defaultWms", "The wms whose stocks a sync sets by default; one of `wmses`."),
];

/// Warehouses.
pub(super) const WAREHOUSE: Described = Described {
    resource: &WAREHOUSES,
    about: "A physical warehouse.",
    fields: OF_WAREHOUSE,
    shapes: &[],
    example: || {
        json!({
            "id": HALL, "name": "Harbour warehouse", "customId": "W1", "wmses": [INVENTORY], "defaultWms": INVENTORY,
            "createdAt": CREATED, "organisation": ORGANISATION, "changedAt": CHANGED, "version": 3,
        })
    },
};

const OF_WMS: &[(&str, &str)] = &[
    ("distributionCenter", "A UUID of your choice."),
    ("warehouses", "The physical warehouses of the wms. They must belong to the organisation."),
];

/// Wms.
pub(super) const WMS: Described = Described {
    resource: &WMSES,
    about: "A virtual warehouse that tracks the inventory in physical ones.",
    fields: OF_WMS,
    shapes: &[],
    example: || {
        json!({
            "id": INVENTORY, "name": "Harbour inventory", "organisation": ORGANISATION, "distributionCenter": ANY,
            "storeKey": "main", "internalId": "1", "createdAt": CREATED, "warehouses": [HALL], "changedAt": CHANGED, "version": 3,
        })
    },
};

/// Stocks.
pub(super) const PRODUCT_STOCK: Described = Described {
    resource: &STOCKS,
    about: "The stock of one product in one warehouse and wms.",
    fields: &[
        ("available", "`quantity` − `booked`."),
        ("incoming", "Pieces announced by open stock advices."),
    ],
    shapes: &[],
    example: || {
        json!({
            "id": STOCK, "organisation": ORGANISATION, "product": PRODUCT, "warehouse": HALL, "wms": INVENTORY,
            "quantity": 120, "booked": 20, "available": 100, "missing": 0, "required": 0, "incoming": 50,
            "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        })
    },
};
