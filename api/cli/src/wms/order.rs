//! The orders of a check.

use anyhow::ensure;
use longshore_client::Uuid;
use serde_json::{Value, json};

/// An order as Longshore hands it over, but made up.
pub(super) fn made_up(sku: &str) -> Value {
    let id = random_id;
    let item = json!({
        "id": id(), "position": 0, "product": id(), "productSku": sku, "name": "Check of the hand-over",
        "referenceNumbers": [], "quantity": 2, "booked": 2, "missing": 0, "lot": null, "lifo": false,
        "workAroundEanSticker": false, "workAroundLot": false, "workAroundSnIn": false, "workAroundWarrantyInf": false,
    });
    let mut order = json!({
        "organisation": id(), "eshop": id(), "warehouse": id(), "wms": id(), "status": "awaiting_processing",
        "value": 24.8, "currency": "EUR", "cod": false, "carrier": id(), "carrierCode": "check", "carrierService": null,
        "carrierServiceCode": null, "note": "A check of the hand-over. Do not ship it.", "differentDeliveryAddress": false,
        "countOfItems": 1, "countOfSku": 1, "sumOfQuantity": 2, "parcels": [], "version": 4, "items": [item],
    });
    for (name, text) in [
        ("FirstName", "Žofie"),
        ("LastName", "Nováková"),
        ("Street", "Na Příkopě"),
        ("HouseNr", "12"),
        ("Zip", "11000"),
        ("City", "Praha"),
        ("Country", "CZ"),
    ] {
        order[format!("billing{name}")] = json!(text);
        order[format!("delivery{name}")] = json!(text);
    }
    order
}

/// An order of a file.
pub(super) fn read(text: &str) -> anyhow::Result<Value> {
    let order: Value = serde_json::from_str(text)?;
    let items = order["items"].as_array();
    ensure!(
        items.is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_object)),
        "it has no items"
    );
    Ok(order)
}

/// A template as the order with this id and hand-over number.
pub(super) fn with(template: &Value, id: Uuid, number: u64) -> Value {
    let mut order = template.clone();
    order["id"] = json!(id);
    order["orderNumber"] = json!(order_number(id));
    if order["eshop"].is_null() {
        // one that is read from a file need not have it, and every order has
        order["eshop"] = json!(Uuid::from_u128(1));
    }
    order["number"] = json!(number);
    for item in order["items"].as_array_mut().into_iter().flatten() {
        item["expedition"] = json!(id);
    }
    order
}

fn order_number(id: Uuid) -> String {
    format!("CHECK-{}", &id.simple().to_string()[..12])
}

/// The same with the number that the first order has for the e-shop.
pub(super) fn as_first(mut order: Value, first: Uuid) -> Value {
    order["orderNumber"] = json!(order_number(first));
    order
}

/// The same with another SKU in each item.
pub(super) fn of_sku(mut order: Value, sku: &str) -> Value {
    for item in order["items"].as_array_mut().into_iter().flatten() {
        item["productSku"] = json!(sku);
    }
    order
}

/// The same as it is after a change that is possible while it is handed over.
pub(super) fn edited(mut order: Value) -> Value {
    order["ref1"] = json!("changed since");
    order["version"] = json!(order["version"].as_i64().unwrap_or(1) + 1);
    order
}

/// A new id.
pub(super) fn random_id() -> Uuid {
    #[expect(clippy::disallowed_methods, reason = "ids of a check have no order")]
    Uuid::new_v4()
}
