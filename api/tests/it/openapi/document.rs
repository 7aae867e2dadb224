//! The committed document compared with the code.

use std::collections::{BTreeMap, BTreeSet};

use longshore_api::openapi;
use serde_json::Value;

use super::operations_of;
use super::sample::example;

/// The committed document.
fn kept() -> Value {
    serde_json::from_str(include_str!("../../../openapi.json")).unwrap()
}

/// Method and path of each operation of a document, with its handler.
fn operations(document: &Value) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations_of(item) {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            // two aliases have one handler
            let handler = id.strip_suffix("_alias").unwrap_or(&id).to_owned();
            found.insert((method.clone(), path.clone()), handler);
        }
    }
    found
}

/// Method and path of each route of the router's table, with the name of its handler.
fn routes() -> BTreeMap<(String, String), String> {
    let routes = openapi::routes()
        .iter()
        .map(|route| ((route.method.as_str().to_lowercase(), route.path.to_owned()), route.operation().0));
    routes.collect()
}

#[test]
fn the_committed_document_matches_the_code() {
    assert!(
        include_str!("../../../openapi.json") == openapi::text(),
        "api/openapi.json is not what the code says; `longshore-api openapi > api/openapi.json` writes it anew"
    );
}

/// How large the served document may be, for each operation.
const MOST_BYTES_AN_OPERATION: usize = 2_400;

/// What is larger than this and said twice is declared once, and referred to.
const MOST_BYTES_TWICE: usize = 320;

/// Calls `look` with every schema, answer, body and parameter that has no name, and its position.
fn each_unnamed(value: &Value, place: &str, look: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => {
            let is_schema = members.get("type").is_some_and(|kind| kind.is_string() || kind.is_array())
                || members.contains_key("oneOf")
                || members.contains_key("anyOf");
            let is_other = members.contains_key("content") || members.get("in").is_some_and(Value::is_string);
            let is_named = place.starts_with("/components/") && place.matches('/').count() == 3;
            if (is_schema || is_other) && !is_named {
                look(place, value);
            }
            for (name, inner) in members.iter().filter(|(name, _)| !name.starts_with("example")) {
                each_unnamed(inner, &format!("{place}/{name}"), look);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|inner| each_unnamed(inner, place, look)),
        _ => {}
    }
}

#[test]
fn what_is_said_twice_is_declared_once() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    each_unnamed(&kept(), "", &mut |place, value| {
        places.entry(value.to_string()).or_default().push(place.to_owned());
    });
    assert!(places.len() > 500, "{}", places.len());
    for (text, places) in places.iter().filter(|(text, _)| text.len() > MOST_BYTES_TWICE) {
        assert_eq!(places.len(), 1, "{text} is in {places:?}");
    }
}

#[test]
fn the_served_document_is_the_committed_one_without_indentation_and_small() {
    let served = openapi::served();
    assert_eq!(serde_json::from_str::<Value>(served).unwrap(), kept());
    assert!(!served.contains('\n'));
    let most = MOST_BYTES_AN_OPERATION * openapi::routes().len();
    assert!(served.len() <= most, "{} bytes, at most {most}", served.len());
}

/// Calls `look` with every object of a document that is a schema with members, and its position.
fn each_with_members(value: &Value, place: &str, look: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => {
            if members.get("type").is_some_and(|kind| kind == "object") && value["properties"].is_object() {
                look(place, value);
            }
            for (name, inner) in members.iter().filter(|(name, _)| !name.starts_with("example")) {
                each_with_members(inner, &format!("{place}/{name}"), look);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|inner| each_with_members(inner, place, look)),
        _ => {}
    }
}

/// Readers of YAML, which also read JSON, take no longer key (YAML 1.2, 7.4.2).
#[test]
fn no_key_is_too_long_for_yaml() {
    fn each_key(value: &Value, look: &mut dyn FnMut(&str)) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, inner)| {
                look(name);
                each_key(inner, look);
            }),
            Value::Array(elements) => elements.iter().for_each(|inner| each_key(inner, look)),
            _ => {}
        }
    }
    let mut longest = 0;
    each_key(&kept(), &mut |key| longest = longest.max(Value::from(key).to_string().chars().count()));
    assert!((40..=1_024).contains(&longest), "a key has {longest} characters");
}

#[test]
fn every_object_has_a_unique_name_for_generators() {
    let document = kept();
    let mut named = 0;
    each_with_members(&document, "", &mut |place, _| {
        let name = place.strip_prefix("/components/schemas/").unwrap_or_default();
        assert!(!name.is_empty() && !name.contains('/'), "{place} has no name");
        named += 1;
    });
    assert!(named > 150, "{named}");
    assert!(!openapi::served().contains("x-name") && !openapi::served().contains("x-meaning"));
}

/// Calls `look` with every schema of a document that says its type, and its position.
fn each_typed(value: &Value, place: &str, look: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => {
            if members.get("type").is_some_and(|kind| kind.is_string() || kind.is_array()) {
                look(place, value);
            }
            for (name, inner) in members.iter().filter(|(name, _)| !name.starts_with("example")) {
                each_typed(inner, &format!("{place}/{name}"), look);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|inner| each_typed(inner, place, look)),
        _ => {}
    }
}

