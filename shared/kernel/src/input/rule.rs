//! The rules: each turns one value into a typed one, and says which values it accepts.

use std::ops::RangeInclusive;

use chrono::{DateTime, NaiveDate, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::schema::Schema;
use super::{Object, Reader};
use crate::ids::parse_id;
use crate::iso8601;

/// Turns one value into what the code wants, or says what is wrong.
#[must_use = "a rule does nothing unless it is applied"]
pub trait Rule: Sized {
    /// What it makes of a value.
    type Out;

    /// Applies it; `None` if the reader has a violation.
    fn apply(self, reader: &mut Reader, value: Value) -> Option<Self::Out>;

    /// The values that it accepts.
    fn schema(&self) -> Schema;

    /// The rule, and what `further` makes of its value or refuses.
    fn then<T, F: FnOnce(&mut Reader, Self::Out) -> Option<T>>(self, further: F) -> Then<Self, F> {
        Then { rule: self, further }
    }
}

/// See [`Rule::then`].
#[derive(Clone, Debug)]
pub struct Then<R, F> {
    rule: R,
    further: F,
}

impl<T, R: Rule, F: FnOnce(&mut Reader, R::Out) -> Option<T>> Rule for Then<R, F> {
    type Out = T;

    fn apply(self, reader: &mut Reader, value: Value) -> Option<T> {
        let read = self.rule.apply(reader, value)?;
        (self.further)(reader, read)
    }

    fn schema(&self) -> Schema {
        self.rule.schema()
    }
}

/// A function that reads values of a schema.
pub fn custom<T, F: FnOnce(&mut Reader, Value) -> Option<T>>(schema: Schema, read: F) -> Custom<F> {
    Custom { schema, read }
}

/// See [`custom`].
#[derive(Clone, Debug)]
pub struct Custom<F> {
    schema: Schema,
    read: F,
}

impl<T, F: FnOnce(&mut Reader, Value) -> Option<T>> Rule for Custom<F> {
    type Out = T;

    fn apply(self, reader: &mut Reader, value: Value) -> Option<T> {
        (self.read)(reader, value)
    }

    fn schema(&self) -> Schema {
        self.schema.clone()
    }
}

/// An object with the members that `read` asks for, and no others.
pub fn object<T, F: FnOnce(&mut Object<'_>) -> Option<T> + Clone>(read: F) -> Members<F> {
    Members { read }
}

/// See [`object`].
#[derive(Clone, Debug)]
pub struct Members<F> {
    read: F,
}

impl<T, F: FnOnce(&mut Object<'_>) -> Option<T> + Clone> Rule for Members<F> {
    type Out = T;

    fn apply(self, reader: &mut Reader, value: Value) -> Option<T> {
        let mut object = reader.object(value)?;
        let read = (self.read)(&mut object);
        object.finish();
        read
    }

    fn schema(&self) -> Schema {
        Object::schema(self.read.clone())
    }
}

/// An array with so many elements, each read by a rule.
pub fn array<R: Rule + Clone>(count: RangeInclusive<usize>, rule: R) -> Array<R> {
    Array { count, rule }
}

/// See [`array()`].
#[derive(Clone, Debug)]
pub struct Array<R> {
    count: RangeInclusive<usize>,
    rule: R,
}

impl<R: Rule + Clone> Array<R> {
    /// What its rule makes of each element; `None` where it is no such array.
    fn elements(self, reader: &mut Reader, value: Value) -> Option<Vec<Option<R::Out>>> {
        match value {
            Value::Array(elements) => {
                let count = self.count;
                if !count.contains(&elements.len()) {
                    let message = match (count.start(), count.end()) {
                        (0, end) => format!("must have at most {end} elements"),
                        (start, end) => format!("must have {start} to {end} elements"),
                    };
                    reader.refuse("invalid_count", message);
                    return None;
                }
                let mut read = Vec::with_capacity(elements.len());
                for (index, element) in elements.into_iter().enumerate() {
                    let rule = self.rule.clone();
                    read.push(reader.element(index, |reader| rule.apply(reader, element)));
                }
                Some(read)
            }
            other => {
                reader.wrong_type("an array", &other);
                None
            }
        }
    }
}

impl<R: Rule + Clone> Rule for Array<R> {
    type Out = Vec<R::Out>;

    fn apply(self, reader: &mut Reader, value: Value) -> Option<Vec<R::Out>> {
        self.elements(reader, value)?.into_iter().collect()
    }

    fn schema(&self) -> Schema {
        Schema::Array(self.count.clone(), Box::new(self.rule.schema()))
    }
}

/// The same for a [draft](Reader::draft): an element that is refused is blank and keeps its place, so that it hides nothing
/// that is wrong with the others.
pub fn drafts<R: Rule<Out: Default> + Clone>(count: RangeInclusive<usize>, rule: R) -> Drafts<R> {
    Drafts(array(count, rule))
}

/// See [`drafts()`].
#[derive(Clone, Debug)]
pub struct Drafts<R>(Array<R>);

impl<R: Rule<Out: Default> + Clone> Rule for Drafts<R> {
    type Out = Vec<R::Out>;

    fn apply(self, reader: &mut Reader, value: Value) -> Option<Vec<R::Out>> {
        Some(self.0.elements(reader, value)?.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn schema(&self) -> Schema {
        self.0.schema()
    }
}

/// A secret value: it is masked when it is refused.
pub fn secret<R: Rule + Clone>(rule: R) -> impl Rule<Out = R::Out> + Clone {
    custom(rule.schema(), move |reader, value| {
        reader.secrets += 1;
        let read = rule.apply(reader, value);
        reader.secrets -= 1;
        read
    })
}

/// Null, or a value of a rule.
pub fn or_null<R: Rule + Clone>(rule: R) -> impl Rule<Out = Option<R::Out>> + Clone {
    custom(Schema::OrNull(Box::new(rule.schema())), move |reader, value| {
        if value.is_null() { Some(None) } else { rule.apply(reader, value).map(Some) }
    })
}

/// A string with so many characters, without U+0000 (which Postgres cannot hold).
pub fn text(length: RangeInclusive<usize>) -> impl Rule<Out = String> + Clone {
    text_in(length, None, None)
}

/// The same, and what it matches. The regular expression is for the schema: a further rule judges the string.
pub fn text_like(length: RangeInclusive<usize>, pattern: &'static str) -> impl Rule<Out = String> + Clone {
    text_in(length, Some(pattern), None)
}

/// The same for a string that is a URL: a further rule judges it, too.
pub fn url(length: RangeInclusive<usize>) -> impl Rule<Out = String> + Clone {
    text_in(length, None, Some("uri"))
}

fn text_in(
    length: RangeInclusive<usize>,
    pattern: Option<&'static str>,
    format: Option<&'static str>,
) -> impl Rule<Out = String> + Clone {
    let schema = Schema::Text { length: length.clone(), pattern, format };
    custom(schema, move |reader, value| match value {
        Value::String(text) => {
            // bytes bound characters from above: most strings need not be counted
            let count = if text.len() < *length.start() || text.len() > *length.end() {
                text.chars().count()
            } else if *length.start() <= 1 {
                text.len().max(1).min(*length.end())
            } else {
                text.chars().count()
            };
            if text.contains('\0') {
                reader.refuse("invalid_character", "must not contain U+0000");
                None
            } else if count < *length.start() || count > *length.end() {
                reader.refuse("invalid_length", length_message(&length));
                None
            } else {
                Some(text)
            }
        }
        other => {
            reader.wrong_type("a string", &other);
            None
        }
    })
}

fn length_message(length: &RangeInclusive<usize>) -> String {
    match (length.start(), length.end()) {
        (0, end) => format!("must have at most {end} characters"),
        (start, end) if start == end => format!("must have exactly {end} characters"),
        (start, end) => format!("must have {start} to {end} characters"),
    }
}

/// 2⁶³: every integer of 64 bits but the least is nearer to zero.
const PAST_64_BITS: f64 = 9_223_372_036_854_775_808.0;

/// An integer within bounds.
pub fn integer(bounds: RangeInclusive<i64>) -> impl Rule<Out = i64> + Clone {
    custom(Schema::Integer(bounds.clone()), move |reader, value| match &value {
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(n), _) if bounds.contains(&n) => Some(n),
            // a whole number that 64 bits hold is an integer by now, however it was written (see `json`)
            (None, Some(float)) if number.is_f64() && float.abs() < PAST_64_BITS => {
                reader.refuse("wrong_type", "must be an integer, without a fraction");
                None
            }
            _ => {
                reader.refuse(
                    "out_of_range",
                    format!("must be between {} and {}", bounds.start(), bounds.end()),
                );
                None
            }
        },
        other => {
            reader.wrong_type("an integer", other);
            None
        }
    })
}

/// An integer within bounds that a 32 bit column holds.
pub fn int32(bounds: RangeInclusive<i32>) -> impl Rule<Out = i32> + Clone {
    let wide = integer(i64::from(*bounds.start())..=i64::from(*bounds.end()));
    wide.then(|_: &mut Reader, n| i32::try_from(n).ok())
}

/// A number.
pub fn number(bounds: RangeInclusive<f64>) -> impl Rule<Out = f64> + Clone {
    custom(Schema::Number(bounds.clone()), move |reader, value| {
        let Some(number) = value.as_f64() else {
            reader.wrong_type("a number", &value);
            return None;
        };
        if bounds.contains(&number) {
            return Some(number);
        }
        reader.refuse("out_of_range", format!("must be between {} and {}", bounds.start(), bounds.end()));
        None
    })
}

/// A boolean.
pub fn boolean() -> impl Rule<Out = bool> + Clone {
    custom(Schema::Boolean, |reader, value| {
        if let Value::Bool(b) = value {
            Some(b)
        } else {
            reader.wrong_type("a boolean", &value);
            None
        }
    })
}

/// An identifier: 8-4-4-4-12 hexadecimal digits (`docs/reference/records.md#identifiers-and-timestamps`).
pub fn id() -> impl Rule<Out = Uuid> + Clone {
    custom(Schema::Id, |reader, value| match &value {
        Value::String(text) => parse_id(text).or_else(|| {
            reader.refuse("invalid_id", "must be a UUID of 8-4-4-4-12 hexadecimal digits");
            None
        }),
        other => {
            reader.wrong_type("a UUID", other);
            None
        }
    })
}

/// A point in time: ISO 8601 with a UTC offset, cut to microseconds (`docs/reference/records.md#identifiers-and-timestamps`).
pub fn timestamp() -> impl Rule<Out = DateTime<Utc>> + Clone {
    custom(Schema::Timestamp, |reader, value| {
        let text = string_such_as(reader, &value, "2026-05-31T12:00:00Z")?;
        match iso8601::timestamp(text) {
            Ok(at) => return Some(at),
            Err(iso8601::Unread::NoOffset(at)) => reader.refuse(
                "invalid_timestamp",
                format!("must name its UTC offset: {at:?}Z if it is in UTC, else another such as +02:00"),
            ),
            Err(_) => reader.refuse(
                "invalid_timestamp",
                "must be an ISO 8601 date-time with a UTC offset, such as 2026-05-31T12:00:00Z, of the years 1 to 9999",
            ),
        }
        None
    })
}

/// A day, as in `2026-05-31`.
pub fn date() -> impl Rule<Out = NaiveDate> + Clone {
    custom(Schema::Date, |reader, value| {
        let text = string_such_as(reader, &value, "2026-05-31")?;
        match iso8601::date(text) {
            Ok(date) => return Some(date),
            Err(iso8601::Unread::NoMidnight) => {
                reader.refuse("invalid_date", "must be a date such as 2026-05-31, without a time of day");
            }
            Err(_) => reader.refuse("invalid_date", "must be a date such as 2026-05-31"),
        }
        None
    })
}

/// The text of a string; what to write is said of everything else, such as the milliseconds that some programs count.
fn string_such_as<'v>(reader: &mut Reader, value: &'v Value, example: &str) -> Option<&'v str> {
    let text = value.as_str();
    if text.is_none() {
        reader.wrong_type(&format!("a string such as \"{example}\""), value);
    }
    text
}

/// One of the allowed strings.
pub fn one_of(allowed: &'static [&'static str]) -> impl Rule<Out = &'static str> + Clone {
    custom(Schema::OneOf(allowed), move |reader, value| match &value {
        Value::String(text) => allowed.iter().copied().find(|a| a == text).or_else(|| {
            reader.refuse("not_allowed", format!("must be one of {}", allowed.join(", ")));
            None
        }),
        other => {
            reader.wrong_type("a string", other);
            None
        }
    })
}
