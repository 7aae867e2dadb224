//! What breaks a client between two API documents. What a client sends must still be taken, and mean the same; what it is sent must be
//! what it knows, and more.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::super::operations_of;

/// Fields of answers whose words stay the same: clients decide by them. Other lists of words grow.
const CLOSED: [&str; 2] = ["state", "status"];

/// Bounds that let less through when they grow, and those that do when they shrink.
const LEAST: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
const MOST: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];

/// Who makes the values of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    /// The client: a newer schema may take more.
    Request,
    /// The service: a newer schema may say more fields, and no other values.
    Answer,
}

/// The breaks from one document to the next.
pub(super) fn breaks(old: &Value, new: &Value) -> BTreeSet<String> {
    let mut comparison = Comparison { old, new, seen: HashSet::new(), found: BTreeSet::new() };
    comparison.documents();
    comparison.found
}

struct Comparison<'d> {
    old: &'d Value,
    new: &'d Value,
    /// Pairs of named schemas that were compared, or are.
    seen: HashSet<(String, String, Side)>,
    found: BTreeSet<String>,
}

/// Whether the words of the field at a place stay the same.
fn is_closed(place: &str) -> bool {
    place.rsplit_once('.').is_some_and(|(_, field)| CLOSED.contains(&field))
}

/// The members of an object; none of anything else.
fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The texts of an array; none of anything else.
fn texts(value: &Value) -> BTreeSet<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// What a reference leads to.
fn follow<'d>(document: &'d Value, mut value: &'d Value) -> &'d Value {
    while let Some(place) = value["$ref"].as_str() {
        value = document.pointer(place.trim_start_matches('#')).unwrap_or_else(|| panic!("{place}"));
    }
    value
}

/// A schema of one type, and its name if it has one.
struct Alternative {
    name: Option<String>,
    schema: Value,
}

/// The name of what a reference leads to.
fn name(schema: &Value) -> Option<String> {
    Some(schema["$ref"].as_str()?.rsplit_once('/')?.1.to_owned())
}

/// The types of what a schema describes.
fn alternatives(document: &Value, schema: &Value) -> Vec<Alternative> {
    let (name, schema) = (name(schema), follow(document, schema));
    if let Some(several) = schema.get("oneOf").or_else(|| schema.get("anyOf")) {
        return several.as_array().unwrap().iter().flat_map(|one| alternatives(document, one)).collect();
    }
    let Some(types) = schema["type"].as_array() else {
        return vec![Alternative { name, schema: schema.clone() }];
    };
    let of_type = |kind: &Value| {
        let mut one = schema.clone();
        one["type"] = kind.clone();
        if let Some(words) = one["enum"].as_array_mut() {
            words.retain(|word| word.is_null() == (kind == "null"));
        }
        Alternative { name: None, schema: one }
    };
    types.iter().map(of_type).collect()
}

/// Parameters of an operation and its path, by place and name.
fn parameters<'d>(
    document: &'d Value,
    path: &'d Value,
    operation: &'d Value,
) -> BTreeMap<(&'d str, &'d str), &'d Value> {
    let all = [path, operation].into_iter().filter_map(|of| of["parameters"].as_array()).flatten();
    let found = all.map(|parameter| follow(document, parameter));
    found.map(|it| ((it["in"].as_str().unwrap(), it["name"].as_str().unwrap()), it)).collect()
}

/// The roles that may call; nothing if anyone may.
fn roles<'d>(document: &'d Value, operation: &'d Value) -> Option<BTreeSet<&'d str>> {
    let security = operation.get("security").unwrap_or(&document["security"]);
    security.as_array().unwrap().first().map(|one| texts(&one["accessToken"]))
}

impl<'d> Comparison<'d> {
    fn says(&mut self, place: &str, what: impl AsRef<str>) {
        self.found.insert(format!("{place}: {}", what.as_ref()));
    }

    fn documents(&mut self) {
        let (old, new) = (self.old, self.new);
        for (path, before) in members(&old["paths"]) {
            for (method, operation) in operations_of(before) {
                let place = format!("{} {path}", method.to_uppercase());
                match new["paths"].get(path).and_then(|now| Some((now, now.get(method)?))) {
                    Some((path, now)) => self.operation(&place, (before, operation), (path, now)),
                    None => self.says(&place, "removed"),
                }
            }
        }
        for (event, before) in members(&old["webhooks"]) {
            let place = format!("event {event}");
            let Some(now) = new["webhooks"].get(event) else {
                self.says(&place, "removed");
                continue;
            };
            let content = |of: &'d Value| &of["post"]["requestBody"]["content"]["application/json"];
            self.schema(&place, &content(before)["schema"], &content(now)["schema"], Side::Answer);
            self.example(&place, &content(before)["example"], &content(now)["example"]);
        }
    }

