//! What may be said of a stock advice (`docs/reference/warehouses.md#stock-advice`).

use chrono::{DateTime, Utc};
use uuid::Uuid;

use longshore_kernel::ids::{AdviceItemId, OrganisationId};
use longshore_kernel::input::{
    self, Object, Reader, Rule, boolean, drafts, id, int32, object, text, timestamp,
};

/// Items that an advice may have.
pub const MAX_ITEMS: usize = 5_000;
/// Pieces of an item, announced or received at once.
pub const MAX_QUANTITY: i32 = 1_000_000;
/// Packaging units of an advice.
pub const MAX_UNITS: i32 = 1_000_000;
/// Characters of a note.
pub const NOTE_LENGTH: usize = 10_000;

/// What a new advice is to be. Of a body that was refused, what was refused is blank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewAdvice {
    /// Whose it is.
    pub organisation: OrganisationId,
    /// Where the goods go.
    pub warehouse: Uuid,
    /// The wms that takes them.
    pub wms: Uuid,
    /// The supplier of the goods.
    pub supplier: Uuid,
    /// Kind of packaging unit.
    pub packaging_unit: Option<String>,
    /// How many of these.
    pub count_of_units: Option<i32>,
    /// The items; a product may appear several times.
    pub items: Vec<NewItem>,
    /// Free note.
    pub note: Option<String>,
    /// The client's own number.
    pub internal_id: String,
    /// When the goods should arrive.
    pub expected_at: DateTime<Utc>,
    /// Reference fields.
    pub refs: [Option<String>; 3],
}

/// One item of a new advice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewItem {
    /// The product.
    pub product: Uuid,
    /// Pieces.
    pub quantity: i32,
}

/// What has arrived. Of a body that was refused, what was refused is blank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Pieces that have come now, beside those received before; each item once.
    pub items: Vec<Arrived>,
    /// Whether nothing more is to come.
    pub close: bool,
}

/// What has arrived of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The item.
    pub id: AdviceItemId,
    /// Pieces.
    pub quantity: i32,
}

/// The body of a create.
pub fn body_to_create() -> impl Rule<Out = NewAdvice> {
    object(|object| {
        let organisation = object.required("organisation", id());
        let warehouse = object.required("warehouse", id());
        let wms = object.required("wms", id());
        let supplier = object.required("supplier", id());
        let packaging_unit = object.nullable("packagingUnit", text(0..=255)).value();
        let count_of_units = object.nullable("countOfUnits", int32(0..=MAX_UNITS)).value();
        let items =
            object.required("items", drafts(1..=MAX_ITEMS, input::object(|item| Some(new_item(item)))));
        let note = object.nullable("note", text(0..=NOTE_LENGTH)).value();
        let internal_id = object.required("internalId", text(1..=255));
        let expected_at = object.required("expectedAt", timestamp());
        let refs = ["ref1", "ref2", "ref3"].map(|name| object.nullable(name, text(0..=255)).value());
        Some(NewAdvice {
            organisation: organisation.unwrap_or_default().into(),
            warehouse: warehouse.unwrap_or_default(),
            wms: wms.unwrap_or_default(),
            supplier: supplier.unwrap_or_default(),
            packaging_unit,
            count_of_units,
            items: items.unwrap_or_default(),
            note,
            internal_id: internal_id.unwrap_or_default(),
            expected_at: expected_at.unwrap_or_default(),
            refs,
        })
    })
}

fn new_item(object: &mut Object<'_>) -> NewItem {
    let product = object.required("product", id()).unwrap_or_default();
    let quantity = object.required("quantity", int32(1..=MAX_QUANTITY)).unwrap_or_default();
    NewItem { product, quantity }
}

/// The body of a receipt. `items` may be empty where it closes the advice.
pub fn receipt() -> impl Rule<Out = Receipt> {
    let items = drafts(0..=MAX_ITEMS, object(|item| Some(arrived(item))));
    let items = items.then(|reader: &mut Reader, items: Vec<Arrived>| {
        reader.differ("id", items.iter().map(|item| item.id));
        Some(items)
    });
    object(|object| {
        let items = object.required("items", items);
        let close = object.optional_or("close", boolean(), false);
        if items.as_ref().is_some_and(Vec::is_empty) && !close {
            object.refuse("items", "invalid_count", "must have an element, unless the advice is closed");
        }
        Some(Receipt { items: items.unwrap_or_default(), close })
    })
}

fn arrived(object: &mut Object<'_>) -> Arrived {
    let id = object.required("id", id()).unwrap_or_default();
    let quantity = object.required("quantity", int32(1..=MAX_QUANTITY)).unwrap_or_default();
    Arrived { id: id.into(), quantity }
}
