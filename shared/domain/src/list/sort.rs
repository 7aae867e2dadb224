//! The order (`docs/reference/lists.md#sort`): every order ends with the id, so that pages never overlap.
//!
//! Null comes after every value, in either order. Only nullable keys say where null goes: for all others, an index serves
//! both directions, and the id at the end has the direction of the last key, so that an index on both serves both.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::criteria::{Level, Operand};
use super::path::{Step, Target, resolve};
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
    /// As the caller wrote it.
    pub(super) path: String,
    pub(super) target: Target,
    pub(super) descending: bool,
}

impl Key {
    fn is_id(&self) -> bool {
        self.target.steps.is_empty() && self.target.field.name == "id"
    }
}

/// Reads an element of `sort`.
pub(super) fn read(reader: &mut Reader, resource: &'static Resource, value: Value) -> Option<Key> {
    let mut object = reader.object(value)?;
    let path = input::text(1..=255).then(|reader: &mut Reader, path: String| {
        let target = resolve(reader, resource, &path)?;
        if target.steps.iter().any(|step| !matches!(step, Step::One(..))) {
            reader.refuse("not_sortable", "may refer to several records, so lists cannot be sorted by it");
            return None;
        }
        if !is_sortable(&target.field.kind) {
            reader.refuse("not_sortable", "cannot be sorted by");
            return None;
        }
        Some((path, target))
    });
    let target = object.required("field", path);
    let order = input::one_of(ORDERS);
    let order = custom(order.schema(), move |reader: &mut Reader, value| match value {
        // in any case
        Value::String(text) => order.apply(reader, Value::String(text.to_ascii_uppercase())),
        other => order.apply(reader, other),
    });
    let order = object.optional("order", order);
    object.finish();
    let (path, target) = target?;
    Some(Key { path, target, descending: order == Some("DESC") })
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

/// The order that is asked for, or else the default one. Nothing is left for a key behind the id to decide.
pub(super) fn effective(resource: &'static Resource, asked: Option<Vec<Key>>) -> Vec<Key> {
    let mut keys = asked.filter(|keys| !keys.is_empty()).unwrap_or_else(|| default(resource));
    let unique = keys.iter().position(Key::is_id);
    keys.truncate(unique.map_or(keys.len(), |position| position + 1));
    keys
}

fn default(resource: &'static Resource) -> Vec<Key> {
    let field = field(resource.fields, resource.order);
    field
        .map(|field| Key {
            path: field.name.to_owned(),
            target: Target { steps: Vec::new(), field, nullable: field.nullable },
            descending: false,
        })
        .into_iter()
        .collect()
}

/// What the values of a row in an order are, the id at its end included.
pub(super) fn kinds(keys: &[Key]) -> impl Iterator<Item = &'static Kind> {
    let id = (!keys.last().is_some_and(Key::is_id)).then_some(&Kind::Id);
    keys.iter().map(|key| &key.target.field.kind).chain(id)
}

/// A part of an order.
struct Column {
    /// Its value in the inner query.
    value: Sql,
    /// Its name in the result of that.
    name: Sql,
    kind: &'static Kind,
    descending: bool,
    nullable: bool,
}

impl Column {
    fn way(&self) -> &'static str {
        match (self.descending, self.nullable) {
            (true, true) => " DESC NULLS LAST",
            (true, false) => " DESC",
            (false, _) => "",
        }
    }

    /// Which values come later.
    fn beyond(&self) -> &'static str {
        if self.descending { " < " } else { " > " }
    }
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
    /// What a cursor has of a row of its result: a JSON array as text.
    pub(super) cursor: Sql,
    /// What is true of the rows behind a cursor, without one of all: ` AND …`. Of several, the rows of each are behind it, and no row
    /// is of two.
    pub(super) behind: Vec<Sql>,
}