    fn operation(&mut self, place: &str, old: (&'d Value, &'d Value), new: (&'d Value, &'d Value)) {
        let (before, now) = (old.1, new.1);
        if before["operationId"] != now["operationId"] {
            self.says(place, format!("the operationId {} is another one", before["operationId"]));
        }
        if let Some(may) = roles(self.new, now) {
            match roles(self.old, before) {
                Some(might) => might.difference(&may).for_each(|role| {
                    self.says(place, format!("the role {role} may not call it any more"));
                }),
                None => self.says(place, "needs a token"),
            }
        }
        let (had, has) = (parameters(self.old, old.0, before), parameters(self.new, new.0, now));
        for ((kind, name), parameter) in &had {
            match has.get(&(*kind, *name)) {
                Some(now) => self.schema(
                    &format!("{place} {name}"),
                    &parameter["schema"],
                    &now["schema"],
                    Side::Request,
                ),
                None => self.says(&format!("{place} {name}"), "removed"),
            }
        }
        for ((kind, name), _) in has.iter().filter(|(_, parameter)| parameter["required"] == true) {
            if had.get(&(*kind, *name)).is_none_or(|before| before["required"] != true) {
                self.says(&format!("{place} {name}"), "required");
            }
        }
        let (sent, taken) = (follow(self.old, &before["requestBody"]), follow(self.new, &now["requestBody"]));
        if taken["required"] == true && sent["required"] != true {
            self.says(&format!("{place} body"), "required");
        }
        self.contents(&format!("{place} body"), sent, taken, Side::Request);
        for (status, answer) in members(&before["responses"]) {
            let place = format!("{place} {status}");
            let answer = follow(self.old, answer);
            match now["responses"].get(status) {
                Some(now) => {
                    let now = follow(self.new, now);
                    for (name, _) in members(&answer["headers"]) {
                        if now["headers"].get(name).is_none() {
                            self.says(&format!("{place} {name}"), "removed");
                        }
                    }
                    self.contents(&place, answer, now, Side::Answer);
                }
                // other refusals are the default
                None if status.starts_with(['2', '3', 'd']) => self.says(&place, "removed"),
                None => {}
            }
        }
    }

    fn contents(&mut self, place: &str, old: &'d Value, new: &'d Value, side: Side) {
        for (media, before) in members(&old["content"]) {
            match new["content"].get(media) {
                Some(now) => self.schema(place, &before["schema"], &now["schema"], side),
                None => self.says(place, format!("{media} removed")),
            }
        }
    }

