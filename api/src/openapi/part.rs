//! What is done to the document when it is written. Nested objects have names, because generators invent names for unnamed ones,
//! sometimes the same for two; they are moved to the schemas of the document. What several operations answer is declared once. The
//! defaults of members are told in their descriptions.

use std::collections::{BTreeMap, BTreeSet};

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
    each_object(value, &mut |members| {
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
    });
}

/// Changes each object of a part of the document, but those of its examples.
fn each_object(value: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            change(members);
            let inner = members.iter_mut().filter(|(name, _)| !name.starts_with("example"));
            inner.for_each(|(_, inner)| each_object(inner, change));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|inner| each_object(inner, change)),
        _ => {}
    }
}

/// Leaves out the examples of answers, moves every answer that several operations have to the responses of the document, and leaves
/// references. Its name is made of its content and its status, as `Job202`.
pub(super) fn gather_answers(document: &mut Value) {
    if let Some(components) = document["components"].as_object_mut() {
        components.remove("examples");
        components.get_mut("responses").into_iter().for_each(forget_examples);
    }
    members(&mut document["paths"])
        .flat_map(members)
        .filter_map(|operation| operation.get_mut("responses"))
        .for_each(forget_examples);
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    each_answer(document, &mut |name, answer| {
        *times.entry(format!("{name} {answer}")).or_default() += 1;
    });
    let mut found = Map::new();
    each_answer(document, &mut |name, answer| {
        let is_repeated = times.get(&format!("{name} {answer}")).is_some_and(|times| *times > 1);
        if is_repeated && found.entry(&name).or_insert_with(|| answer.clone()) == answer {
            *answer = json!({"$ref": format!("#/components/responses/{name}")});
        }
    });
    if let Some(Value::Object(all)) = document.pointer_mut("/components/responses") {
        all.extend(found);
    }
}

/// Says what most operations demand of the caller once, for the whole document.
pub(super) fn gather_security(document: &mut Value) {
    let demand = |operation: &Value| operation.get("security").cloned().unwrap_or_else(|| json!([]));
    let demanded = members(&mut document["paths"]).flat_map(members).map(|operation| demand(operation));
    let Some(most) = most_frequent(demanded) else { return };
    let mut tell = |operation: &mut Value| {
        let demanded = demand(operation);
        if let Some(operation) = operation.as_object_mut() {
            operation.remove("security");
            if demanded != most {
                operation.insert("security".to_owned(), demanded);
            }
        }
    };
    members(&mut document["paths"]).flat_map(members).for_each(&mut tell);
    members(&mut document["webhooks"]).flat_map(members).filter(|one| one.is_object()).for_each(&mut tell);
    document["security"] = most;
}

