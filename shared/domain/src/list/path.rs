//! Dotted paths: from the name that a caller sends to a field of a table (`docs/reference/lists.md#paths`).

use super::resource::{Field, Kind, Link, Resource, field};
use longshore_kernel::input::Reader;

/// Relations that a path may go through: `product.organisation.name` goes through two.
const RELATIONS: usize = 2;

/// A step from one row to another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// To the one related record.
    One(&'static Field, &'static Resource),
    /// To some related record.
    Many(&'static Link, &'static Resource),
    /// To some row of an array of objects.
    Row(&'static Link),
}

/// Where a path leads.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The rows it goes through.
    pub(super) steps: Vec<Step>,
    /// The field at its end.
    pub(super) field: &'static Field,
    /// Whether there may be nothing: the field, an object that it is in, or a related record may be null, or not be seen.
    pub(super) nullable: bool,
}

/// Follows a path; reports the element that does not exist to the reader.
pub(super) fn resolve(reader: &mut Reader, resource: &'static Resource, path: &str) -> Option<Target> {
    let mut fields = resource.fields;
    let mut steps = Vec::new();
    let mut relations = 0;
    let mut nullable = false;
    let mut left = path;
    loop {
        let (name, rest) = left.split_once('.').map_or((left, None), |(name, rest)| (name, Some(rest)));
        // the name of a field may have a dot itself
        let (name, rest) = if field(fields, left).is_some() { (left, None) } else { (name, rest) };
        let Some(field) = field(fields, name) else {
            let known = fields.iter().filter(|field| field.is_asked()).map(|field| field.name);
            reader.refuse_unknown(name, known, "");
            return None;
        };
        nullable |= field.nullable || !steps.is_empty();
        let Some(rest) = rest else {
            return Some(Target { steps, field, nullable });
        };
        left = rest;
        match field.kind {
            Kind::Object(inner) => fields = inner,
            Kind::Rows(link, inner) => {
                steps.push(Step::Row(link));
                fields = inner;
            }
            Kind::One(related) => {
                relations += 1;
                steps.push(Step::One(field, related));
                fields = related.fields;
            }
            Kind::Many(link, related) => {
                relations += 1;
                steps.push(Step::Many(link, related));
                fields = related.fields;
            }
            _ => break,
        }
        if relations > RELATIONS {
            reader.refuse("too_deep", format!("passes through more than {RELATIONS} relations"));
            return None;
        }
    }
    reader.refuse("unknown_field", "is not a known field");
    None
}