impl Order {
    /// Writes it, joining what it needs.
    pub(super) fn new(
        binder: &mut Binder<'_>,
        level: &mut Level,
        keys: &[Key],
        after: Option<&[Option<Operand>]>,
    ) -> Self {
        let mut order = Self::default();
        let mut columns = Vec::with_capacity(keys.len() + 1);
        for (number, key) in keys.iter().enumerate() {
            let mut row = level.row;
            for step in &key.target.steps {
                if let Step::One(field, related) = step {
                    row = level.reach(binder, row, field, related);
                }
            }
            let (mut value, mut name) = (Sql::default(), Sql::default());
            value.expression(key.target.field.sql, row);
            name.push("s").number(number);
            order.keys.push(", ").piece(&value).push(" AS ").piece(&name);
            let Target { field, nullable, .. } = key.target;
            columns.push(Column { value, name, kind: &field.kind, descending: key.descending, nullable });
        }
        if !keys.last().is_some_and(Key::is_id) {
            let (mut value, mut name) = (Sql::default(), Sql::default());
            value.alias(level.row).push(".id");
            name.alias(Alias::ROOT).push(".id");
            let descending = keys.last().is_some_and(|key| key.descending);
            columns.push(Column { value, name, kind: &Kind::Id, descending, nullable: false });
        }
        order.cursor.push("json_build_array(");
        for (position, column) in columns.iter().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            order.inner.push(comma).piece(&column.value).push(column.way());
            order.outer.push(comma).piece(&column.name).push(column.way());
            order.cursor.push(comma).piece(&column.name);
            // with all its digits
            order.cursor.push(if matches!(column.kind, Kind::Number) { "::text" } else { "" });
        }
        order.cursor.push(")::text");
        order.behind = after.map_or_else(|| vec![Sql::default()], |values| behind(binder, &columns, values));
        order
    }
}

/// The conditions for what is behind a row with these values.
///
/// Each begins with a comparison of rows, or with `IS NULL`, so that the index which gives the order is entered behind the row. Rows
/// that are equal up to a turn of the order, or to a null, are compared one by one: the order itself has to sort those.
fn behind(binder: &mut Binder<'_>, columns: &[Column], values: &[Option<Operand>]) -> Vec<Sql> {
    let values: Vec<Option<Sql>> =
        values.iter().map(|value| value.as_ref().map(|value| value.bind(binder))).collect();
    let mut equal = Sql::default();
    // nothing but null comes behind null
    let nulls = values.iter().take_while(|value| value.is_none()).count();
    for column in columns.iter().take(nulls) {
        equal.push(" AND ").piece(&column.value).push(" IS NULL");
    }
    let rest: Vec<(&Column, Option<&Sql>)> =
        columns.iter().zip(values.iter().map(Option::as_ref)).skip(nulls).collect();
    let Some((first, _)) = rest.first() else { return vec![equal] };
    let goes_on = |(column, value): &&(&Column, Option<&Sql>)| {
        column.descending == first.descending && !column.nullable && value.is_some()
    };
    let run = 1 + rest.iter().skip(1).take_while(goes_on).count();
    let mut beyond = equal.clone();
    beyond.push(" AND ROW(");
    for (position, (column, _)) in rest.iter().take(run).enumerate() {
        beyond.push(if position > 0 { ", " } else { "" }).piece(&column.value);
    }
    beyond.push(")").push(match (first.descending, run == rest.len()) {
        (_, true) => first.beyond(),
        (true, false) => " <= ",
        (false, false) => " >= ",
    });
    beyond.push("ROW(");
    for (position, value) in rest.iter().take(run).filter_map(|(_, value)| *value).enumerate() {
        beyond.push(if position > 0 { ", " } else { "" }).piece(value);
    }
    beyond.push(")");
    if run < rest.len() {
        beyond.push(" AND ");
        one_by_one(&mut beyond, &rest);
    }
    let mut branches = vec![beyond];
    if first.nullable {
        equal.push(" AND ").piece(&first.value).push(" IS NULL");
        branches.push(equal);
    }
    branches
}

/// Appends that a row is behind another, by one column after the other, of which the last is the id.
fn one_by_one(sql: &mut Sql, columns: &[(&Column, Option<&Sql>)]) {
    let Some(((column, value), rest)) = columns.split_first() else { return };
    sql.push("(");
    if let Some(value) = value {
        sql.piece(&column.value).push(column.beyond()).piece(value);
        if column.nullable {
            sql.push(" OR ").piece(&column.value).push(" IS NULL");
        }
        if !rest.is_empty() {
            sql.push(" OR ").piece(&column.value).push(" = ").piece(value).push(" AND ");
        }
    } else {
        sql.piece(&column.value).push(" IS NULL AND ");
    }
    one_by_one(sql, rest);
    sql.push(")");
}
