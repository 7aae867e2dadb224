//! The rules of the members that need more than one of the common rules, and of items.

use serde_json::{Value, json};

use super::{MAX_ITEMS, MAX_QUANTITY, NUMBER_LENGTH, NewItem};
use longshore_kernel::amount::amount;
use longshore_kernel::currency::currency;
use longshore_kernel::input::{
    Object, Reader, Rule, Schema, array, boolean, custom, drafts, id, int32, object, one_of, text, text_like,
};

/// The items of a body. What of an item is refused is blank.
pub(super) fn items() -> impl Rule<Out = Vec<NewItem>> + Clone {
    drafts(1..=MAX_ITEMS, object(|object| Some(item(object))))
}

/// Members of an item that only a record has, and those that have no effect.
const ITEM_IGNORES: &[&str] = &[
    "id",
    "expedition",
    "position",
    "booked",
    "missing",
    "expedited",
    "assignedLot",
    "serialNumbers",
    "bundle",
    "createdAt",
    "changedAt",
];

fn item(object: &mut Object<'_>) -> NewItem {
    object.empty_is_null();
    object.take_others(|name| ITEM_IGNORES.contains(&name));
    let names_product = object.has("product") || object.has("productSku");
    let product = object.optional("product", id());
    let product_sku = object.optional("productSku", text(1..=255));
    let quantity = object.required("quantity", int32(0..=MAX_QUANTITY));
    let columns = [
        ("product_value", json!(object.nullable("productValue", amount()).value())),
        ("product_value_currency", json!(object.nullable("productValueCurrency", currency()).value())),
        ("product_label", json!(object.nullable("productLabel", text(0..=255)).value())),
        ("lot", json!(object.nullable("lot", text(0..=255)).value())),
        ("ref1", json!(object.nullable("ref1", text(0..=255)).value())),
        ("ref2", json!(object.nullable("ref2", text(0..=255)).value())),
        ("ref3", json!(object.nullable("ref3", text(0..=255)).value())),
        ("lifo", json!(object.optional_or("lifo", flag(), false))),
        ("book", json!(object.nullable("book", int32(0..=i32::MAX)).value())),
        ("book_limit", json!(object.nullable("bookLimit", int32(0..=i32::MAX)).value())),
        ("book_stock_advices", json!(object.nullable("bookStockAdvices", advices()).value())),
    ];
    let columns = columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if !names_product {
        object.refuse("product", "required", "is required, or productSku");
    }
    let is_left_out = quantity == Some(0);
    NewItem { product, product_sku, quantity: quantity.unwrap_or_default(), is_left_out, columns }
}

fn advices() -> impl Rule<Out = Vec<Value>> + Clone {
    array(
        0..=MAX_ITEMS,
        object(|advice| {
            advice.take_others(|name| name == "expeditionItem");
            let item = advice.required("stockAdviceItem", id());
            let quantity = advice.required("quantity", int32(1..=MAX_QUANTITY));
            Some(json!({"stockAdviceItem": item?, "quantity": quantity?}))
        }),
    )
}

/// A boolean, or one in a string, as some clients send it.
fn flag() -> impl Rule<Out = bool> + Clone {
    const WORDS: &[&str] = &["true", "false"];
    custom(Schema::Either(vec![Schema::Boolean, Schema::OneOf(WORDS)]), |reader, value| match value {
        Value::String(_) => one_of(WORDS).apply(reader, value).map(|text| text == "true"),
        other => boolean().apply(reader, other),
    })
}

/// A string; an integer is taken as its digits, as some clients send zips.
pub(super) fn digits() -> impl Rule<Out = String> + Clone {
    let schema = Schema::Either(vec![text(0..=255).schema(), Schema::Integer(0..=i64::MAX)]);
    custom(schema, |reader, value| match value {
        Value::Number(number) if number.is_u64() => Some(number.to_string()),
        other => text(0..=255).apply(reader, other),
    })
}

/// The number of an order.
pub(in crate::expedition) fn order_number() -> impl Rule<Out = String> + Clone {
    text_like(1..=NUMBER_LENGTH, "^[A-Za-z0-9_/.#-]+$").then(|reader: &mut Reader, number: String| {
        let is_known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/' | b'-' | b'.' | b'#');
        if number.bytes().all(is_known) {
            return Some(number);
        }
        reader.refuse("invalid_character", "must consist of letters, digits, _, /, -, . and #");
        None
    })
}

pub(super) fn variable_symbol() -> impl Rule<Out = String> + Clone {
    text_like(0..=20, "^[0-9]*$").then(|reader: &mut Reader, symbol: String| {
        if symbol.bytes().all(|b| b.is_ascii_digit()) {
            return Some(symbol);
        }
        reader.refuse("invalid_character", "must consist of digits");
        None
    })
}

/// `{recipientIdentificationNumber}`; some clients send it as an array of one, or of nothing, which the document does not show.
pub(super) fn carrier_options() -> impl Rule<Out = Value> + Clone {
    let options = object(|options| {
        options.empty_is_null();
        let number = options.nullable("recipientIdentificationNumber", text(0..=255)).value();
        Some(json!({ "recipientIdentificationNumber": number }))
    });
    custom(options.schema(), move |reader, value| match value {
        Value::Array(mut array) if array.len() == 1 => {
            reader.element(0, |reader| options.apply(reader, array.remove(0)))
        }
        Value::Array(array) if array.is_empty() => options.apply(reader, json!({})),
        other => options.apply(reader, other),
    })
}
