//! The order (`docs/reference/lists.md#sort`): every order ends with the id, so that pages never overlap.
//!
//! Null comes after every value, in either order. Only nullable keys say where null goes: for all others, an index serves
//! both directions, and the id at the end has the direction of the last key, so that an index on both serves both.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::criteria::Level;
use super::path::{Place, Step, resolve};
use super::resource::{Kind, Resource, field};
use super::sql::{Alias, Binder, Sql};
use longshore_kernel::input::{self, Reader, Rule as _, custom};

/// Keys that an order may have.
pub const KEYS: RangeInclusive<usize> = 0..=16;

/// Which way a key goes.
const ORDERS: &[&str] = &["ASC", "DESC"];

/// One key of an order.
#[derive(Clone, Debug)]
pub(super) struct Key {
    place: Place,
    descending: bool,
}

/// Reads an element of `sort`.
pub(super) fn read(reader: &mut Reader, resource: &'static Resource, value: Value) -> Option<Key> {
    let mut object = reader.object(value)?;
    let path = input::text(1..=255).then(|reader: &mut Reader, path: String| {
        let place = resolve(reader, resource, &path)?;
        if place.steps.iter().any(|step| !matches!(step, Step::One(..))) {
            reader.refuse("not_sortable", "may refer to several records, so lists cannot be sorted by it");
            return None;
        }
        if !is_sortable(&place.field.kind) {
            reader.refuse("not_sortable", "cannot be sorted by");
            return None;
        }
        Some(place)
    });
    let place = object.required("field", path);
    let order = input::one_of(ORDERS);
    let order = custom(order.schema(), move |reader: &mut Reader, value| match value {
        // in any case
        Value::String(text) => order.apply(reader, Value::String(text.to_ascii_uppercase())),
        other => order.apply(reader, other),
    });
    let order = object.optional("order", order);
    object.finish();
    Some(Key { place: place?, descending: order == Some("DESC") })
}

/// Whether fields of a kind have an order.
#[must_use]
fn is_sortable(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Id
            | Kind::Text
            | Kind::Integer
            | Kind::Number
            | Kind::Timestamp
            | Kind::Date
            | Kind::Boolean
            | Kind::One(_)
    )
}

/// The default order.
pub(super) fn default(resource: &'static Resource) -> Vec<Key> {
    let field = field(resource.fields, resource.order);
    field
        .map(|field| Key {
            place: Place { steps: Vec::new(), field, nullable: field.nullable },
            descending: false,
        })
        .into_iter()
        .collect()
}

/// An order as SQL.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// What the inner query selects besides the row: `, … AS s0, … AS s1`.
    pub(super) keys: Sql,
    /// What it orders by.
    pub(super) inner: Sql,
    /// The same in terms of its result.
    pub(super) outer: Sql,
}

impl Order {
    /// Writes it, joining what it needs.
    pub(super) fn new(binder: &mut Binder<'_>, level: &mut Level, keys: &[Key]) -> Self {
        let mut order = Self::default();
        let mut unique = false;
        for (number, key) in keys.iter().enumerate() {
            let mut row = level.row;
            for step in &key.place.steps {
                if let Step::One(field, related) = step {
                    row = level.reach(binder, row, field, related);
                }
            }
            unique = key.place.steps.is_empty() && key.place.field.name == "id";
            let way = match (key.descending, key.place.nullable) {
                (true, true) => " DESC NULLS LAST",
                (true, false) => " DESC",
                (false, _) => "",
            };
            let end = if unique { "" } else { ", " };
            order.keys.push(", ").expression(key.place.field.sql, row).push(" AS s").number(number);
            order.inner.expression(key.place.field.sql, row).push(way).push(end);
            order.outer.push("s").number(number).push(way).push(end);
            if unique {
                // nothing is left for a further key to decide
                break;
            }
        }
        if unique {
            return order;
        }
        let way = if keys.last().is_some_and(|key| key.descending) { ".id DESC" } else { ".id" };
        order.inner.alias(level.row).push(way);
        order.outer.alias(Alias::ROOT).push(way);
        order
    }
}