/// Declares once what several operations take, and moves what all of a path take to the path.
pub(super) fn gather_parameters(document: &mut Value) {
    fn each(document: &mut Value) -> impl Iterator<Item = &mut Value> {
        let operations = members(&mut document["paths"]).flat_map(members);
        operations.filter_map(|operation| operation.get_mut("parameters")?.as_array_mut()).flatten()
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for parameter in each(document) {
        *times.entry(parameter.to_string()).or_default() += 1;
    }
    let mut found = Map::new();
    for parameter in each(document).filter(|parameter| parameter.get("$ref").is_none()) {
        let is_repeated = times.get(&parameter.to_string()).is_some_and(|times| *times > 1);
        let Some(name) = parameter["name"].as_str().filter(|_| is_repeated).map(str::to_owned) else {
            continue;
        };
        if found.entry(&name).or_insert_with(|| parameter.clone()) == parameter {
            *parameter = json!({"$ref": format!("#/components/parameters/{name}")});
        }
    }
    if let Some(Value::Object(all)) = document.pointer_mut("/components/parameters") {
        all.extend(found);
    }
    for path in members(&mut document["paths"]).filter_map(Value::as_object_mut) {
        let taken = |operation: &Value| operation["parameters"].as_array().cloned().unwrap_or_default();
        let [first, others @ ..] = &*path.values().map(taken).collect::<Vec<_>>() else { continue };
        let common: Vec<Value> =
            first.iter().filter(|one| others.iter().all(|taken| taken.contains(one))).cloned().collect();
        if others.is_empty() || common.is_empty() {
            continue;
        }
        for operation in path.values_mut().filter_map(Value::as_object_mut) {
            if let Some(Value::Array(mut own)) = operation.remove("parameters") {
                own.retain(|one| !common.contains(one));
                let own = Some(own).filter(|own| !own.is_empty());
                operation.extend(own.map(|own| ("parameters".to_owned(), own.into())));
            }
        }
        path.insert("parameters".to_owned(), common.into());
    }
}

/// Leaves out that a body or a parameter is optional, which is what documents mean without a word.
pub(super) fn leave_out_optional(document: &mut Value) {
    each_object(document, &mut |members| members.retain(|name, value| name != "required" || *value != false));
}

/// Declares the example of most requests once.
pub(super) fn gather_requests(document: &mut Value) {
    fn each(document: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
        let operations = members(&mut document["paths"]).flat_map(members);
        let bodies = operations.filter_map(|operation| operation.get_mut("requestBody"));
        bodies.flat_map(|body| members(&mut body["content"])).filter_map(Value::as_object_mut)
    }
    let examples = each(document).filter_map(|content| content.get("example").cloned());
    let Some(most) = most_frequent(examples) else { return };
    for content in each(document).filter(|content| content.get("example") == Some(&most)) {
        content.remove("example");
        content.insert("examples".to_owned(), json!({"usual": {"$ref": "#/components/examples/Usual"}}));
    }
    document["components"]["examples"] = json!({"Usual": {"value": most}});
}

/// Declares once each choice between an id and the record that `nested` returns instead.
pub(super) fn gather_choices(document: &mut Value) {
    fn take(value: &mut Value, found: &mut Map<String, Value>) {
        let name = match value["oneOf"].as_array().map(Vec::as_slice) {
            Some([id, record]) if id["$ref"] == "#/components/schemas/Id" => {
                record["$ref"].as_str().and_then(|path| path.rsplit('/').next()?.strip_suffix("Listed"))
            }
            _ => None,
        };
        if let Some(name) = name.map(|name| format!("{name}OrId")) {
            let reference = json!({"$ref": format!("#/components/schemas/{name}")});
            found.insert(name, std::mem::replace(value, reference));
            return;
        }
        match value {
            Value::Object(members) => members.values_mut().for_each(|inner| take(inner, found)),
            Value::Array(elements) => elements.iter_mut().for_each(|inner| take(inner, found)),
            _ => {}
        }
    }
    let mut found = Map::new();
    let schemas = &mut document["components"]["schemas"];
    take(schemas, &mut found);
    if let Some(schemas) = schemas.as_object_mut() {
        schemas.extend(found);
    }
}

/// Declares once each of these schemas, which are said in several places, also where the value may be null.
pub(super) fn gather_schemas(document: &mut Value, named: &[(&str, Value)]) {
    let schemas = &mut document["components"]["schemas"];
    for (name, schema) in named {
        debug_assert!(schemas.get(name).is_none_or(|there| there == schema), "{name} is another schema, too");
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        let mut or_null = schema.clone();
        if let Some(words) = or_null["enum"].as_array_mut() {
            words.push(Value::Null);
            or_null["type"] = json!([schema["type"], "null"]);
        }
        let mut tell = |members: &mut Map<String, Value>| {
            let description = members.get("description").cloned();
            let mut said = Value::Object(std::mem::take(members));
            said.as_object_mut().and_then(|said| said.remove("description"));
            let told = match &said {
                said if said == schema => reference.clone(),
                said if *said == or_null => json!({"anyOf": [reference, {"type": "null"}]}),
                _ => said,
            };
            members.extend(told.as_object().cloned().unwrap_or_default());
            members.extend(description.map(|text| ("description".to_owned(), text)));
        };
        members(schemas).flat_map(members).for_each(|said| each_object(said, &mut tell));
        if let Some(schemas) = schemas.as_object_mut() {
            schemas.entry(*name).or_insert_with(|| schema.clone());
        }
    }
}

/// Declares once what several schemas say of a member, with its description: each is named, and a schema and a member that say it.
pub(super) fn gather_members(document: &mut Value, named: &[(&str, &str, &str)]) {
    let schemas = &mut document["components"]["schemas"];
    for (name, of, member) in named {
        let said = schemas[of]["properties"][member].clone();
        debug_assert!(said.is_object() && schemas.get(name).is_none(), "{name}: {of}.{member}");
        let told = members(schemas).filter_map(|schema| schema.get_mut("properties"));
        for other in told.flat_map(members) {
            if *other == said {
                *other = json!({"$ref": format!("#/components/schemas/{name}")});
            }
        }
        schemas[name] = said;
    }
}

/// The value that is there most often.
fn most_frequent(values: impl Iterator<Item = Value>) -> Option<Value> {
    let mut times: BTreeMap<String, (usize, Value)> = BTreeMap::new();
    for value in values {
        times.entry(value.to_string()).or_insert((0, value)).0 += 1;
    }
    times.into_values().max_by_key(|(times, _)| *times).map(|(_, value)| value)
}

fn forget_examples(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|name, _| name != "example" && name != "examples");
        members.values_mut().for_each(forget_examples);
    }
}

