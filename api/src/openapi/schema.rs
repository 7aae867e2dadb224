//! Schemas: those of bodies come from the rules that read them ([`accepted`]), those of answers are written
//! in the same vocabulary.

use std::ops::RangeInclusive;

use longshore_domain::account::person::EMAIL_PATTERN;
use longshore_domain::job::guard;
use longshore_domain::record::{self, Editable};
use longshore_http::extract::form::ANY;
use longshore_kernel::amount::amount;
use longshore_kernel::input::{Member, Rule, Schema as Input};
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOf, AnyOfBuilder, ArrayBuilder, ArrayItems, KnownFormat, Object, ObjectBuilder,
    OneOf, OneOfBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};

use super::part;

/// A schema, or a reference to one.
pub(super) type Said = RefOr<Schema>;

/// Creates a schema; used in tables.
pub(super) type Says = fn() -> Said;

/// An identifier: 8-4-4-4-12 hexadecimal digits.
const ID_PATTERN: &str = "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$";

/// The values that a rule accepts.
pub(super) fn accepted(input: &Input) -> Said {
    match input {
        Input::Anything => anything(),
        Input::AnyObject => any_object(),
        Input::Text { length, pattern: like, format } => {
            let mut schema = match like {
                Some(like) => pattern(length.clone(), like),
                None => text(length.clone()),
            };
            if let RefOr::T(Schema::Object(object)) = &mut schema {
                object.format = format.map(|format| SchemaFormat::Custom(format.to_owned()));
            }
            if *like == Some(EMAIL_PATTERN) { schema_called(schema, "Email") } else { schema }
        }
        Input::Base64 => said(of_type(Type::String).content_encoding("base64").min_length(Some(1))),
        Input::Integer(bounds) => integer(bounds.clone()),
        Input::Boolean => boolean(),
        Input::Id => id(),
        Input::Timestamp => timestamp(),
        Input::Date => date(),
        Input::Number(bounds) => number(bounds.clone()),
        Input::Either(_) if *input == amount().schema() => named(AMOUNT),
        Input::Either(several) => either(several.iter().map(accepted)),
        Input::OneOf(allowed) => one_of(allowed),
        Input::Array(count, element) => array(count.clone(), accepted(element)),
        Input::Object(members) if *input == guard::rule().schema() => guarded(members),
        Input::Object(_) => members(input).into(),
        Input::OrNull(inner) => or_null(accepted(inner)),
    }
}

/// The schema of a limit of a guard.
pub(super) const LIMIT: &str = "GuardLimit";

/// The guard of a sync, whose members have the same values.
fn guarded(of: &[Member]) -> Said {
    let shape = of.iter().fold(object(), |shape, member| shape.optional(member.name, named(LIMIT)));
    shape.about("How many rows may deactivate products, cancel orders, or set stocks to 0: a number, or a percentage. More are withheld.").called("Guard")
}

/// The members of an object that a rule accepts.
pub(super) fn members(input: &Input) -> Shape {
    let Input::Object(members) = input else { return object() };
    members.iter().fold(object(), |shape, member| {
        let schema = accepted(&member.schema);
        let schema = match &member.default {
            Some(value) => default(schema, value.clone()),
            None => schema,
        };
        if member.is_required {
            shape.required(member.name, schema)
        } else {
            shape.optional(member.name, schema)
        }
    })
}

/// The body that a rule reads.
pub(super) fn body_of<R: Rule>(rule: &R) -> Shape {
    members(&rule.schema())
}

/// The body that creates or changes a record.
pub(super) fn record_of<R: Editable>(is_new: bool) -> Shape {
    members(&record::schema::<R>(is_new))
}

fn said(builder: ObjectBuilder) -> Said {
    RefOr::T(Schema::Object(builder.build()))
}

fn of_type(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(kind)
}

