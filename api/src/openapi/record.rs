//! Resources, from the tables of fields that also define the lists: the record, the query language of its
//! list, the page. A [`Described`] adds what such a table does not contain: descriptions of fields, contents
//! of JSON values, an example.

use longshore_domain::list::criteria::{self, CHARACTERS, Operator, PATTERN, VALUES, operators};
use longshore_domain::list::resource::{Field, Kind, Resource, Shown};
use longshore_domain::list::{COUNTS, LIMIT, OFFSET, cursor, sort};
use serde_json::{Map, Value, json};

use super::schema::{
    Said, Says, Shape, VERSION, about, any_integer, any_number, any_text, anything, array, array_of, boolean,
    date, default, either, id, integer, named, object, one_of, or_null, pattern, schema_called, text,
    timestamp,
};

/// The description of a resource beyond its table of fields.
pub(super) struct Described {
    /// The resource.
    pub(super) resource: &'static Resource,
    /// A description of the resource.
    pub(super) about: &'static str,
    /// Descriptions of fields, where the name is not enough.
    pub(super) fields: &'static [(&'static str, &'static str)],
    /// Schemas of fields whose kind does not define their content.
    pub(super) shapes: &'static [(&'static str, Says)],
    /// An example record.
    pub(super) example: fn() -> Value,
}

