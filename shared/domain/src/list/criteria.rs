//! Which records match (`docs/reference/lists.md#criteria`): the operators for each path, which must all match.
//!
//! No comparison matches null: only `null: true` does. Through a to-many
//! relation, *some* related record must satisfy all the operators of the path.

use std::ops::RangeInclusive;

use chrono::{DateTime, NaiveDate, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::or_empty_object;
use super::path::{Step, Target, resolve};
use super::resource::{Field, Kind, Link, Resource};
use super::sql::{Alias, Binder, Sql};
use longshore_kernel::amount::Amount;
use longshore_kernel::input::{self, Reader, Rule};

/// Paths that criteria may have.
pub const PATHS: RangeInclusive<usize> = 0..=64;
/// Values that `in` and `nin` may have.
pub const VALUES: usize = 10_000;
/// Characters of a string that is compared with.
pub const CHARACTERS: usize = 10_000;
/// Characters of what a string contains.
pub const PATTERN: usize = 255;

macro_rules! operators {
    ($($name:ident = $text:literal)*) => {
        /// What can be asked of a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operator { $(#[doc = concat!("`", $text, "`")] $name),* }

        impl Operator {
            /// Every operator.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its spelling.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

operators! {
    Eq = "eq" Neq = "neq" In = "in" Nin = "nin" Like = "like" NotLike = "notLike"
    Gt = "gt" Gte = "gte" Lt = "lt" Lte = "lte" Null = "null" Flag = "flag"
}

/// The operators that fields of a kind take.
#[must_use]
pub fn operators(kind: &Kind) -> &'static [Operator] {
    use Operator::{Eq, Flag, Gt, Gte, In, Like, Lt, Lte, Neq, Nin, NotLike, Null};
    match kind {
        Kind::Id | Kind::One(_) => &[Eq, Neq, In, Nin, Null],
        Kind::Text => &[Eq, Neq, In, Nin, Like, NotLike, Null],
        Kind::Integer | Kind::Number | Kind::Timestamp | Kind::Date => {
            &[Eq, Neq, In, Nin, Gt, Gte, Lt, Lte, Null]
        }
        Kind::Boolean => &[Eq, Neq, Flag, Null],
        // "contains"
        Kind::Ids | Kind::Texts | Kind::Many(..) => &[Eq, In],
        Kind::Json => &[Null],
        Kind::Object(_) | Kind::Rows(..) => &[],
    }
}

/// A path and what is asked of the value there.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    /// As the caller wrote it.
    pub(super) path: String,
    target: Target,
    pub(super) comparisons: Vec<(Operator, Operand)>,
}

/// What a value is compared with.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Id(Uuid),
    Text(String),
    Integer(i64),
    /// A decimal, in digits.
    Number(String),
    Timestamp(DateTime<Utc>),
    Date(NaiveDate),
    Boolean(bool),
    Ids(Vec<Uuid>),
    Texts(Vec<String>),
    Integers(Vec<i64>),
    Numbers(Vec<String>),
    Timestamps(Vec<DateTime<Utc>>),
    Dates(Vec<NaiveDate>),
}

impl Operand {
    /// The value of a sorted field, as a cursor has it; nothing where it has none.
    pub(super) fn of_cursor(kind: &Kind, value: &Value) -> Option<Self> {
        let text = value.as_str();
        match kind {
            Kind::Id | Kind::One(_) => text?.parse().ok().map(Self::Id),
            Kind::Text => text.filter(|text| !text.contains('\0')).map(|text| Self::Text(text.to_owned())),
            Kind::Integer => value.as_i64().map(Self::Integer),
            Kind::Number => text.filter(|text| is_decimal(text)).map(|text| Self::Number(text.to_owned())),
            Kind::Timestamp => {
                input::timestamp().apply(&mut Reader::default(), value.clone()).map(Self::Timestamp)
            }
            Kind::Date => input::date().apply(&mut Reader::default(), value.clone()).map(Self::Date),
            Kind::Boolean => value.as_bool().map(Self::Boolean),
            Kind::Ids | Kind::Texts | Kind::Many(..) | Kind::Json | Kind::Object(_) | Kind::Rows(..) => None,
        }
    }

    pub(super) fn bind(&self, binder: &mut Binder<'_>) -> Sql {
        let as_type = |mut placeholder: Sql, cast| {
            placeholder.push(cast);
            placeholder
        };
        match self {
            Self::Id(v) => binder.bind(*v),
            Self::Text(v) => binder.bind(v.as_str()),
            Self::Integer(v) => binder.bind(*v),
            Self::Number(v) => as_type(binder.bind(v.as_str()), "::numeric"),
            Self::Timestamp(v) => binder.bind(*v),
            Self::Date(v) => binder.bind(*v),
            Self::Boolean(v) => binder.bind(*v),
            Self::Ids(v) => binder.bind(v.as_slice()),
            Self::Texts(v) => binder.bind(v.as_slice()),
            Self::Integers(v) => binder.bind(v.as_slice()),
            Self::Numbers(v) => as_type(binder.bind(v.as_slice()), "::numeric[]"),
            Self::Timestamps(v) => binder.bind(v.as_slice()),
            Self::Dates(v) => binder.bind(v.as_slice()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Ids(v) => v.is_empty(),
            Self::Texts(v) | Self::Numbers(v) => v.is_empty(),
            Self::Integers(v) => v.is_empty(),
            Self::Timestamps(v) => v.is_empty(),
            Self::Dates(v) => v.is_empty(),
            _ => false,
        }
    }
}

/// Reads `criteria`.
pub(super) fn read(reader: &mut Reader, resource: &'static Resource, value: Value) -> Option<Vec<Condition>> {
    each(reader, value, *PATHS.end(), |reader, path, asked| {
        let target = resolve(reader, resource, path)?;
        let comparisons = comparisons(reader, target.field, path, asked)?;
        Some(Condition { path: path.to_owned(), target, comparisons })
    })
}

/// Reads the conditions of `criteria`, each with its path.
pub(super) fn each<T>(
    reader: &mut Reader,
    value: Value,
    most: usize,
    read: impl Fn(&mut Reader, &str, Value) -> Option<T>,
) -> Option<Vec<T>> {
    let value = or_empty_object(value);
    let Value::Object(paths) = value else {
        reader.wrong_type("an object", &value);
        return None;
    };
    if paths.len() > most {
        reader.refuse("invalid_count", format!("must have at most {most} fields"));
        return None;
    }
    let mut conditions = Vec::with_capacity(paths.len());
    for (path, value) in paths {
        conditions.extend(reader.member(&path, |reader| read(reader, &path, value)));
    }
    Some(conditions)
}

/// What `extra` asks: each of these fields is true.
pub(super) fn flags(fields: impl Iterator<Item = &'static Field>) -> Vec<Condition> {
    let target = |field: &'static Field| Target { steps: Vec::new(), field, nullable: field.nullable };
    let comparisons = || vec![(Operator::Flag, Operand::Boolean(true))];
    let flag = |field: &'static Field| Condition {
        path: format!("extra.{}", field.name),
        target: target(field),
        comparisons: comparisons(),
    };
    fields.map(flag).collect()
}

/// What is asked of a field; nothing where that is no condition, or is refused.
pub(super) fn comparisons(
    reader: &mut Reader,
    field: &'static Field,
    path: &str,
    value: Value,
) -> Option<Vec<(Operator, Operand)>> {
    let value = or_empty_object(value);
    let Value::Object(asked) = value else {
        reader.wrong_type("an object of operators, such as {\"eq\": …}", &value);
        return None;
    };
    if asked.is_empty() {
        // no condition
        return None;
    }
    let allowed = operators(&field.kind);
    if let Kind::Object(fields) | Kind::Rows(_, fields) = field.kind {
        let names: Vec<_> = fields.iter().map(|f| format!("{path}.{}", f.name)).collect();
        reader.refuse(
            "no_operators",
            format!("takes no operators; filter by its fields: {}", names.join(", ")),
        );
        return None;
    }
    if asked.len() > Operator::ALL.len() {
        reader.refuse("invalid_count", format!("must have at most {} operators", allowed.len()));
        return None;
    }
    let mut comparisons = Vec::with_capacity(asked.len());
    for (name, operand) in asked {
        comparisons.extend(reader.member(&name, |reader| {
            let Some(operator) = allowed.iter().copied().find(|o| o.as_str() == name) else {
                let names: Vec<_> = allowed.iter().map(|o| o.as_str()).collect();
                reader.refuse("unknown_operator", format!("must be one of {}", names.join(", ")));
                return None;
            };
            Some((operator, read_operand(reader, field, operator, operand)?))
        }));
    }
    Some(comparisons)
}

fn read_operand(reader: &mut Reader, field: &Field, operator: Operator, value: Value) -> Option<Operand> {
    fn either<R: Rule + Clone>(
        reader: &mut Reader,
        value: Value,
        several: bool,
        rule: R,
        one: fn(R::Out) -> Operand,
        many: fn(Vec<R::Out>) -> Operand,
    ) -> Option<Operand> {
        if several {
            input::array(0..=VALUES, rule).apply(reader, value).map(many)
        } else {
            rule.apply(reader, value).map(one)
        }
    }
    let several = matches!(operator, Operator::In | Operator::Nin);
    let compared = matches!(operator, Operator::Eq | Operator::Neq) || several;
    // a word that is never there is a typing error, and no empty answer; a part of one may be looked for
    if let (true, Some(words)) = (compared, field.among) {
        let word = input::one_of(words).then(|_: &mut Reader, word: &str| Some(word.to_owned()));
        return either(reader, value, several, word, Operand::Text, Operand::Texts);
    }
    match (operator, &field.kind) {
        (Operator::Null | Operator::Flag, _) | (_, Kind::Boolean) => {
            input::boolean().apply(reader, value).map(Operand::Boolean)
        }
        (_, Kind::Id | Kind::One(_) | Kind::Ids | Kind::Many(..)) => {
            either(reader, value, several, input::id(), Operand::Id, Operand::Ids)
        }
        (Operator::Like | Operator::NotLike, _) => contained(reader, value).map(Operand::Text),
        (_, Kind::Text | Kind::Texts) => {
            either(reader, value, several, input::text(0..=CHARACTERS), Operand::Text, Operand::Texts)
        }
        (_, Kind::Integer) => {
            let rule = input::integer(i64::MIN..=i64::MAX);
            either(reader, value, several, rule, Operand::Integer, Operand::Integers)
        }
        (_, Kind::Number) => either(reader, value, several, decimal(), Operand::Number, Operand::Numbers),
        (_, Kind::Date) => either(reader, value, several, input::date(), Operand::Date, Operand::Dates),
        (_, Kind::Timestamp) => {
            either(reader, value, several, input::timestamp(), Operand::Timestamp, Operand::Timestamps)
        }
        (_, Kind::Json | Kind::Object(_) | Kind::Rows(..)) => None,
    }
}

/// Whether a text is what Postgres writes a decimal as.
fn is_decimal(text: &str) -> bool {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits =
        |digits: &str| (1..=100).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    digits(whole.strip_prefix('-').unwrap_or(whole)) && digits(part)
}

/// A number, in digits. The numbers of lists are amounts, so one that is close to an amount is that amount, as in a body.
fn decimal() -> impl Rule<Out = String> + Clone {
    input::custom(input::Schema::Anything, |reader: &mut Reader, value: Value| {
        if let Value::Number(number) = &value {
            let amount = Amount::of_number(number).map(|amount| amount.to_string());
            return Some(amount.unwrap_or_else(|| number.to_string()));
        }
        reader.wrong_type("a number", &value);
        None
    })
}

/// What a string is to contain. A number is its digits; a `%` at either end is how clients of this API family write
/// "contains".
fn contained(reader: &mut Reader, value: Value) -> Option<String> {
    let text = match value {
        Value::String(text) => {
            let text = text.strip_prefix('%').unwrap_or(&text);
            text.strip_suffix('%').unwrap_or(text).to_owned()
        }
        Value::Number(number) => number.to_string(),
        other => {
            reader.wrong_type("a string or a number", &other);
            return None;
        }
    };
    input::text(0..=PATTERN).apply(reader, Value::String(text))
}

/// The rows of one `FROM`: a list's own, or those of an `EXISTS`.
#[derive(Debug)]
pub(super) struct Level {
    /// The row that paths start from.
    pub(super) row: Alias,
    /// The text after the table in `FROM`.
    pub(super) from: Sql,
    /// The text after `WHERE true`.
    pub(super) conditions: Sql,
    joins: Vec<(Alias, &'static Field, Alias)>,
}

impl Level {
    /// The rows of a resource that the caller may see.
    pub(super) fn root(binder: &mut Binder<'_>, resource: &'static Resource) -> Self {
        let row = Alias::ROOT;
        let mut level = Self { row, from: Sql::default(), conditions: Sql::default(), joins: Vec::new() };
        level.from.push(" ").alias(row);
        binder.limit(&mut level.conditions, &resource.tenancy, row);
        level
    }

    /// The one related record of a row, joined once however often it is asked for.
    pub(super) fn reach(
        &mut self,
        binder: &mut Binder<'_>,
        row: Alias,
        field: &'static Field,
        related: &'static Resource,
    ) -> Alias {
        if let Some((.., known)) = self.joins.iter().find(|(r, f, _)| *r == row && std::ptr::eq(*f, field)) {
            return *known;
        }
        let alias = binder.alias();
        self.from.push(" LEFT JOIN ").table(related).push(" ").alias(alias);
        self.from.push(" ON ").alias(alias).push(".id = ").expression(field.sql, row);
        // what the caller may not see is as if it were not there
        binder.limit(&mut self.from, &related.tenancy, alias);
        self.joins.push((row, field, alias));
        alias
    }

    /// Requires a condition.
    pub(super) fn require(&mut self, binder: &mut Binder<'_>, condition: &Condition) {
        self.descend(binder, self.row, &condition.target.steps, condition);
    }

    fn descend(&mut self, binder: &mut Binder<'_>, row: Alias, steps: &[Step], condition: &Condition) {
        let Some((step, rest)) = steps.split_first() else {
            for (operator, operand) in &condition.comparisons {
                self.conditions.push(" AND ");
                compare(&mut self.conditions, binder, condition.target.field, row, *operator, operand);
            }
            return;
        };
        match step {
            Step::One(field, related) => {
                let row = self.reach(binder, row, field, related);
                self.descend(binder, row, rest, condition);
            }
            Step::Many(link, related) => {
                let (linked, alias) = (binder.alias(), binder.alias());
                let mut inner = Self::exists(linked);
                inner.from.push(" JOIN ").table(related).push(" ").alias(alias);
                inner.from.push(" ON ").alias(alias).push(".id = ").linked(link.id, row, linked);
                binder.limit(&mut inner.conditions, &related.tenancy, alias);
                inner.descend(binder, alias, rest, condition);
                self.close(binder, &inner, link, row, linked);
            }
            Step::Row(link) => {
                let linked = binder.alias();
                let mut inner = Self::exists(linked);
                inner.descend(binder, linked, rest, condition);
                self.close(binder, &inner, link, row, linked);
            }
        }
    }

    fn exists(linked: Alias) -> Self {
        let mut from = Sql::default();
        from.push(" ").alias(linked);
        Self { row: linked, from, conditions: Sql::default(), joins: Vec::new() }
    }

    fn close(
        &mut self,
        binder: &mut Binder<'_>,
        inner: &Self,
        link: &'static Link,
        row: Alias,
        linked: Alias,
    ) {
        self.conditions
            .push(" AND EXISTS (SELECT 1 FROM ")
            .push(link.table)
            .piece(&inner.from)
            .push(" WHERE ");
        self.conditions.linked(link.of, row, linked).piece(&inner.conditions).push(binder.end_of_exists());
    }
}

/// Appends a comparison.
fn compare(
    sql: &mut Sql,
    binder: &mut Binder<'_>,
    field: &'static Field,
    row: Alias,
    operator: Operator,
    operand: &Operand,
) {
    if let Kind::Many(link, _) = field.kind {
        let linked = binder.alias();
        sql.push("EXISTS (SELECT 1 FROM ").push(link.table).push(" ").alias(linked).push(" WHERE ");
        sql.linked(link.of, row, linked).push(" AND ").linked(link.id, row, linked);
        match operand {
            Operand::Ids(_) => sql.push(" = ANY(").piece(&operand.bind(binder)).push(")"),
            _ => sql.push(" = ").piece(&operand.bind(binder)),
        };
        sql.push(binder.end_of_exists());
        return;
    }
    if matches!(field.kind, Kind::Ids | Kind::Texts) {
        match operand {
            Operand::Ids(_) | Operand::Texts(_) => {
                sql.expression(field.sql, row).push(" && ").piece(&operand.bind(binder))
            }
            _ => sql.piece(&operand.bind(binder)).push(" = ANY(").expression(field.sql, row).push(")"),
        };
        return;
    }
    let sql = sql.expression(field.sql, row);
    let infix = match operator {
        Operator::Eq | Operator::Flag => " = ",
        Operator::Neq => " <> ",
        Operator::Gt => " > ",
        Operator::Gte => " >= ",
        Operator::Lt => " < ",
        Operator::Lte => " <= ",
        Operator::Like => " ILIKE ",
        Operator::NotLike => " NOT ILIKE ",
        Operator::In => " = ANY(",
        // without values, `<> ALL` would be true of null as well
        Operator::Nin if operand.is_empty() => {
            sql.push(" IS NOT NULL");
            return;
        }
        Operator::Nin => " <> ALL(",
        Operator::Null => {
            let wanted = matches!(operand, Operand::Boolean(true));
            sql.push(if wanted { " IS NULL" } else { " IS NOT NULL" });
            return;
        }
    };
    let placeholder = match (operator, operand) {
        (Operator::Like | Operator::NotLike, Operand::Text(text)) => binder.bind(containing(text)),
        _ => operand.bind(binder),
    };
    sql.push(infix).piece(&placeholder);
    if matches!(operator, Operator::In | Operator::Nin) {
        sql.push(")");
    }
}

/// The criteria of a record, or of a field, that meets all of these conditions, as far as they are asked for.
#[must_use]
pub fn all_of<const N: usize>(conditions: [(&str, Option<Value>); N]) -> Value {
    let asked = conditions.into_iter().filter_map(|(name, asked)| Some((name.to_owned(), asked?)));
    Value::Object(asked.collect())
}

/// The pattern that matches texts which contain a given one, with all characters escaped.
#[must_use]
pub fn containing(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_text_is_no_pattern() {
        assert_eq!(containing(r"50%_\"), r"%50\%\_\\%");
    }
}