    /// An example of an event shows fields that no schema lists.
    fn example(&mut self, place: &str, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                for (name, before) in old {
                    let place = format!("{place}.{name}");
                    match new.get(name) {
                        Some(now) => self.example(&place, before, now),
                        None => self.says(&place, "removed"),
                    }
                }
            }
            (Value::Array(old), Value::Array(new)) => {
                if let (Some(before), Some(now)) = (old.first(), new.first()) {
                    self.example(&format!("{place}[]"), before, now);
                }
            }
            (Value::Null, _)
            | (_, Value::Null)
            | (Value::String(_), Value::String(_))
            | (Value::Number(_), Value::Number(_))
            | (Value::Bool(_), Value::Bool(_)) => {}
            _ => self.says(place, "has another type"),
        }
    }

    fn schema(&mut self, place: &str, old: &Value, new: &Value, side: Side) {
        let Some(place) = self.begin(place, name(old), name(new), side) else { return };
        let (before, now) = (alternatives(self.old, old), alternatives(self.new, new));
        if let ([before], [now]) = (before.as_slice(), now.as_slice()) {
            return self.one(&place, &before.schema, &now.schema, side);
        }
        // each that was sent fits one that is taken now, and each that is answered now fits one that was answered
        let (each, some) = if side == Side::Request { (before, now) } else { (now, before) };
        for one in &each {
            let named: Vec<_> =
                some.iter().filter(|other| one.name.is_some() && one.name == other.name).collect();
            let typed: Vec<_> =
                some.iter().filter(|other| one.schema["type"] == other.schema["type"]).collect();
            let candidates =
                [named, typed, some.iter().collect()].into_iter().find(|these| !these.is_empty());
            let compare = |to: &mut Self, other: &Alternative| {
                let (before, now) = if side == Side::Request { (one, other) } else { (other, one) };
                if let Some(place) = to.begin(&place, before.name.clone(), now.name.clone(), side) {
                    to.one(&place, &before.schema, &now.schema, side);
                }
            };
            match candidates.as_deref() {
                None => {}
                Some([only]) => compare(self, only),
                Some(several) => {
                    let tried = several.iter().map(|other| {
                        let mut tried = Self { seen: self.seen.clone(), found: BTreeSet::new(), ..*self };
                        compare(&mut tried, other);
                        tried
                    });
                    if let Some(nearest) = tried.min_by_key(|tried| tried.found.len()) {
                        self.found.extend(nearest.found);
                        self.seen = nearest.seen;
                    }
                }
            }
        }
    }

    /// Where breaks of these schemas are: by their name, if they have one, so that each is said once. Nothing if they were compared.
    fn begin(&mut self, place: &str, old: Option<String>, new: Option<String>, side: Side) -> Option<String> {
        // of one whose words stay the same, it depends on the field
        let (Some(old), Some(new), false) = (old, new, is_closed(place)) else {
            return Some(place.to_owned());
        };
        let place = format!("{} {old}", if side == Side::Request { "request" } else { "answer" });
        self.seen.insert((old, new, side)).then_some(place)
    }

    /// Compares schemas of one type each.
    fn one(&mut self, place: &str, old: &Value, new: &Value, side: Side) {
        // what must hold of all that is sent, or answered, and what it must fit
        let (each, fits) = if side == Side::Request { (old, new) } else { (new, old) };
        let is_wider = |name: &str, (narrow, wide): (&str, &str)| each[name] == narrow && fits[name] == wide;
        if each["type"] != fits["type"] && !fits["type"].is_null() && !is_wider("type", ("integer", "number"))
        {
            return self.says(place, format!("{} became {}", old["type"], new["type"]));
        }
        if each["format"] != fits["format"]
            && !fits["format"].is_null()
            && !is_wider("format", ("int32", "int64"))
        {
            self.says(place, format!("the format {} became {}", old["format"], new["format"]));
        }
        self.words(place, old, new, side);
        if side == Side::Request {
            self.bounds(place, old, new);
        }
        let (before, now) = (texts(&old["required"]), texts(&new["required"]));
        for (name, member) in members(&old["properties"]) {
            let place = format!("{place}.{name}");
            let Some(other) = new["properties"].get(name) else {
                self.says(&place, "removed");
                continue;
            };
            self.schema(&place, member, other, side);
            if side == Side::Answer && before.contains(name.as_str()) && !now.contains(name.as_str()) {
                self.says(&place, "may be absent");
            }
        }
        for name in now.difference(&before).filter(|_| side == Side::Request) {
            self.says(&format!("{place}.{name}"), "required");
        }
        for (name, place) in [("items", format!("{place}[]")), ("additionalProperties", format!("{place}.*"))]
        {
            if old[name].is_object() && new[name].is_object() {
                self.schema(&place, &old[name], &new[name], side);
            }
        }
        if side == Side::Request
            && new["additionalProperties"] == false
            && old["additionalProperties"] != false
        {
            self.says(place, "takes no other members");
        }
    }

    fn words(&mut self, place: &str, old: &Value, new: &Value, side: Side) {
        let is_closed = is_closed(place);
        let (before, now) = (old["enum"].as_array(), new["enum"].as_array());
        match (side, before, now) {
            (Side::Request, Some(before), Some(now)) => {
                for word in before.iter().filter(|word| !now.contains(word)) {
                    self.says(place, format!("{word} removed"));
                }
            }
            (Side::Request, None, Some(_)) => self.says(place, "takes only some words"),
            (Side::Answer, Some(before), Some(now)) if is_closed => {
                for word in now.iter().filter(|word| !before.contains(word)) {
                    self.says(place, format!("{word} added"));
                }
            }
            (Side::Answer, Some(_), None) if is_closed => self.says(place, "has other words"),
            _ => {}
        }
    }

    fn bounds(&mut self, place: &str, old: &Value, new: &Value) {
        let number = |schema: &Value, name: &str| schema[name].as_f64();
        for name in LEAST {
            if number(new, name).is_some_and(|now| number(old, name).is_none_or(|before| before < now)) {
                self.says(place, format!("{name} {} became {}", old[name], new[name]));
            }
        }
        for name in MOST {
            if number(new, name).is_some_and(|now| number(old, name).is_none_or(|before| before > now)) {
                self.says(place, format!("{name} {} became {}", old[name], new[name]));
            }
        }
        if !new["pattern"].is_null() && new["pattern"] != old["pattern"] {
            self.says(place, "has another pattern");
        }
    }
}
