//! The returned fields (`docs/reference/lists.md#select`): exactly the requested ones, in their order.

use serde_json::Value;

use super::Form;
use super::resource::{Field, Resource, Shown};
use longshore_kernel::input::{self, Reader, Rule as _};

/// Reads `select`; a field that is named twice comes back once, and none named is none given.
pub(super) fn read(
    reader: &mut Reader,
    resource: &'static Resource,
    value: Value,
) -> Option<Vec<&'static Field>> {
    let count = 0..=2 * resource.fields.len();
    let field = input::text(1..=255).then(|reader: &mut Reader, name: String| {
        let found = resource.listed().find(|field| field.name == name);
        if found.is_none() {
            reader.refuse_unknown(&name, resource.listed().map(|f| f.name), "");
        }
        found
    });
    let mut fields: Vec<&'static Field> = Vec::new();
    for named in input::array(count, field).apply(reader, value)? {
        if !fields.iter().any(|field| std::ptr::eq(*field, named)) {
            fields.push(named);
        }
    }
    Some(fields)
}

/// What a list shows where nothing is selected: every field, or in a line of cells every one that is a cell.
pub(super) fn unless_named(form: Form, resource: &'static Resource) -> Vec<&'static Field> {
    let fields = all(resource).into_iter();
    match form {
        Form::Json | Form::Lines => fields.collect(),
        Form::Csv => fields.filter(|field| field.kind.is_scalar()).collect(),
    }
}

/// Every field that a record within another shows.
pub(super) fn all(resource: &'static Resource) -> Vec<&'static Field> {
    resource.listed().filter(|field| field.shown != Shown::OnRequest).collect()
}
