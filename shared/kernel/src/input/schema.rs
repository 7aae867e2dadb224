//! What a rule accepts, as plain data: the API document is made from it.

use std::ops::RangeInclusive;

use serde_json::Value;

/// The values that a rule accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum Schema {
    /// Any JSON.
    Anything,
    /// Any object.
    AnyObject,
    /// A string.
    Text {
        /// How many characters it has.
        length: RangeInclusive<usize>,
        /// What it matches, if it is not any text without U+0000.
        pattern: Option<&'static str>,
        /// Its format, such as `uri`.
        format: Option<&'static str>,
    },
    /// Bytes in base64.
    Base64,
    /// An integer in a range.
    Integer(RangeInclusive<i64>),
    /// True or false.
    Boolean,
    /// An identifier.
    Id,
    /// A point in time.
    Timestamp,
    /// A day.
    Date,
    /// A number in a range.
    Number(RangeInclusive<f64>),
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An array with so many elements.
    Array(RangeInclusive<usize>, Box<Schema>),
    /// An object with these members and no others.
    Object(Vec<Member>),
    /// A value of one of these schemas.
    Either(Vec<Schema>),
    /// Null, or a value of this schema.
    OrNull(Box<Schema>),
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub schema: Schema,
    /// Whether it must be there.
    pub is_required: bool,
    /// Its value where it is absent.
    pub default: Option<Value>,
}

impl Schema {
    /// The same, where any text may also be empty.
    #[must_use]
    pub(super) fn or_empty(self) -> Self {
        match self {
            Self::Text { length, pattern: None, format } if *length.start() == 1 => {
                Self::Text { length: 0..=*length.end(), pattern: None, format }
            }
            other => other,
        }
    }

    /// The object, where members that may be absent have these values by default.
    #[must_use]
    pub fn with_defaults<'d>(mut self, defaults: impl IntoIterator<Item = (&'d str, Value)>) -> Self {
        let Self::Object(members) = &mut self else { return self };
        for (name, value) in defaults {
            let of_name = members.iter_mut().find(|member| member.name == name && !member.is_required);
            if let Some(member) = of_name.filter(|member| !matches!(member.schema, Self::OrNull(_))) {
                member.default = Some(value);
            }
        }
        self
    }
}
