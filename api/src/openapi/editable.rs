//! The operations that records have which are created and changed by a body of their fields.

use serde_json::Value;

use super::operation::{Operation, list, operation, read};
use super::record::{self, Described};
use super::schema::record_of;
use crate::routes::resource::{self, Resource};

/// Lists, creates, reads and changes records. `one` has its article, as in `["an e-shop", "e-shops"]`; `creation` and `change` are
/// examples of bodies, and `says` are paragraphs about changing one.
pub(super) fn editable<R: Resource>(
    described: &'static Described,
    [one, many]: [&str; 2],
    creation: Value,
    change: Value,
    says: &[&str],
) -> [Operation; 4] {
    let name = record::name(described.resource);
    let body = |is_new| {
        let about = format!("{}{} to create or change.", one[..1].to_uppercase(), &one[1..]);
        record_of::<R>(is_new).about(&about).explain(described.fields)
    };
    let update = operation(resource::update::<R>, format!("Changes {one}"))
        .body(format!("{name}ToUpdate"), body(false), change)
        .updated(described);
    [
        list(resource::list::<R>, described, format!("Lists {many}")),
        operation(resource::create::<R>, format!("Creates {one}"))
            .body(format!("{name}ToCreate"), body(true), creation)
            .created(described),
        read(resource::get::<R>, described, format!("Reads {one}")),
        says.iter().fold(update, |update, paragraph| update.says(paragraph)),
    ]
}
