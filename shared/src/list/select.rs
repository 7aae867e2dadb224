//! Which fields come back (decisions, section 1): exactly those asked for, in any order.

use serde_json::Value;

use super::resource::{Field, Resource, field};
use crate::platform::input::{self, Reader};

/// Reads `select`; a field that is named twice comes back once.
pub(super) fn read(
    reader: &mut Reader,
    resource: &'static Resource,
    value: Value,
) -> Option<Vec<&'static Field>> {
    let count = 1..=2 * resource.fields.len();
    let named = input::array(count, |reader: &mut Reader, value| {
        let name = input::text(1..=255)(reader, value)?;
        let found = field(resource.fields, &name);
        if found.is_none() {
            reader.refuse("unknown_field", "is not a known field");
        }
        found
    })(reader, value)?;
    Some(all(resource).into_iter().filter(|f| named.iter().any(|n| std::ptr::eq(*n, *f))).collect())
}

/// Every field that a list shows.
pub(super) fn all(resource: &'static Resource) -> Vec<&'static Field> {
    resource.fields.iter().filter(|field| !field.alone).collect()
}
