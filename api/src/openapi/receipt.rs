//! Receipts: of what left for an order, and of what came of a stock advice.

use longshore_domain::list::fields::receipt::{INBOUND_RECEIPT, OUTBOUND_RECEIPT};
use serde_json::{Value, json};

use super::example::{ANY, CHANGED, EXPEDITION, ORGANISATION, STOCK_ADVICE, WAREHOUSE, WMS};
use super::record::Described;

const COUNTS: &[(&str, &str)] = &[
    ("countOfItems", "Items with pieces."),
    ("countOfSku", "Different products."),
    ("sumOfQuantity", "Pieces."),
];

fn receipt(of: &Value) -> Value {
    let mut receipt = json!({
        "organisation": ORGANISATION, "warehouse": WAREHOUSE, "wms": WMS, "wmsInternalId": null, "createdAt": CHANGED,
        "countOfItems": 1, "countOfSku": 1, "sumOfQuantity": 2, "status": "processed",
    });
    for (name, value) in of.as_object().into_iter().flatten() {
        receipt[name] = value.clone();
    }
    receipt
}

/// Receipts of what left.
pub(super) const OUTBOUND: Described = Described {
    resource: &OUTBOUND_RECEIPT,
    about: "What left a warehouse for an order: one for each order that is packed, under the id of the order.",
    fields: COUNTS,
    shapes: &[],
    example: || receipt(&json!({"id": EXPEDITION, "expedition": EXPEDITION, "issuedAt": CHANGED})),
};

/// Receipts of what came.
pub(super) const INBOUND: Described = Described {
    resource: &INBOUND_RECEIPT,
    about: "What came at once of a stock advice: one for each time that it was received.",
    fields: COUNTS,
    shapes: &[],
    example: || receipt(&json!({"id": ANY, "stockAdvice": STOCK_ADVICE, "receivedAt": CHANGED})),
};
