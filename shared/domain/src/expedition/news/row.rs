//! A report of a warehouse as it comes (`docs/reference/orders.md#news`).

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use crate::expedition::body::{MAX_ITEMS, MAX_QUANTITY, order_number};
use crate::expedition::report::{MOST, Parcel, error, must_be_possible, parcel};
use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::{EshopId, ExpeditionId, ExpeditionItemId, ProductId};
use longshore_kernel::input::{self, Object, Reader, Schema, array, id, int32, one_of, text, timestamp};
use longshore_kernel::problem::Violation;

/// Characters of the id that a warehouse gives its report.
const ID_LENGTH: usize = 100;
/// The statuses that a warehouse can report.
const REPORTED: &[&str] = &[
    "take_out",
    "completion",
    "waiting_for_the_carrier",
    "carrier_picked_up",
    "ready_to_takeover",
    "delivered",
    "incorrect",
];
/// Serial numbers of an item.
const MAX_SERIALS: usize = 10_000;

/// A report about one order.
#[derive(Clone, Debug)]
pub struct Row {
    /// What the warehouse calls it; unique in the wms.
    pub id: String,
    /// What it says, with its members sorted.
    pub(super) text: String,
    /// SHA-256 of that.
    pub(super) digest: [u8; 32],
    pub(super) about: About,
    /// The number of the hand-over; absent: the latest one.
    pub(super) number: Option<i32>,
    pub(super) at: Option<DateTime<Utc>>,
    pub(super) status: Option<Status>,
    pub(super) items: Option<Vec<Sent>>,
    pub(super) parcels: Vec<Parcel>,
    pub(super) errors: Option<Value>,
    pub(super) cancel: Option<Cancel>,
    pub(super) internal_id: Option<String>,
}

/// Which order a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    Id(ExpeditionId),
    Number { eshop: EshopId, order_number: String },
}

/// What left of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) of: Of,
    pub(super) pieces: i32,
    pub(super) lot: Option<String>,
    pub(super) serials: Vec<String>,
}

/// Which item: itself, or all items of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Item(ExpeditionItemId),
    Product(ProductId),
    Sku(String),
}

/// How the warehouse answers a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    Accepted,
    Refused,
}

impl Cancel {
    const WORDS: &[&str] = &["accepted", "refused"];

    fn of(word: &str) -> Self {
        if word == "accepted" { Self::Accepted } else { Self::Refused }
    }

    fn word(self) -> &'static str {
        Self::WORDS[usize::from(self == Self::Refused)]
    }
}

impl Row {
    /// Whether it says that the order was packed.
    pub(super) fn is_packed(&self) -> bool {
        self.status.is_some_and(Status::is_packed)
    }

    /// Whether pieces may leave a stock by it, or be given back.
    pub(super) fn may_move(&self) -> bool {
        self.is_packed() || self.status == Some(Status::Incorrect) || self.cancel == Some(Cancel::Accepted)
    }

    /// What the audit keeps of it.
    pub(super) fn kept(&self) -> Value {
        let mut kept = Map::new();
        let mut keep = |name: &str, value: Value| {
            if !value.is_null() {
                kept.insert(name.to_owned(), value);
            }
        };
        keep("id", json!(self.id));
        keep("number", json!(self.number));
        keep("status", json!(self.status));
        keep("at", json!(self.at));
        keep("cancel", json!(self.cancel.map(Cancel::word)));
        kept.into()
    }
}

/// A report.
#[must_use]
pub fn schema() -> Schema {
    Object::schema(members)
}

/// Reads a report at that moment.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_row(row: Value, now: DateTime<Utc>) -> Result<Row, Vec<Violation>> {
    let text = row.to_string();
    let mut reader = Reader::default();
    let mut read = None;
    if let Some(mut object) = reader.object(row) {
        read = members(&mut object);
        must_be_possible(&mut object, read.as_ref().and_then(|row| row.at), now);
        object.finish();
    }
    match (read, reader.into_violations()) {
        (Some(row), violations) if violations.is_empty() => {
            Ok(Row { digest: sha256(text.as_bytes()), text, ..row })
        }
        (_, violations) => Err(violations),
    }
}

fn members(object: &mut Object<'_>) -> Option<Row> {
    object.empty_is_null();
    let id = object.required("id", text(1..=ID_LENGTH));
    let about = about(object);
    let number = object.nullable("number", int32(0..=i32::MAX)).value();
    let at = object.nullable("at", timestamp()).value();
    let status = object.nullable("status", one_of(REPORTED)).value();
    let status = status.and_then(|status| status.parse::<Status>().ok());
    let items = object.optional("items", array(1..=MAX_ITEMS, input::object(item)));
    let parcels = object.optional("parcels", array(1..=MOST, input::object(parcel))).unwrap_or_default();
    let gives_errors = object.has("errors");
    let errors = object.optional("errors", array(1..=MOST, input::object(error)));
    let cancel = object.nullable("cancel", one_of(Cancel::WORDS)).value().map(Cancel::of);
    let internal_id = object.nullable("wmsInternalId", text(1..=255)).value();
    if gives_errors != (status == Some(Status::Incorrect)) {
        let (code, message) = if gives_errors {
            ("not_allowed", "is allowed with the status incorrect only")
        } else {
            ("required", "is required with the status incorrect")
        };
        object.refuse("errors", code, message);
    }
    if items.is_some() && !status.is_some_and(Status::is_packed) {
        object.refuse("items", "not_allowed", "is allowed from the status waiting_for_the_carrier on");
    }
    if cancel == Some(Cancel::Accepted) && status.is_some() {
        object.refuse("cancel", "not_allowed", "must not be accepted where a status is given");
    }
    Some(Row {
        id: id?,
        text: String::new(),
        digest: [0; 32],
        about: about?,
        number,
        at,
        status,
        items,
        parcels,
        errors: errors.map(Value::Array),
        cancel,
        internal_id,
    })
}

fn about(object: &mut Object<'_>) -> Option<About> {
    let expedition = object.nullable("expedition", id()).value();
    let eshop = object.nullable("eshop", id()).value();
    let order_number = object.nullable("orderNumber", order_number()).value();
    match (expedition, eshop, order_number) {
        (Some(id), None, None) => Some(About::Id(id.into())),
        (None, Some(eshop), Some(order_number)) => Some(About::Number { eshop: eshop.into(), order_number }),
        (Some(_), ..) => {
            object.refuse("expedition", "not_allowed", "is not allowed beside eshop and orderNumber");
            None
        }
        _ => {
            object.refuse("expedition", "required", "is required, or eshop and orderNumber");
            None
        }
    }
}

fn item(item: &mut Object<'_>) -> Option<Sent> {
    item.empty_is_null();
    let by_id = item.nullable("id", id()).value().map(|id| Of::Item(id.into()));
    let by_product = item.nullable("product", id()).value().map(|id| Of::Product(id.into()));
    let by_sku = item.nullable("productSku", text(1..=255)).value().map(Of::Sku);
    let pieces = item.required("expedited", int32(0..=MAX_QUANTITY));
    let lot = item.nullable("lot", text(1..=255)).value();
    let serials = item.optional("serialNumbers", array(0..=MAX_SERIALS, text(1..=255))).unwrap_or_default();
    let mut named = [by_id, by_product, by_sku].into_iter().flatten();
    let of = named.next();
    if of.is_none() {
        item.refuse("id", "required", "is required, or product, or productSku");
    }
    if named.next().is_some() {
        item.refuse("id", "not_allowed", "must be the only one of id, product and productSku");
    }
    Some(Sent { of: of?, pieces: pieces?, lot, serials })
}
