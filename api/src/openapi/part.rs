//! Names of nested objects. Generators invent names for unnamed objects, sometimes the same for two, so each
//! gets a name, and is moved to the schemas of the document when the document is written.

use serde_json::{Map, Value, json};
use utoipa::openapi::schema::Object;

/// Holds the name of an object until it is moved.
const NAME: &str = "x-name";
/// Holds the description of the object in this place, in addition to its own.
const MEANING: &str = "x-meaning";

/// Gives an object a name.
pub(super) fn call(object: &mut Object, name: &str) {
    object.extensions.get_or_insert_default().insert(NAME.to_owned(), json!(name));
}

/// Whether an object has a name.
pub(super) fn is_called(object: &Object) -> bool {
    object.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(NAME))
}

/// Describes a named object in this place.
pub(super) fn say(object: &mut Object, text: String) {
    object.extensions.get_or_insert_default().insert(MEANING.to_owned(), text.into());
}

/// Moves every named object to the schemas of the document, and leaves a reference. If two different objects
/// have the same name, the second stays where it is, and the tests fail.
pub(super) fn gather(document: &mut Value) {
    let declared = document.pointer("/components/schemas").and_then(Value::as_object).cloned();
    let mut schemas = declared.unwrap_or_default();
    take(document, &mut schemas);
    if let Some(Value::Object(all)) = document.pointer_mut("/components/schemas") {
        for (name, schema) in schemas {
            all.entry(name).or_insert(schema);
        }
    }
}

/// Moves the defaults of schemas to their descriptions. Generated clients send the defaults that a schema declares, or require such
/// members.
pub(super) fn tell_defaults(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // a member of that name is an object
            if let Some(default) = members.get("default").filter(|value| !value.is_object()).cloned() {
                members.remove("default");
                let told = members.get("description").and_then(Value::as_str).unwrap_or_default();
                // it may already say more of it
                if !told.contains("default") && !told.contains("Default") {
                    let told = format!("{told} The default is `{default}`.").trim_start().to_owned();
                    members.insert("description".to_owned(), told.into());
                }
            }
            let inner = members.iter_mut().filter(|(name, _)| !name.starts_with("example"));
            inner.for_each(|(_, inner)| tell_defaults(inner));
        }
        Value::Array(elements) => elements.iter_mut().for_each(tell_defaults),
        _ => {}
    }
}

fn take(value: &mut Value, found: &mut Map<String, Value>) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(|inner| take(inner, found));
            let Some(name) = members.get(NAME).and_then(Value::as_str).map(str::to_owned) else { return };
            let mut schema = members.clone();
            schema.remove(NAME);
            let meaning = schema.remove(MEANING);
            let schema = Value::Object(schema);
            if found.get(&name).is_some_and(|other| *other != schema) {
                return;
            }
            members.clear();
            members.insert("$ref".to_owned(), json!(format!("#/components/schemas/{name}")));
            members.extend(meaning.map(|meaning| ("description".to_owned(), meaning)));
            found.insert(name, schema);
        }
        Value::Array(elements) => elements.iter_mut().for_each(|inner| take(inner, found)),
        _ => {}
    }
}
