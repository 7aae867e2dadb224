//! Stock advices.

use longshore_shared::list::fields::stock_advice::STOCK_ADVICE as ADVICES;
use longshore_shared::warehouse::stock_advice::rules::{MAX_ITEMS, MAX_QUANTITY, MAX_UNITS, NOTE_LENGTH};
use serde_json::json;

use crate::openapi::example::{
    CHANGED, CREATED, ORGANISATION, PRODUCT, STOCK_ADVICE as ADVICE, STOCK_ADVICE_ITEM as ITEM, SUPPLIER,
    WAREHOUSE, WMS,
};
use crate::openapi::operation::{Operation, list, post, put, read};
use crate::openapi::record::Described;
use crate::openapi::schema::{Shape, array, boolean, default, id, integer, object, text, timestamp};
use crate::routes::warehouse::stock_advice as handlers;

/// When the goods of the examples should arrive.
const EXPECTED: &str = "2026-03-01T08:00:00+00:00";

/// The operations on stock advices.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        list("/api/stock-advice/list", handlers::list_stock_advices, &ADVICES, "Lists stock advices"),
        post("/api/stock-advice", handlers::create_stock_advice, "Announces goods")
            .says(
                "What is announced is `incoming` in the stock of each product. `internalId` is unique in the organisation: \
                 one that is taken is 400 `already_taken`. More than a stock can hold is 409.",
            )
            .body("StockAdviceToCreate", to_create(), json!({
                "organisation": ORGANISATION, "warehouse": WAREHOUSE, "wms": WMS, "supplier": SUPPLIER,
                "packagingUnit": "pallet", "countOfUnits": 2, "items": [{"product": PRODUCT, "quantity": 50}],
                "note": "By lorry.", "internalId": "PO-2026-0042", "expectedAt": EXPECTED, "ref1": "A-7",
            }))
            .created(&ADVICES),
        read("/api/stock-advice/{id}", handlers::get_stock_advice, &ADVICES, "Reads a stock advice"),
        put("/api/stock-advice/{id}/receive", handlers::receive_stock_advice, "Receives goods")
            .says(
                "What has come goes from `incoming` into stock, also when it is more than was announced. The advice is \
                 `receiving` until it is closed; then what has not come is expected no more. 409 where it has ended, or a \
                 stock cannot hold as much.",
            )
            .body("Receipt", receipt(), json!({"items": [{"id": ITEM, "quantity": 10}], "close": false}))
            .updated(&ADVICES),
        put("/api/stock-advice/{id}/cancel", handlers::cancel_stock_advice, "Cancels a stock advice")
            .says("What has not come is expected no more; what has stays in stock. 409 where it has ended.")
            .updated(&ADVICES),
    ]
}

fn to_create() -> Shape {
    let item = object()
        .required("product", id())
        .required("quantity", integer(1..=i64::from(MAX_QUANTITY)))
        .explain(&[("product", "A physical one."), ("quantity", "Pieces.")]);
    object()
        .about("Goods to be announced.")
        .required("organisation", id())
        .required("warehouse", id())
        .required("wms", id())
        .required("supplier", id())
        .nullable("packagingUnit", text(0..=255))
        .nullable("countOfUnits", integer(0..=i64::from(MAX_UNITS)))
        .required("items", array(1..=MAX_ITEMS, item.called("StockAdviceItemToCreate")))
        .nullable("note", text(0..=NOTE_LENGTH))
        .required("internalId", text(1..=255))
        .required("expectedAt", timestamp())
        .nullable("ref1", text(0..=255))
        .nullable("ref2", text(0..=255))
        .nullable("ref3", text(0..=255))
        .explain(MEANINGS)
}

fn receipt() -> Shape {
    let arrived = object()
        .required("id", id())
        .required("quantity", integer(1..=i64::from(MAX_QUANTITY)))
        .explain(&[("id", "The item, each once."), ("quantity", "Pieces that have come now.")]);
    object()
        .about("What has come.")
        .required("items", array(0..=MAX_ITEMS, arrived.called("ReceiptItem")))
        .optional("close", default(boolean(), false))
        .explain(&[
            ("items", "Empty only where it closes the advice."),
            ("close", "Whether nothing more is to come."),
        ])
}

const MEANINGS: &[(&str, &str)] = &[
    ("warehouse", "Where the goods go."),
    ("wms", "The wms that takes them; it works in the warehouse."),
    ("supplier", "Whence they come."),
    ("packagingUnit", "What they come in, such as `pallet`."),
    ("countOfUnits", "How many of these."),
    ("items", "What comes; a product may stand there several times."),
    ("internalId", "The client's own number; unique in the organisation."),
    ("expectedAt", "When they should arrive."),
    ("ref1", "For the client's own use."),
    ("ref2", "For the client's own use."),
    ("ref3", "For the client's own use."),
    ("status", "`closed` and `cancelled` are ends."),
    ("countOfItems", "Items."),
    ("countOfSku", "Products among them."),
    ("sumOfQuantity", "Pieces that were announced."),
];

/// Stock advices.
pub(in crate::openapi) const STOCK_ADVICE: Described = Described {
    resource: &ADVICES,
    about: "Goods on their way from a supplier to a warehouse.",
    fields: MEANINGS,
    shapes: &[],
    example: || {
        json!({
            "id": ADVICE, "organisation": ORGANISATION, "warehouse": WAREHOUSE, "wms": WMS, "supplier": SUPPLIER,
            "packagingUnit": "pallet", "countOfUnits": 2,
            "items": [{"id": ITEM, "product": PRODUCT, "quantity": 50, "received": 10}], "note": "By lorry.",
            "internalId": "PO-2026-0042", "expectedAt": EXPECTED, "ref1": "A-7", "ref2": null, "ref3": null,
            "status": "receiving", "countOfItems": 1, "countOfSku": 1, "sumOfQuantity": 50, "createdAt": CREATED,
            "changedAt": CHANGED, "version": 3,
        })
    },
};
