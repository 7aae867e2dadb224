//! Warehouses, wms and stock.

use longshore_shared::warehouse::stock::fields::PRODUCT_STOCK as STOCKS;
use longshore_shared::warehouse::warehouse::fields::WAREHOUSE as WAREHOUSES;
use longshore_shared::warehouse::wms::fields::WMS as WMSES;
use serde_json::json;

use super::example::{
    ANY, CHANGED, CREATED, ORGANISATION, PRODUCT, PRODUCT_STOCK as STOCK, WAREHOUSE as HALL, WMS as INVENTORY,
};
use super::operation::{Operation, list, read};
use super::record::Described;
use crate::routes::warehouse::read as handlers;

/// Operations of this room.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        list("/api/warehouse/list", handlers::list_warehouses, &WAREHOUSES, "Lists warehouses"),
        list("/api/wms/list", handlers::list_wmses, &WMSES, "Lists wms"),
        list("/api/product-stock/list", handlers::list_product_stocks, &STOCKS, "Lists stocks"),
        read("/api/product-stock/{id}", handlers::get_product_stock, &STOCKS, "Reads a stock")
            .section("decisions, section 4"),
    ]
}

/// Warehouses.
pub(super) const WAREHOUSE: Described = Described {
    resource: &WAREHOUSES,
    about: "A physical warehouse.",
    fields: &[
        ("wmses", "The wms that work in it."),
        ("defaultWms", "Where stocks are set unless a sync says otherwise."),
    ],
    shapes: &[],
    example: || {
        json!({
            "id": HALL, "name": "Harbour warehouse", "customId": "W1", "wmses": [INVENTORY], "defaultWms": INVENTORY,
            "createdAt": CREATED, "organisation": ORGANISATION, "changedAt": CHANGED,
        })
    },
};

/// Wms.
pub(super) const WMS: Described = Described {
    resource: &WMSES,
    about: "A virtual warehouse, linked to physical ones: it tracks inventory, stock movements and shipments.",
    fields: &[("distributionCenter", "Any uuid."), ("warehouses", "The warehouses it works in.")],
    shapes: &[],
    example: || {
        json!({
            "id": INVENTORY, "name": "Harbour inventory", "organisation": ORGANISATION, "distributionCenter": ANY,
            "storeKey": "main", "internalId": "1", "createdAt": CREATED, "warehouses": [HALL], "changedAt": CHANGED,
        })
    },
};

/// Stocks.
pub(super) const PRODUCT_STOCK: Described = Described {
    resource: &STOCKS,
    about: "What is in stock: one row a product, warehouse and wms.",
    fields: &[("available", "`quantity` − `booked`."), ("incoming", "Announced by open stock advices.")],
    shapes: &[],
    example: || {
        json!({
            "id": STOCK, "organisation": ORGANISATION, "product": PRODUCT, "warehouse": HALL, "wms": INVENTORY,
            "quantity": 120, "booked": 20, "available": 100, "missing": 0, "required": 0, "incoming": 50,
            "createdAt": CREATED, "changedAt": CHANGED,
        })
    },
};