/// A reference to a named schema.
pub(super) fn named(name: impl Into<String>) -> Said {
    RefOr::Ref(Ref::from_schema_name(name))
}

/// A string with a length in this range. That no text has U+0000, the introduction says once.
pub(super) fn text(length: RangeInclusive<usize>) -> Said {
    said(
        of_type(Type::String)
            .min_length(Some(*length.start()).filter(|least| *least > 0))
            .max_length(Some(*length.end())),
    )
}

/// A string of any length, for answers.
pub(super) fn any_text() -> Said {
    said(of_type(Type::String))
}

/// A string that matches a regular expression.
pub(super) fn pattern(length: RangeInclusive<usize>, pattern: &str) -> Said {
    said(
        of_type(Type::String)
            .min_length(Some(*length.start()))
            .max_length(Some(*length.end()))
            .pattern(Some(pattern)),
    )
}

/// A number with a format, without which generators choose one that is too small.
fn figure(kind: Type, format: KnownFormat) -> ObjectBuilder {
    of_type(kind).format(Some(SchemaFormat::KnownFormat(format)))
}

/// An integer in a range.
pub(super) fn integer(bounds: RangeInclusive<i64>) -> Said {
    let is_short = i32::try_from(*bounds.start()).is_ok() && i32::try_from(*bounds.end()).is_ok();
    let format = if is_short { KnownFormat::Int32 } else { KnownFormat::Int64 };
    said(figure(Type::Integer, format).minimum(Some(*bounds.start())).maximum(Some(*bounds.end())))
}

/// An integer of any size, for answers.
pub(super) fn any_integer() -> Said {
    said(figure(Type::Integer, KnownFormat::Int64))
}

/// A number in a range.
pub(super) fn number(bounds: RangeInclusive<f64>) -> Said {
    let schema = figure(Type::Number, KnownFormat::Double);
    said(schema.minimum(Some(*bounds.start())).maximum(Some(*bounds.end())))
}

/// A number of any size, for answers.
pub(super) fn any_number() -> Said {
    said(figure(Type::Number, KnownFormat::Double))
}

/// True or false.
pub(super) fn boolean() -> Said {
    said(of_type(Type::Boolean))
}

/// The schema of identifiers, which is declared once.
pub(super) const ID: &str = "Id";

/// The schema of the versions of records.
pub(super) const VERSION: &str = "Version";

/// The schema of amounts of money in bodies.
pub(super) const AMOUNT: &str = "Amount";

/// The declaration of the schema of amounts.
pub(super) fn amount_schema() -> Said {
    let Input::Either(forms) = amount().schema() else { return any_number() };
    about(
        either(forms.iter().map(accepted)),
        "An amount of money with at most 4 decimals. As a string it is exact.",
    )
}

/// An identifier.
pub(super) fn id() -> Said {
    named(ID)
}

/// The declaration of the schema of identifiers.
pub(super) fn identifier() -> Said {
    let schema = of_type(Type::String).format(Some(SchemaFormat::Custom("uuid".to_owned())));
    about(said(schema.pattern(Some(ID_PATTERN))), "A UUID. Responses have it in lowercase.")
}

/// A point in time: ISO 8601 with a UTC offset.
pub(super) fn timestamp() -> Said {
    said(of_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))))
}

/// A day.
pub(super) fn date() -> Said {
    said(of_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::Date))))
}

/// One of the allowed strings.
pub(super) fn one_of(allowed: &[&str]) -> Said {
    said(of_type(Type::String).enum_values(Some(allowed.iter().copied())))
}

/// The schema with a name, which makes it a schema of the document.
pub(super) fn schema_called(schema: Said, name: &str) -> Said {
    match schema {
        RefOr::T(Schema::Object(object)) => Shape(object).called(name),
        other => other,
    }
}

