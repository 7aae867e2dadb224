//! A vocabulary for schemas, the same as in `longshore_shared::kernel::input`, so that a schema reads like
//! the rules it describes and takes its bounds from the same constants.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOf, AnyOfBuilder, ArrayBuilder, KnownFormat, Object, ObjectBuilder, OneOf,
    OneOfBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};

use super::part;

/// A schema, or a reference to one.
pub(super) type Said = RefOr<Schema>;

/// Creates a schema; used in tables.
pub(super) type Says = fn() -> Said;

/// An identifier: 8-4-4-4-12 lowercase hexadecimal digits.
const ID_PATTERN: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";

/// Excludes U+0000 from text, in a form that every dialect of regular expressions accepts.
const TEXT_PATTERN: &str = r"^[^\x00]*$";

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

/// A string with a length in this range.
pub(super) fn text(length: RangeInclusive<usize>) -> Said {
    said(
        of_type(Type::String)
            .min_length(Some(*length.start()).filter(|least| *least > 0))
            .max_length(Some(*length.end()))
            .pattern(Some(TEXT_PATTERN)),
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

/// A country: ISO 3166-1 alpha-2.
pub(super) fn country() -> Said {
    pattern(2..=2, "^[A-Z]{2}$")
}

/// Bytes in base64.
pub(super) fn base64() -> Said {
    said(of_type(Type::String).content_encoding("base64"))
}

/// A string that is a URL.
pub(super) fn url(length: RangeInclusive<usize>) -> Said {
    match text(length) {
        RefOr::T(Schema::Object(mut object)) => {
            object.format = Some(SchemaFormat::Custom("uri".to_owned()));
            RefOr::T(Schema::Object(object))
        }
        other => other,
    }
}

/// An integer in a range.
pub(super) fn integer(bounds: RangeInclusive<i64>) -> Said {
    said(of_type(Type::Integer).minimum(Some(*bounds.start())).maximum(Some(*bounds.end())))
}

/// An integer of any size, for answers.
pub(super) fn any_integer() -> Said {
    said(of_type(Type::Integer).format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64))))
}

/// A number of any size, for answers.
pub(super) fn any_number() -> Said {
    said(of_type(Type::Number))
}

/// True or false.
pub(super) fn boolean() -> Said {
    said(of_type(Type::Boolean))
}

/// The schema of identifiers, which is declared once.
pub(super) const ID: &str = "Id";

/// The schema of the versions of records.
pub(super) const VERSION: &str = "Version";

/// An identifier.
pub(super) fn id() -> Said {
    named(ID)
}

/// The declaration of the schema of identifiers.
pub(super) fn identifier() -> Said {
    let schema = of_type(Type::String).format(Some(SchemaFormat::Custom("uuid".to_owned())));
    about(said(schema.pattern(Some(ID_PATTERN))), "A UUID, in lowercase.")
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

/// An object with fixed members: others are refused in requests, and absent from answers.
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

    /// Adds a member that may be absent or null.
    pub(super) fn nullable(self, name: &str, schema: Said) -> Self {
        self.optional(name, or_null(schema))
    }

    /// Sets the allowed number of members.
    pub(super) fn members(mut self, count: RangeInclusive<usize>) -> Self {
        self.0.min_properties = Some(*count.start()).filter(|least| *least > 0);
        self.0.max_properties = Some(*count.end());
        self
    }

    /// Makes a member optional.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.required.retain(|required| required != name);
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

    /// The object without required members: the body of an update.
    pub(super) fn for_update(mut self) -> Self {
        self.0.required.clear();
        self.without_defaults()
    }

    /// The object without defaults: absent members stay unchanged.
    pub(super) fn without_defaults(mut self) -> Self {
        for schema in self.0.properties.values_mut() {
            if let RefOr::T(Schema::Object(object)) = schema {
                object.default = None;
            }
        }
        self
    }

    /// Describes the object.
    pub(super) fn about(mut self, text: &str) -> Self {
        self.0.description = Some(text.to_owned());
        self
    }

    /// Allows further members whose names match a pattern; their values have the schema of the pattern that
    /// the name matches. `any` is a schema for all these values, because generators do not support patterns.
    pub(super) fn further(mut self, patterns: Vec<(String, Said)>, names: &str, any: Said) -> Self {
        let patterns: Map<_, _> = patterns.into_iter().map(|(name, schema)| (name, json!(schema))).collect();
        // utoipa has no method for it
        self.0.extensions = Some([("patternProperties", Value::Object(patterns))].into_iter().collect());
        self.0.property_names = Some(Box::new(Schema::Object(
            ObjectBuilder::new().schema_type(SchemaType::AnyValue).pattern(Some(names)).build(),
        )));
        self.0.additional_properties = Some(Box::new(AdditionalProperties::RefOr(any)));
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