fn each_answer(document: &mut Value, look: &mut dyn FnMut(String, &mut Value)) {
    let operations = members(&mut document["paths"]).flat_map(members);
    for answers in operations.filter_map(|operation| operation["responses"].as_object_mut()) {
        for (status, answer) in answers {
            if let Some(name) = content_of(answer).map(|content| format!("{content}{status}")) {
                look(name, answer);
            }
        }
    }
}

fn members(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_object_mut().into_iter().flat_map(Map::values_mut)
}

/// The name of what an answer contains; of one or several, it is in the plural. What has none gets one from generators, which is that
/// of the operation.
fn content_of(answer: &Value) -> Option<String> {
    let (_, content) = answer["content"].as_object()?.iter().next()?;
    let schema = &content["schema"];
    let (schema, plural) = schema["anyOf"].get(0).map_or((schema, ""), |one| (one, "s"));
    let name = schema["$ref"].as_str()?.rsplit('/').next()?;
    Some(format!("{name}{plural}"))
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

/// Lets the objects of answers and events have further members: later versions add some, and a client must not refuse them. Objects
/// of requests stay closed.
pub(super) fn open_answers(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let mut closed: BTreeSet<String> = BTreeSet::new();
    let mut found: Vec<String> = Vec::new();
    for operation in members(&mut document["paths"]).flat_map(members) {
        for part in ["requestBody", "parameters"] {
            names(&operation[part], &mut found);
        }
    }
    while let Some(name) = found.pop() {
        if closed.insert(name.clone()) {
            schemas.get(&name).into_iter().for_each(|schema| names(schema, &mut found));
        }
    }
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    for (_, schema) in schemas.iter_mut().filter(|(name, _)| !closed.contains(*name)) {
        each_object(schema, &mut |members| {
            if members.get("additionalProperties") == Some(&json!(false)) {
                members.remove("additionalProperties");
            }
        });
    }
}

/// The schemas that a part of the document refers to.
fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let name = members.get("$ref").and_then(Value::as_str);
            found.extend(name.and_then(|name| name.strip_prefix("#/components/schemas/")).map(str::to_owned));
            members.values().for_each(|inner| names(inner, found));
        }
        Value::Array(elements) => elements.iter().for_each(|inner| names(inner, found)),
        _ => {}
    }
}