/// A generated client sends the defaults that a schema declares, and so overwrites stored values; or it requires such members.
#[test]
fn no_schema_declares_a_default_and_the_texts_say_them() {
    let document = kept();
    let mut schemas = 0;
    each_typed(&document, "", &mut |place, schema| {
        assert!(schema.get("default").is_none(), "{place}");
        schemas += 1;
    });
    assert!(schemas > 1_000, "{schemas}");
    let schemas = &document["components"]["schemas"];
    for (schema, member, said) in [
        ("WebhookToCreate", "maxInFlight", "The default is `16`."),
        ("ProductToCreate", "packagingType", "The default is `\"A\"`."),
        ("OrganisationToCreate", "automaticExchangeEnabled", "The default is `false`."),
    ] {
        let text = schemas[schema]["properties"][member]["description"].as_str().unwrap_or_default();
        assert!(text.ends_with(said), "{schema}.{member}: {text}");
    }
}

/// Without a format, generators choose types that are too small: 999999.99 becomes 1000000 in 32 bits.
#[test]
fn every_number_has_the_format_of_its_range() {
    let mut numbers = 0;
    each_typed(&kept(), "", &mut |place, schema| {
        let is = |kind: &str| {
            schema["type"] == kind
                || schema["type"].as_array().is_some_and(|kinds| kinds.contains(&kind.into()))
        };
        let is_short = |bound: &str| schema[bound].as_i64().is_some_and(|bound| i32::try_from(bound).is_ok());
        let format = match (is("integer"), is("number")) {
            (true, _) if is_short("minimum") && is_short("maximum") => "int32",
            (true, _) => "int64",
            (_, true) => "double",
            _ => return,
        };
        assert_eq!(schema["format"], format, "{place}");
        numbers += 1;
    });
    assert!(numbers > 150, "{numbers}");
}

/// What a document of a sync, an upload and a form accept is in their schemas, not only in their texts.
#[test]
fn syncs_and_uploads_say_their_bounds_and_forms() {
    let document = kept();
    let schemas = &document["components"]["schemas"];
    for (sync, rows) in [
        ("ProductSync", "products"),
        ("StockSync", "stocks"),
        ("ExpeditionSync", "expeditions"),
        ("NewsSync", "news"),
    ] {
        assert_eq!(schemas[sync]["properties"][rows]["maxItems"], 100_000, "{sync}");
    }
    for (json, form, path, method, part) in [
        ("ImageUpload", "ImageForm", "/api/product/{id}/image/upload", "post", "image"),
        ("InvoiceUpload", "InvoiceForm", "/api/expedition/{id}/invoice", "post", "invoice"),
    ] {
        assert_eq!(schemas[json]["properties"]["data"]["minLength"], 1, "{json}");
        let described = &document["paths"][path][method]["requestBody"]["content"]["multipart/form-data"];
        assert_eq!(described["schema"]["$ref"], format!("#/components/schemas/{form}"));
        let parts: Vec<_> = schemas[form]["properties"].as_object().unwrap().keys().collect();
        assert_eq!(parts, ["file", part], "{form}");
    }
}

#[test]
fn rows_of_a_sync_are_typed() {
    let document = kept();
    for (sync, rows, row) in [
        ("ProductSync", "products", "ProductRow"),
        ("StockSync", "stocks", "StockRow"),
        ("ExpeditionSync", "expeditions", "ExpeditionRow"),
        ("NewsSync", "news", "NewsRow"),
    ] {
        let items = &document["components"]["schemas"][sync]["properties"][rows]["items"];
        assert_eq!(items["$ref"], format!("#/components/schemas/{row}"));
    }
}

/// Generators put the operations of a tag into a file, and the webhooks of a tag into one with the same name.
#[test]
fn no_tag_is_one_of_operations_and_of_webhooks() {
    let document = kept();
    let tags = |items: &Value| -> BTreeSet<String> {
        let operations = items.as_object().unwrap().values().flat_map(operations_of);
        operations.map(|(_, operation)| operation["tags"][0].as_str().unwrap().to_owned()).collect()
    };
    let (operations, webhooks) = (tags(&document["paths"]), tags(&document["webhooks"]));
    assert!(operations.is_disjoint(&webhooks), "{operations:?} {webhooks:?}");
}

#[test]
fn every_list_shows_a_limit() {
    let document = kept();
    let mut lists = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let body = &item["post"]["requestBody"];
        let content = &body["content"]["application/json"];
        if path.ends_with("/list") || path == "/api/audit" {
            assert!(example(&document, content)["limit"].is_u64(), "{path}");
            lists += 1;
        }
    }
    assert!(lists > 15, "{lists}");
}

#[test]
fn every_route_is_in_the_document_and_the_reverse_under_the_name_of_its_handler() {
    let routes = routes();
    assert!(routes.len() > 100, "{routes:?}");
    assert_eq!(routes.len(), openapi::routes().len());
    assert_eq!(operations(&kept()), routes);
}

#[test]
fn every_reference_has_a_target_and_every_component_is_used() {
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
        let reference = format!("#/components/schemas/{name}");
        // every resource has its record, even if no operation returns a single one
        let is_record = document["components"]["schemas"].get(format!("{name}Listed")).is_some();
        assert!(is_record || found.contains(&reference), "{name} is referred to by nothing");
    }
}

#[test]
fn every_operation_describes_its_purpose_and_its_responses() {
    let document = kept();
    let rooms: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations_of(item) {
            let place = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| text.len() > 5), "{place}");
            assert!(rooms.contains(&&operation["tags"][0]), "{place}: {}", operation["tags"]);
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with(['2', '3'])), "{place}");
            // what any operation may refuse a request with is described once
            let refused = &answers.get("default").unwrap_or(&Value::Null)["$ref"];
            assert!(!path.starts_with("/api/") || refused == "#/components/responses/default", "{place}");
            if let Some(body) = operation.get("requestBody") {
                for (media, content) in body["content"].as_object().unwrap() {
                    assert!(!example(&document, content).is_null(), "{place} has no example as {media}");
                }
            }
        }
    }
}
