//! The rows of an import, read by their rules.

use std::collections::HashMap;

use serde_json::Value;
use uuid::Uuid;

use super::Known;
use crate::expedition::body::{self, Body, NewItem};
use crate::expedition::write::detail::digest;
use crate::job::row::form::Notice;
use longshore_kernel::input::{Given, Object, Reader, Schema, boolean, int32};
use longshore_kernel::problem::Violation;

/// A row of an import. One that is malformed is judged by what it refers to, too, and refused then.
#[derive(Clone, Debug)]
pub struct Row {
    /// The number of its order.
    pub order_number: String,
    pub(super) asked: Asked,
}

#[derive(Clone, Debug)]
pub(super) enum Asked {
    Take { body: Box<Body>, digest: [u8; 32] },
    Cancel,
}

impl Row {
    /// What it says of its order, if it takes that over.
    fn body(&self) -> Option<&Body> {
        match &self.asked {
            Asked::Take { body, .. } => Some(body),
            Asked::Cancel => None,
        }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &NewItem> {
        self.given_items().iter().filter(|item| !item.is_left_out)
    }

    fn given_items(&self) -> &[NewItem] {
        self.body().and_then(|body| body.items.as_deref()).unwrap_or_default()
    }

    /// What is done to its fields.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        let left_out = self.given_items().iter().enumerate().filter(|(_, item)| item.is_left_out);
        left_out
            .map(|(index, _)| Notice::new(format!("items[{index}]"), "is left out: its quantity is 0"))
            .collect()
    }

    /// Whether it is the row that its order was last taken from: that needs no lock, and no look at the rest of it.
    pub(super) fn is_same(&self, known: &HashMap<String, Known>) -> bool {
        match (&self.asked, known.get(&self.order_number)) {
            (Asked::Take { digest, .. }, Some((_, last))) => last.as_deref() == Some(digest),
            _ => false,
        }
    }

    /// The warehouse and the wms that it names.
    pub(super) fn place(&self) -> (Option<Uuid>, Option<Uuid>) {
        self.body().map(|body| (body.fields.warehouse_id, body.fields.wms_id)).unwrap_or_default()
    }

    /// Whether its order is sent, with what the header says; absent: unless the order, or its e-shop, is set to be edited first.
    pub(super) fn sends(&self, header: Option<bool>) -> Option<bool> {
        let Some(body) = self.body() else { return Some(false) };
        if !body.violations.is_empty() {
            return Some(false);
        }
        let edits_before = body.fields.edit_before_processing.clone().value();
        body.send.or(header).or(edits_before.map(|edits_before| !edits_before))
    }

    /// What its rules refused.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        self.body().map_or(&[], |body| &body.violations)
    }

    pub(super) fn external_id(&self) -> Option<&str> {
        match &self.body()?.fields.external_id {
            Given::Value(id) => Some(id),
            _ => None,
        }
    }
}

/// A row: one that takes over an order, or cancels it.
#[must_use]
pub fn schema() -> Schema {
    Object::schema(|object| {
        Body::members(object, false, members);
        object.optional("cancel", boolean());
    })
}

fn members(object: &mut Object<'_>, body: &mut Body) {
    body.codes.carrier = object.nullable("carrierCode", int32(0..=i32::MAX)).value();
    body.codes.service = object.nullable("carrierServiceCode", int32(0..=i32::MAX)).value();
    body.send = object.nullable("send", boolean()).value();
}

/// Reads a row: the body of a create without `eshop`, or `{"orderNumber", "cancel": true}`. One that does not say its order is
/// refused at once.
pub fn read_row(mut row: Value) -> Result<Row, Vec<Violation>> {
    match row.get("cancel") {
        None => {}
        // as if it were absent: a table has a column of it
        Some(Value::Bool(false)) => {
            row.as_object_mut().map(|members| members.remove("cancel"));
        }
        Some(_) => return read_cancel(row),
    }
    let digest = digest(row.clone());
    let (mut body, ()) = Body::read(row, false, members);
    if body.fields.order_number.is_none() && !body.violations.iter().any(|v| v.property_path == "orderNumber")
    {
        body.violations.push(Violation::new("orderNumber", "required", "is required"));
    }
    match body.fields.order_number.clone() {
        Some(order_number) => Ok(Row { order_number, asked: Asked::Take { body: Box::new(body), digest } }),
        None => Err(body.violations),
    }
}

fn read_cancel(row: Value) -> Result<Row, Vec<Violation>> {
    if row
        .as_object()
        .is_some_and(|members| members.keys().any(|name| name != "orderNumber" && name != "cancel"))
    {
        let message = "must be alone with orderNumber, or absent";
        return Err(vec![Violation::new("cancel", "not_allowed", message)]);
    }
    let mut reader = Reader::default();
    let mut order_number = None;
    if let Some(mut object) = reader.object(row) {
        order_number = object.required("orderNumber", body::order_number());
        object.required("cancel", boolean());
        object.finish();
    }
    match (order_number, reader.into_violations()) {
        (Some(order_number), violations) if violations.is_empty() => {
            Ok(Row { order_number, asked: Asked::Cancel })
        }
        (_, violations) => Err(violations),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cancel_stands_alone_and_false_is_as_if_absent() {
        let violations = |row| read_row(row).err().unwrap_or_default();
        assert!(violations(json!({"orderNumber": "A-1", "cancel": true})).is_empty());
        let beside = violations(json!({"orderNumber": "A-1", "cancel": true, "value": 1, "items": []}));
        assert_eq!(beside.len(), 1);
        assert_eq!((beside[0].property_path.as_str(), beside[0].code), ("cancel", "not_allowed"));
        let row = |cancel: Option<bool>| {
            let mut row = json!({"orderNumber": "A-1", "value": 1});
            if let Some(cancel) = cancel {
                row["cancel"] = cancel.into();
            }
            row
        };
        let paths = |row| violations(row).into_iter().map(|v| v.property_path).collect::<Vec<_>>();
        assert_eq!(paths(row(Some(false))), paths(row(None)));
    }
}
