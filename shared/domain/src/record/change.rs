//! What a change of a record consists of, field by field: for its audit record and the `data` of its event.

use chrono::{DateTime, Utc};
use serde::Serializer;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// One field that changes.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Its name in JSON.
    pub field: &'static str,
    /// What it held.
    pub old: Value,
    /// What it holds from now on.
    pub new: Value,
}

/// A point in time as Postgres writes it in JSON, so that every answer and event spells it alike.
pub fn moment<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&at.format("%Y-%m-%dT%H:%M:%S%.6f%:z"))
}

/// What a new record says: each of its fields that holds something.
#[must_use]
pub fn creation(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Vec<FieldChange> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    fields
        .into_iter()
        .filter(|(_, value)| !is_empty(value))
        .map(|(field, new)| FieldChange { field, old: Value::Null, new })
        .collect()
}

/// `changes` of the audit record: `{field: [old, new]}`.
#[must_use]
pub fn changes_json(changes: &[FieldChange]) -> Value {
    changes.iter().map(|c| (c.field.to_owned(), json!([c.old, c.new]))).collect::<Map<_, _>>().into()
}

/// What `data` of an event may have, in bytes: the body around it must stay under 20 kB, also as Postgres writes JSON,
/// with a space after each comma and colon.
const EVENT_DATA_BYTES: usize = 15_000;

/// `data` of the event: what the record is, what changed, and to what, with `other` fields of the record. Larger data shrinks to
/// what the record is and the names of the changed fields. Its version comes with the change ([`record_change!`](longshore_kernel::record_change)).
#[must_use]
pub fn event_data(
    id: Uuid,
    identity: &[(&str, Value)],
    changes: &[FieldChange],
    other: Vec<(&str, Value)>,
) -> Value {
    let names: Vec<&str> = changes.iter().map(|c| c.field).collect();
    let changed = changes.iter().map(|c| (c.field.to_owned(), c.new.clone()));
    let fields: Map<_, _> =
        other.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(changed).collect();
    let mut data = json!({"id": id, "changedFields": names, "fields": fields});
    for (name, value) in identity {
        data[*name] = value.clone();
    }
    if data.to_string().len() > EVENT_DATA_BYTES { shrunk(&data, EVENT_DATA_BYTES) } else { data }
}

/// `data` of an event that is not too large: members of its `fields` with these names are left out first, then all of them.
#[must_use]
pub fn within_limit(mut data: Value, first: &[&str]) -> Value {
    for name in first {
        if data.to_string().len() <= EVENT_DATA_BYTES {
            return data;
        }
        if let Some(fields) = data["fields"].as_object_mut() {
            fields.remove(*name);
        }
    }
    if data.to_string().len() > EVENT_DATA_BYTES { shrunk(&data, EVENT_DATA_BYTES) } else { data }
}

/// A member of shrunken data that identifies the record has fewer bytes than this.
const IDENTITY_BYTES: usize = 1_600;

/// What too large data of an event shrinks to: ids, business keys, the version, and the names of the changed fields, as far as
/// they fit into that many bytes.
#[must_use]
pub fn shrunk(data: &Value, bytes: usize) -> Value {
    let mut kept = Map::new();
    let mut used = r#"{"changedFields":[]}"#.len();
    for (name, value) in data.as_object().into_iter().flatten() {
        // a colon and a comma
        let size = json!(name).to_string().len() + value.to_string().len() + 2;
        if (value.is_string() || value.is_number()) && size < IDENTITY_BYTES && used + size < bytes / 2 {
            used += size;
            kept.insert(name.clone(), value.clone());
        }
    }
    let names = data.get("changedFields").and_then(Value::as_array).into_iter().flatten();
    let names = names.take_while(|name| {
        used += name.to_string().len() + 1;
        used < bytes
    });
    kept.insert("changedFields".to_owned(), names.cloned().collect());
    kept.into()
}
