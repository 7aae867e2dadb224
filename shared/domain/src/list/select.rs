//! The returned fields (`docs/reference/lists.md#select`): exactly the requested ones, in any order.

use serde_json::Value;

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
            reader.refuse_unknown(&name, resource.listed().map(|f| f.name));
        }
        found
    });
    let named = input::array(count, field).apply(reader, value)?;
    if named.is_empty() {
        return Some(all(resource));
    }
    Some(resource.listed().filter(|f| named.iter().any(|n| std::ptr::eq(*n, *f))).collect())
}

/// Every field that a list shows where nothing is selected.
pub(super) fn all(resource: &'static Resource) -> Vec<&'static Field> {
    resource.listed().filter(|field| field.shown != Shown::OnRequest).collect()
}
