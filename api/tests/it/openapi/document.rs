//! The document as it is kept, against the code.

use std::collections::BTreeMap;

use longshore_api::openapi;
use serde_json::Value;

/// The committed document.
fn kept() -> Value {
    serde_json::from_str(include_str!("../../../openapi.json")).unwrap()
}

/// Method and path of each operation of a document, with its handler.
fn operations(document: &Value) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            // two spellings have one handler
            let handler = id.strip_suffix("_alias").unwrap_or(&id).to_owned();
            found.insert((method.clone(), path.clone()), handler);
        }
    }
    found
}

/// Method and path of each route of the router's table, with the name of its handler.
fn routes() -> BTreeMap<(String, String), String> {
    let table = include_str!("../../../src/router.rs");
    let mut found = BTreeMap::new();
    for route in table.split(".route(").skip(1) {
        let mut texts = route.split('"');
        let path = texts.nth(1).unwrap();
        let methods = texts.next().unwrap().split(".layer(").next().unwrap();
        for method in ["get", "put", "post", "delete"] {
            let Some((_, rest)) = methods.split_once(&format!("{method}(")) else { continue };
            let handler = rest.split(')').next().unwrap().rsplit("::").next().unwrap();
            found.insert((method.to_owned(), path.to_owned()), handler.to_owned());
        }
    }
    found
}

#[test]
fn the_kept_document_is_what_the_code_says() {
    assert!(
        include_str!("../../../openapi.json") == openapi::text(),
        "api/openapi.json is not what the code says; `longshore-api openapi > api/openapi.json` writes it anew"
    );
}

#[test]
fn every_route_is_in_the_document_and_the_reverse_under_the_name_of_its_handler() {
    let routes = routes();
    assert!(routes.len() > 40, "{routes:?}");
    assert_eq!(operations(&kept()), routes);
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_referred_to() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match value {
                        Value::String(text) if name == "$ref" => found.push(text.clone()),
                        _ => references(value, found),
                    }
                }
            }
            Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
            _ => {}
        }
    }
    let document = kept();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 500);
    for reference in &found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for (name, _) in document["components"]["schemas"].as_object().unwrap() {
        // rows of a stream are text to OpenAPI: their schemas are there to be read
        let is_row = ["ProductRow", "StockRow"].contains(&name.as_str());
        let reference = format!("#/components/schemas/{name}");
        // and every resource has its record, whether or not an operation answers a single one
        let is_record = document["components"]["schemas"].get(format!("{name}Listed")).is_some();
        assert!(is_row || is_record || found.contains(&reference), "{name} is referred to by nothing");
    }
}

#[test]
fn every_operation_says_what_it_is_for_and_how_it_ends() {
    let document = kept();
    let rooms: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let place = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| text.len() > 5), "{place}");
            assert!(rooms.contains(&&operation["tags"][0]), "{place}: {}", operation["tags"]);
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with(['2', '3'])), "{place}");
            let is_public = operation["security"].as_array().unwrap().is_empty();
            // who may call is not asked, but told apart
            let logs_in = path.starts_with("/api/login/");
            assert_eq!(is_public && !logs_in, !answers.contains_key("401"), "{place}");
            if let Some(body) = operation.get("requestBody") {
                for (media, content) in body["content"].as_object().unwrap() {
                    assert!(content.get("example").is_some(), "{place} has no example as {media}");
                }
            }
        }
    }
}