/// The name of its record's schema, such as `ProductStock`.
pub(super) fn name(resource: &Resource) -> String {
    let words = resource.name.split([' ', '_']).map(|word| word.replace('-', ""));
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// An example page of a list, with that record.
pub(super) fn page_example(Described { resource, example, .. }: &Described) -> Value {
    let mut record = example();
    if let Value::Object(members) = &mut record {
        let is_left_out = |field: &Field| field.shown == Shown::Alone || field.shown == Shown::OnRequest;
        members
            .retain(|name, _| !resource.fields.iter().any(|field| is_left_out(field) && field.name == name));
    }
    json!({"results": [record], "paging": {"returned": 1, "from": 0, "to": 1, "total": 1, "next": null}})
}

/// An example query of a list.
pub(super) fn query_example(resource: &Resource) -> Value {
    let is_polled = |field: &&Field| ["changedAt", "createdAt", "at"].contains(&field.name);
    let Some(polled) = resource.fields.iter().find(is_polled) else { return json!({"limit": 100}) };
    let mut criteria = Map::new();
    criteria.insert(polled.name.to_owned(), json!({"gte": "2026-01-31T12:00:00+00:00"}));
    json!({"criteria": criteria, "sort": [{"field": polled.name, "order": "DESC"}], "limit": 100})
}

/// All schemas of a resource, with their names.
pub(super) fn schemas(described: &Described) -> Vec<(String, Said)> {
    let resource = described.resource;
    let name = name(resource);
    vec![
        (name.clone(), record(described).into()),
        (format!("{name}Listed"), listed(described).into()),
        (format!("{name}Page"), page(&name).into()),
        (format!("{name}Query"), query(resource, &name).into()),
        (format!("{name}Criteria"), criteria(resource).into()),
    ]
}

/// Resources that its records reference.
pub(super) fn related(resource: &'static Resource) -> impl Iterator<Item = &'static Resource> {
    resource.fields.iter().filter_map(|field| match field.kind {
        Kind::One(related) | Kind::Many(_, related) => Some(related),
        _ => None,
    })
}

/// A single record, with every field.
pub(super) fn record(described: &Described) -> Shape {
    members(described).about(described.about).explain(described.fields)
}

/// The members of a record, for an answer that has more. What they mean is said once, of the record.
pub(super) fn members(described: &Described) -> Shape {
    let shape = object().about(&format!("The members of `{}`, and one more.", name(described.resource)));
    let fields = described.resource.shown();
    fields.fold(shape, |shape, field| shape.required(field.name, shown(described, field)))
}

/// A record of a list: the selected fields, with nested records in place of their ids. Of one that the caller may not see, a nested
/// record has its id only.
fn listed(described: &Described) -> Shape {
    let resource = described.resource;
    resource.listed().fold(object(), |shape, field| {
        let schema = match field.kind {
            Kind::One(related) => {
                let either = either([id(), named(format!("{}Listed", name(related)))]);
                if field.nullable { or_null(either) } else { either }
            }
            Kind::Many(_, related) => array_of(either([id(), named(format!("{}Listed", name(related)))])),
            // objects that have a list of their own, one of whose members may be a record
            Kind::Rows(..) if field.nests.is_some() => {
                let element = field.name.trim_end_matches('s');
                let element = element[..1].to_uppercase() + &element[1..];
                array_of(named(format!("{}{element}Listed", name(resource))))
            }
            _ => shown(described, field),
        };
        shape.optional(field.name, schema)
    })
}

fn shown(described: &Described, field: &Field) -> Said {
    let schema = described
        .shapes
        .iter()
        .find(|(of, _)| *of == field.name)
        .map_or_else(|| value(&name(described.resource), field), |(_, shape)| shape());
    if field.nullable { or_null(schema) } else { schema }
}

/// How many words a closed list has that gets a name.
const MANY: usize = 5;

/// The value of a field. An object is named after its owner and field, such as `JobProgress`; an element of
/// an array in the singular: `StockAdviceItem`. So is a long list of words: `JobKind`.
fn value(owner: &str, field: &Field) -> Said {
    let called = |name: &str| format!("{owner}{}{}", name[..1].to_uppercase(), &name[1..]);
    let words = |words: &[&str]| {
        let schema = one_of(words);
        if words.len() < MANY { schema } else { schema_called(schema, &called(field.name)) }
    };
    let members = |fields: &[Field], name: &str| {
        let name = called(name);
        let shape = fields.iter().fold(object(), |shape, field| {
            let schema = value(&name, field);
            shape.required(field.name, if field.nullable { or_null(schema) } else { schema })
        });
        shape.called(&name)
    };
    match field.kind {
        Kind::Id | Kind::One(_) => id(),
        Kind::Text => field.among.map_or_else(any_text, words),
        Kind::Integer if field.name == "version" => named(VERSION),
        Kind::Integer => any_integer(),
        Kind::Number => any_number(),
        Kind::Timestamp => timestamp(),
        Kind::Date => date(),
        Kind::Boolean => boolean(),
        Kind::Ids | Kind::Many(..) => array_of(id()),
        Kind::Texts => array_of(field.among.map_or_else(any_text, one_of)),
        Kind::Json => anything(),
        Kind::Object(fields) => members(fields, field.name),
        Kind::Rows(_, fields) => array_of(members(fields, field.name.trim_end_matches('s'))),
    }
}

fn page(name: &str) -> Shape {
    object().required("results", array_of(named(format!("{name}Listed")))).required("paging", named("Paging"))
}

const LIMIT_NAME: &str = "ListLimit";
const OFFSET_NAME: &str = "ListOffset";
const AFTER_NAME: &str = "ListAfter";
const COUNT_NAME: &str = "ListCount";
const NESTED_NAME: &str = "ListNested";
const FIELD_NAME: &str = "SortField";
const ORDER_NAME: &str = "SortOrder";
const KEY_NAME: &str = "SortKey";
const SORT_NAME: &str = "ListSort";

/// The default order of most lists.
const USUAL: &str = "createdAt";

/// The parameters of every list.
pub(super) fn list_schemas() -> [(&'static str, Said); 9] {
    let field = pattern(1..=255, r"^\w+(\.\w+)*$");
    let order = default(one_of(&["ASC", "DESC"]), "ASC");
    let key = object().required("field", named(FIELD_NAME)).optional("order", named(ORDER_NAME));
    [
        (KEY_NAME, key.into()),
        (SORT_NAME, sorted(USUAL)),
        (FIELD_NAME, about(field, "A field, or a path to a field through single related records.")),
        (ORDER_NAME, about(order, "Null comes last in both. The last key of each list is `id`.")),
        (LIMIT_NAME, about(integer(0..=LIMIT), "The page size; all without it.")),
        (OFFSET_NAME, about(default(integer(0..=OFFSET), 0), "How many matching records to skip.")),
        (
            AFTER_NAME,
            about(
                text(1..=cursor::CHARACTERS),
                "The `next` of the page before, with the same `sort` and `criteria`.",
            ),
        ),
        (
            COUNT_NAME,
            about(default(one_of(COUNTS), COUNTS[0]), "How `total` is counted; `bounded`: up to 10,000."),
        ),
        (
            NESTED_NAME,
            about(
                default(boolean(), false),
                "Whether to return related records instead of their ids. One that the caller may not see has only its `id`.",
            ),
        ),
    ]
}

/// The keys of a list with this default order.
fn sorted(default: &str) -> Said {
    about(array(sort::KEYS, named(KEY_NAME)), &format!("Default: `{default}`."))
}

/// The body of a list operation.
fn query(resource: &'static Resource, name: &str) -> Shape {
    let selectable: Vec<_> = resource.listed().map(|field| field.name).collect();
    let sort = match resource.order {
        USUAL => named(SORT_NAME),
        order => about(named(SORT_NAME), &format!("Default: `{order}`.")),
    };
    let extra = resource.extras().fold(object().about("Conditions that are no fields."), |shape, field| {
        shape.optional(field.name, default(boolean(), false))
    });
    let shape = if resource.extras().next().is_some() {
        object().optional("extra", extra.called(&format!("{name}Extra")))
    } else {
        object()
    };
    let is_related =
        |field: &Field| matches!(field.kind, Kind::One(_) | Kind::Many(..)) || field.nests.is_some();
    let shape =
        if resource.listed().any(is_related) { shape.optional("nested", named(NESTED_NAME)) } else { shape };
    shape
        .optional("criteria", named(format!("{name}Criteria")))
        .optional("sort", sort)
        .optional("limit", named(LIMIT_NAME))
        .optional("offset", named(OFFSET_NAME))
        .optional("after", named(AFTER_NAME))
        .optional("count", named(COUNT_NAME))
        .optional("select", array(0..=2 * resource.fields.len(), one_of(&selectable)))
}

/// The criteria: fields with their conditions. The paths to fields of related records are many, and not named.
fn criteria(resource: &'static Resource) -> Shape {
    let conditions = conditions(resource.fields, "");
    let shape = object().members(criteria::PATHS);
    let shape = conditions.iter().fold(shape, |shape, (path, kind)| shape.optional(path, named(*kind)));
    let asked = resource.fields.iter().filter(|field| field.is_asked());
    let relations: Vec<_> = asked
        .filter_map(|field| match field.kind {
            Kind::One(related) | Kind::Many(_, related) => {
                Some(format!("`{}` ({})", field.name, name(related)))
            }
            _ => None,
        })
        .collect();
    if relations.is_empty() {
        return shape;
    }
    let text = format!("Dotted paths reach the fields of {}.", relations.join(", "));
    shape.about(&text).further(named(ANY_CRITERION))
}

/// The paths of fields, and of those of their objects, with the schemas of their conditions.
fn conditions(fields: &'static [Field], prefix: &str) -> Vec<(String, &'static str)> {
    let asked = fields.iter().filter(|field| field.is_asked());
    let of = |field: &Field| {
        let path = format!("{prefix}{}", field.name);
        let mut found = match field.kind {
            Kind::Object(fields) | Kind::Rows(_, fields) => conditions(fields, &format!("{path}.")),
            _ => Vec::new(),
        };
        found.extend(criterion(&field.kind).map(|kind| (path, kind)));
        found
    };
    asked.flat_map(of).collect()
}

/// The schema of the conditions for a kind.
fn criterion(kind: &Kind) -> Option<&'static str> {
    match kind {
        Kind::Id | Kind::One(_) => Some("IdCriterion"),
        Kind::Text => Some("TextCriterion"),
        Kind::Integer => Some("IntegerCriterion"),
        Kind::Number => Some("NumberCriterion"),
        Kind::Timestamp => Some("TimestampCriterion"),
        Kind::Date => Some("DateCriterion"),
        Kind::Boolean => Some("BooleanCriterion"),
        Kind::Ids | Kind::Many(..) => Some("IdsCriterion"),
        Kind::Texts => Some("TextsCriterion"),
        Kind::Json => Some("JsonCriterion"),
        Kind::Object(_) | Kind::Rows(..) => None,
    }
}

/// The schema of the conditions for a value of any kind.
const ANY_CRITERION: &str = "Criterion";

/// The conditions for each kind: schemas that the criteria of all resources share.
pub(super) fn criterion_schemas() -> impl Iterator<Item = (String, Said)> {
    let kinds = [
        Kind::Id,
        Kind::Text,
        Kind::Integer,
        Kind::Number,
        Kind::Timestamp,
        Kind::Date,
        Kind::Boolean,
        Kind::Ids,
        Kind::Texts,
        Kind::Json,
    ];
    let of_kinds = kinds.into_iter().filter_map(|kind| {
        let operators = operators(&kind);
        let shape = object().about("All must hold.").members(0..=operators.len());
        let shape = operators.iter().fold(shape, |shape, operator| {
            let schema = about(operand(*operator, &kind), meaning(*operator, &kind));
            shape.optional(operator.as_str(), schema)
        });
        Some((criterion(&kind)?.to_owned(), shape.into()))
    });
    of_kinds.chain([(ANY_CRITERION.to_owned(), any_criterion().into())])
}

/// The conditions for a value behind a dotted path.
fn any_criterion() -> Shape {
    let shape = object()
        .about(
            "Conditions on a value at a dotted path, with the operators and values of its type. No operator matches null, not even `neq`, `nin` and `notLike`. If the path passes through several related records, one of them must match.",
        )
        .members(1..=Operator::ALL.len());
    Operator::ALL.iter().fold(shape, |shape, operator| {
        let value = match operator {
            Operator::Null | Operator::Flag => boolean(),
            Operator::Like | Operator::NotLike => text(0..=CHARACTERS),
            Operator::In | Operator::Nin => array(0..=VALUES, anything()),
            _ => anything(),
        };
        shape.optional(operator.as_str(), value)
    })
}

fn operand(operator: Operator, kind: &Kind) -> Said {
    let one = match (operator, kind) {
        (Operator::Null | Operator::Flag, _) | (_, Kind::Boolean) => boolean(),
        (_, Kind::Id | Kind::Ids) => id(),
        (_, Kind::Integer) => integer(i64::MIN..=i64::MAX),
        (_, Kind::Number) => any_number(),
        (_, Kind::Timestamp) => timestamp(),
        (_, Kind::Date) => date(),
        (Operator::Like | Operator::NotLike, _) => either([text(0..=PATTERN), any_number()]),
        _ => text(0..=CHARACTERS),
    };
    if matches!(operator, Operator::In | Operator::Nin) { array(0..=VALUES, one) } else { one }
}

fn meaning(operator: Operator, kind: &Kind) -> &'static str {
    let is_array = matches!(kind, Kind::Ids | Kind::Texts);
    match operator {
        Operator::Eq if is_array => "The array contains the value.",
        Operator::In if is_array => "The array contains one of the values.",
        Operator::Eq => "Equal.",
        Operator::Neq => "Not equal and not null.",
        Operator::In => "Equal to one of the values.",
        Operator::Nin => "Equal to none of the values and not null.",
        Operator::Like => "Contains the text, ignoring case. A `%` at either end is ignored.",
        Operator::NotLike => "Does not contain the text and is not null.",
        Operator::Gt => "Greater or later.",
        Operator::Gte => "Greater or equal.",
        Operator::Lt => "Less or earlier.",
        Operator::Lte => "Less or equal.",
        Operator::Null => "Whether the value is null.",
        Operator::Flag => "Whether the value is true.",
    }
}