/// An array with a length in this range.
pub(super) fn array(count: RangeInclusive<usize>, element: Said) -> Said {
    RefOr::T(Schema::Array(
        ArrayBuilder::new()
            .items(element)
            .min_items(Some(*count.start()).filter(|least| *least > 0))
            .max_items(Some(*count.end()))
            .build(),
    ))
}

/// An array of any length, for answers.
pub(super) fn array_of(element: Said) -> Said {
    RefOr::T(Schema::Array(ArrayBuilder::new().items(element).build()))
}

/// Any object.
pub(super) fn any_object() -> Said {
    said(of_type(Type::Object).additional_properties(Some(AdditionalProperties::FreeForm(true))))
}

/// Bytes; `format` is for generators that do not support `contentMediaType`.
pub(super) fn bytes() -> Said {
    let schema = of_type(Type::String).content_media_type("application/octet-stream");
    said(schema.format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary))))
}

/// A form with one file, in a part of this name or of that of any form. Its other parts are ignored.
pub(super) fn file_form(name: &str, meaning: &str) -> Shape {
    let file = |name: &str| format!("{meaning} It may also be named `{name}`.");
    object()
        .optional(name, about(bytes(), &file(ANY)))
        .optional(ANY, about(bytes(), &file(name)))
        .members(1..=1)
}

/// Any of several schemas, which may overlap. Some generators write code for such a choice that does not
/// compile.
pub(super) fn any_of(several: impl IntoIterator<Item = Said>) -> Said {
    RefOr::T(Schema::AnyOf(several.into_iter().fold(AnyOfBuilder::new(), AnyOfBuilder::item).build()))
}

/// Exactly one of several schemas. For `anyOf`, generators make an object with the members of all.
pub(super) fn either(several: impl IntoIterator<Item = Said>) -> Said {
    let one = several.into_iter().fold(OneOfBuilder::new(), OneOfBuilder::item);
    RefOr::T(Schema::OneOf(one.build()))
}

