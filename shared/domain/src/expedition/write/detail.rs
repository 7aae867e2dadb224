//! The row of `expedition_detail`, and the digest of what it was taken from.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::expedition::body::Detail;
use crate::expedition::order::Order;
use longshore_kernel::crypto::sha256;

/// The row of `expedition_detail`.
pub(in crate::expedition) fn detail_row(
    order: &Order,
    detail: &Detail,
    removed_virtual_products: &[Value],
    user: Option<Uuid>,
    digest: Option<[u8; 32]>,
) -> Value {
    let mut row: Map<String, Value> = detail.columns();
    for (name, value) in [
        ("id", json!(order.id)),
        ("eshop_id", json!(order.eshop)),
        // given, or chosen when it is sent
        ("carrier_id", json!(order.shipper.carrier)),
        ("carrier_service_id", json!(order.shipper.service)),
        ("carrier_preference_id", json!(order.shipper.choice.map(|choice| choice.preference))),
        ("carrier_chosen_at", json!(order.shipper.choice.map(|choice| choice.at))),
        ("removed_virtual_products", json!(removed_virtual_products)),
        ("user_id", json!(user)),
        ("digest", json!(digest.map(|digest| format!("\\x{}", hex::encode(digest))))),
    ] {
        row.insert(name.to_owned(), value);
    }
    Value::Object(row)
}

/// What a row says, as far as it is compared with a later one: its members are sorted, and its numbers are in their shortest
/// form. Whether it is to be sent is no part of it.
pub(in crate::expedition) fn digest(mut row: Value) -> [u8; 32] {
    if let Some(members) = row.as_object_mut() {
        members.remove("send");
        members.remove("eshop");
    }
    sha256(row.to_string().as_bytes())
}
