//! Suppliers.

use longshore_domain::list::fields::supplier::SUPPLIER as SUPPLIERS;
use longshore_domain::warehouse::supplier::Supplier;
use serde_json::{Value, json};

use crate::openapi::editable::editable;
use crate::openapi::example::{CHANGED, CREATED, ORGANISATION, SUPPLIER as POTTER};
use crate::openapi::operation::Operation;
use crate::openapi::record::Described;

/// The operations on suppliers.
pub(super) fn operations() -> Vec<Operation> {
    let change = json!({"phone": "+420 200 000 002", "note": null});
    let says = "Changes the given fields; null clears a nullable field. `organisation` cannot be changed.";
    editable::<Supplier>(&SUPPLIER, ["a supplier", "suppliers"], creation(), change, &[says]).into()
}

const MEANINGS: &[(&str, &str)] = &[
    ("active", "Whether the supplier still delivers."),
    ("firstName", "First name of the contact."),
    ("degree", "Title before the name."),
    ("degree2", "Title after the name."),
    ("country", "ISO 3166-1 alpha-2, or `XK` (Kosovo)."),
    ("ref1", "Your own reference."),
    ("ref2", "Your own reference."),
    ("ref3", "Your own reference."),
];

fn creation() -> Value {
    json!({
        "organisation": ORGANISATION, "name": "Potters of the Bay", "active": true,
        "companyName": "Potters of the Bay Ltd.", "street": "Kiln Lane", "houseNr": "7", "city": "Prague",
        "zip": "110 00", "country": "CZ", "phone": "+420 200 000 001", "email": "orders@potters.example",
        "registrationNumber": "10000002", "vatNumber": "CZ10000002", "note": "Delivers on Tuesdays.",
    })
}

/// Suppliers.
pub(in crate::openapi) const SUPPLIER: Described = Described {
    resource: &SUPPLIERS,
    about: "A company that an organisation gets its goods from.",
    fields: MEANINGS,
    shapes: &[],
    example: || {
        let mut record = creation();
        let rest = json!({
            "id": POTTER, "firstName": null, "lastName": null, "degree": null, "degree2": null, "ref1": null,
            "ref2": null, "ref3": null, "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        });
        if let (Value::Object(record), Value::Object(rest)) = (&mut record, rest) {
            record.extend(rest);
        }
        record
    },
};