/// The schema, or null.
pub(super) fn or_null(schema: Said) -> Said {
    let with_null = |kind: &SchemaType| match kind {
        SchemaType::Type(kind) => SchemaType::Array(vec![kind.clone(), Type::Null]),
        other => other.clone(),
    };
    match schema {
        RefOr::T(Schema::Object(mut object)) if !part::is_called(&object) => {
            object.schema_type = with_null(&object.schema_type);
            if let Some(values) = &mut object.enum_values {
                values.push(Value::Null);
            }
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(Schema::Array(mut array)) => {
            array.schema_type = with_null(&array.schema_type);
            RefOr::T(Schema::Array(array))
        }
        RefOr::Ref(of) if of.ref_location.ends_with("/Id") => said(
            ObjectBuilder::new()
                .schema_type(SchemaType::Array(vec![Type::String, Type::Null]))
                .format(Some(SchemaFormat::Custom("uuid".to_owned()))),
        ),
        RefOr::T(Schema::OneOf(one)) => RefOr::T(Schema::OneOf(OneOf { items: nullable(one.items), ..one })),
        other => RefOr::T(Schema::AnyOf(AnyOf { items: nullable(vec![other]), ..AnyOf::new() })),
    }
}

fn nullable(mut forms: Vec<Said>) -> Vec<Said> {
    forms.push(said(of_type(Type::Null)));
    forms
}

/// The schema with a description.
pub(super) fn about(schema: Said, text: &str) -> Said {
    let text = text.to_owned();
    match schema {
        RefOr::T(Schema::Object(mut object)) => {
            if part::is_called(&object) {
                part::say(&mut object, text);
            } else {
                object.description = Some(text);
            }
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(Schema::Array(mut array)) => {
            array.description = Some(text);
            RefOr::T(Schema::Array(array))
        }
        RefOr::T(Schema::AnyOf(mut any)) => {
            any.description = Some(text);
            RefOr::T(Schema::AnyOf(any))
        }
        RefOr::T(Schema::OneOf(mut one)) => {
            one.description = Some(text);
            RefOr::T(Schema::OneOf(one))
        }
        RefOr::Ref(mut reference) => {
            reference.description = text;
            RefOr::Ref(reference)
        }
        other @ RefOr::T(_) => other,
    }
}

/// The schema with a default.
pub(super) fn default(schema: Said, value: impl Into<Value>) -> Said {
    match schema {
        RefOr::T(Schema::Object(mut object)) => {
            object.default = Some(value.into());
            RefOr::T(Schema::Object(object))
        }
        other => other,
    }
}

/// Changes the object of a schema: itself, or its elements.
pub(super) fn part_of(schema: Said, change: impl Fn(Shape) -> Said) -> Said {
    match schema {
        RefOr::T(Schema::Array(mut array)) => {
            if let ArrayItems::RefOrSchema(element) = array.items {
                array.items = ArrayItems::RefOrSchema(Box::new(part_of(*element, change)));
            }
            RefOr::T(Schema::Array(array))
        }
        RefOr::T(Schema::Object(mut object)) => {
            let is_nullable = matches!(object.schema_type, SchemaType::Array(_));
            object.schema_type = SchemaType::Type(Type::Object);
            let changed = change(Shape(object));
            if is_nullable { or_null(changed) } else { changed }
        }
        other => other,
    }
}

/// An object with fixed members: others are refused in requests, and absent from answers of this version.
#[derive(Clone)]
pub(super) struct Shape(Object);

/// An object without members.
pub(super) fn object() -> Shape {
    Shape(of_type(Type::Object).additional_properties(Some(AdditionalProperties::FreeForm(false))).build())
}

impl Shape {
    /// Adds a required member.
    pub(super) fn required(mut self, name: &str, schema: Said) -> Self {
        self.0.required.push(name.to_owned());
        self.optional(name, schema)
    }

    /// Adds a member that may be absent, but not null.
    pub(super) fn optional(mut self, name: &str, schema: Said) -> Self {
        self.0.properties.insert(name.to_owned(), schema);
        self
    }

    /// Sets the allowed number of members.
    pub(super) fn members(mut self, count: RangeInclusive<usize>) -> Self {
        self.0.min_properties = Some(*count.start()).filter(|least| *least > 0);
        self.0.max_properties = Some(*count.end());
        self
    }

    /// Describes members by name.
    pub(super) fn explain(mut self, meanings: &[(&str, &str)]) -> Self {
        for (name, meaning) in meanings {
            if let Some(schema) = self.0.properties.remove(*name) {
                self.0.properties.insert((*name).to_owned(), about(schema, meaning));
            }
        }
        self
    }

    /// Changes the object in a member: itself, or its elements.
    pub(super) fn part(mut self, name: &str, change: impl Fn(Shape) -> Said) -> Self {
        if let Some(schema) = self.0.properties.remove(name) {
            self.0.properties.insert(name.to_owned(), part_of(schema, change));
        }
        self
    }

    /// Describes the object.
    pub(super) fn about(mut self, text: &str) -> Self {
        self.0.description = Some(text.to_owned());
        self
    }

    /// Allows further members, with values of this schema.
    pub(super) fn further(mut self, value: Said) -> Self {
        self.0.additional_properties = Some(Box::new(AdditionalProperties::RefOr(value)));
        self
    }

    /// Names the object, which makes it a schema of the document wherever it is used.
    pub(super) fn called(mut self, name: &str) -> Said {
        part::call(&mut self.0, name);
        self.into()
    }
}

impl From<Shape> for Said {
    fn from(shape: Shape) -> Self {
        Self::T(Schema::Object(shape.0))
    }
}

/// Any JSON.
pub(super) fn anything() -> Said {
    said(ObjectBuilder::new().schema_type(SchemaType::any()))
}

/// One value and no other.
pub(super) fn exactly(value: &str) -> Said {
    said(of_type(Type::String).enum_values(Some([json!(value)])))
}
