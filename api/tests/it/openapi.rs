//! The API document compared with the router, the rules and the answers.

mod access;
mod bounds;
mod compatibility;
mod deleted;
mod document;
mod examples;
mod references;
mod sample;
mod tables;
mod written_back;

use serde_json::Value;

/// The operations of a path, by their methods, without what they have in common.
fn operations_of(path: &Value) -> impl Iterator<Item = (&String, &Value)> {
    path.as_object().unwrap().iter().filter(|(method, _)| *method != "parameters")
}
