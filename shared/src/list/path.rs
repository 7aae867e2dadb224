//! Dotted paths: from the name that a caller sends to a field of a table (decisions, section 1).

use super::resource::{Field, Kind, Link, Resource, field};
use crate::platform::input::Reader;

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
}

/// Follows a path; tells the reader where it leads nowhere.
pub(super) fn resolve(reader: &mut Reader, resource: &'static Resource, path: &str) -> Option<Place> {
    let mut fields = resource.fields;
    let mut steps = Vec::new();
    let mut relations = 0;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let Some(field) = field(fields, name) else { break };
        if names.peek().is_none() {
            return Some(Place { steps, field });
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
            reader.refuse("too_deep", format!("goes through more than {RELATIONS} relations"));
            return None;
        }
    }
    reader.refuse("unknown_field", "is not a known field");
    None
}
