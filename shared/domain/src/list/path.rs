//! Dotted paths: from the name that a caller sends to a field of a table (`docs/reference/lists.md#paths`).

use super::resource::{Field, Kind, Link, Resource, Shown, field};
use longshore_kernel::input::{Reader, unknown_field};

/// Relations that a path may go through: `product.organisation.name` goes through two.
pub const RELATIONS: usize = 2;

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
pub(super) struct Place {
    /// The rows it goes through.
    pub(super) steps: Vec<Step>,
    /// The field at its end.
    pub(super) field: &'static Field,
    /// Whether there may be nothing: the field, an object that it is in, or a related record may be null, or not be seen.
    pub(super) nullable: bool,
}

/// Follows a path; reports the element that does not exist to the reader.
pub(super) fn resolve(reader: &mut Reader, resource: &'static Resource, path: &str) -> Option<Place> {
    let mut fields = resource.fields;
    let mut steps = Vec::new();
    let mut relations = 0;
    let mut nullable = false;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let Some(field) = field(fields, name) else {
            let known = fields.iter().filter(|field| field.shown != Shown::Alone).map(|field| field.name);
            reader.refuse("unknown_field", unknown_field(name, known));
            return None;
        };
        nullable |= field.nullable || !steps.is_empty();
        if names.peek().is_none() {
            return Some(Place { steps, field, nullable });
        }
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
