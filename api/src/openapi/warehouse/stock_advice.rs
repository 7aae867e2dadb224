//! Stock advices.

use longshore_domain::list::fields::stock_advice::STOCK_ADVICE as ADVICES;
use longshore_domain::warehouse::stock_advice::rules;
use serde_json::json;

use crate::openapi::example::{
    CHANGED, CREATED, ORGANISATION, PRODUCT, STOCK_ADVICE as ADVICE, STOCK_ADVICE_ITEM as ITEM, SUPPLIER,
    WAREHOUSE, WMS,
};
use crate::openapi::operation::{Operation, list, operation, read};
use crate::openapi::record::Described;
use crate::openapi::schema::{Shape, body_of};
use crate::routes::warehouse::stock_advice as handlers;

/// When the goods of the examples should arrive.
const EXPECTED: &str = "2026-03-01T08:00:00+00:00";

/// The operations on stock advices.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        list(handlers::list_stock_advices, &STOCK_ADVICE, "Lists stock advices"),
        operation(handlers::create_stock_advice, "Creates a stock advice")
            .says(
                "Adds the announced pieces to `incoming` in the stock of each product. `internalId` must be unique in the organisation; otherwise 400 `already_taken`. 409 if a stock would exceed its maximum.",
            )
            .body("StockAdviceToCreate", to_create(), json!({
                "organisation": ORGANISATION, "warehouse": WAREHOUSE, "wms": WMS, "supplier": SUPPLIER,
                "packagingUnit": "pallet", "countOfUnits": 2, "items": [{"product": PRODUCT, "quantity": 50}],
                "note": "By lorry.", "internalId": "PO-2026-0042", "expectedAt": EXPECTED, "ref1": "A-7",
            }))
            .created(&STOCK_ADVICE),
        read(handlers::get_stock_advice, &STOCK_ADVICE, "Reads a stock advice"),
        operation(handlers::receive_stock_advice, "Receives goods of a stock advice")
            .says(
                "Moves the received pieces from `incoming` to the stock, even if they are more than announced. The stock advice is `receiving` until it is closed; after that, missing pieces are no longer expected. 409 if it has ended, or if a stock would exceed its maximum.",
            )
            .body("Receipt", receipt(), json!({"items": [{"id": ITEM, "quantity": 10}], "close": false}))
            .updated(&STOCK_ADVICE),
        operation(handlers::cancel_stock_advice, "Cancels a stock advice")
            .says("Missing pieces are no longer expected; received pieces stay in stock. 409 if the stock advice has ended.")
            .updated(&STOCK_ADVICE),
    ]
}

fn to_create() -> Shape {
    let meanings = &[("product", "A physical product."), ("quantity", "Pieces.")];
    body_of(&rules::body_to_create())
        .about("A stock advice to create.")
        .part("items", |item| item.explain(meanings).called("StockAdviceItemToCreate"))
        .explain(MEANINGS)
}

fn receipt() -> Shape {
    let meanings = &[("id", "The item. Each item may appear once."), ("quantity", "Pieces received now.")];
    body_of(&rules::receipt())
        .about("Received goods.")
        .part("items", |arrived| arrived.explain(meanings).called("ReceiptItem"))
        .explain(&[
            ("items", "May be empty only if `close` is true."),
            ("close", "Whether to close the stock advice: no more goods are expected."),
        ])
}

const MEANINGS: &[(&str, &str)] = &[
    ("warehouse", "The warehouse that receives the goods."),
    ("wms", "The wms that receives the goods. It must be linked to the warehouse."),
    ("supplier", "The supplier of the goods."),
    ("packagingUnit", "The packaging unit, such as `pallet`."),
    ("countOfUnits", "The number of packaging units."),
    ("items", "The announced items. A product may appear several times."),
    ("internalId", "The number of the stock advice in your own system. It is unique in the organisation."),
    ("expectedAt", "When the goods should arrive."),
    ("ref1", "Your own reference."),
    ("ref2", "Your own reference."),
    ("ref3", "Your own reference."),
    ("status", "`closed` and `cancelled` are final."),
    ("countOfItems", "Number of items."),
    ("countOfSku", "Number of different products."),
    ("sumOfQuantity", "Number of announced pieces."),
];

/// Stock advices.
pub(in crate::openapi) const STOCK_ADVICE: Described = Described {
    resource: &ADVICES,
    about: "An announcement of incoming goods.",
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
