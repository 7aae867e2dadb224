//! The refused value of a violation, as text (`docs/reference/errors.md#violations`).
//!
//! A violation names its value by a path. The value is looked up in the body as it was sent, when the violation becomes
//! part of an answer: so it is there for every rule, also for those that run after the body was read, and no rule has to keep
//! it.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::authentication::MASK;
use super::problem::Violation;

/// Characters of a value that are shown.
pub const LONGEST: usize = 100;

/// Bytes of a path that is followed.
const LONGEST_PATH: usize = 1_024;

/// `parameters` of a violation. Clients of this API family put them into templates of sentences, hence the names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parameters {
    /// The refused value: empty where there is none.
    #[serde(rename = "{{ value }}")]
    pub value: String,
    /// The record that has the value already, where the caller may see it.
    #[serde(rename = "{{ id }}", skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// How many there are, where another number was expected.
    #[serde(rename = "{{ count }}", skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
}

impl Parameters {
    /// Those of a violation of the rules of a body.
    #[must_use]
    pub fn of(violation: &Violation, body: Option<&Value>) -> Self {
        let value = match body.and_then(|body| at(body, &violation.property_path)) {
            None => String::new(),
            Some(value) if violation.is_secret && !value.is_null() => MASK.to_owned(),
            Some(value) => text(value),
        };
        Self { value, id: violation.other, count: violation.count.map(|count| count.to_string()) }
    }
}

/// A value as text. What an array or object holds is left out: it may be a secret.
fn text(value: &Value) -> String {
    match value {
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
        Value::String(text) => shortened(text),
        scalar => shortened(&scalar.to_string()),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

/// The value at a path, as in `items[0].quantity`. A name may have dots itself, as those of criteria do.
fn at<'b>(value: &'b Value, path: &str) -> Option<&'b Value> {
    if path.is_empty() {
        return Some(value);
    }
    match value {
        Value::Array(elements) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            at(elements.get(index.parse::<usize>().ok()?)?, rest.strip_prefix('.').unwrap_or(rest))
        }
        Value::Object(members) => {
            if let Some(value) = members.get(path) {
                return Some(value);
            }
            // a caller chooses names: one of a megabyte of dots is not looked for at each
            let ends = path.match_indices(['.', '[']).filter(|_| path.len() <= LONGEST_PATH);
            ends.map(|(end, _)| path.split_at(end))
                .find_map(|(name, rest)| at(members.get(name)?, rest.strip_prefix('.').unwrap_or(rest)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value_at(path: &str, body: &Value) -> String {
        Parameters::of(&Violation::new(path, "invalid", "is invalid"), Some(body)).value
    }

    #[test]
    fn a_value_is_found_by_its_path() {
        let body = json!({"items": [{"quantity": 0}], "criteria": {"eshops.name": {"like": [1]}, "eshops": 2},
            "name": "x", "none": null, "": "nameless", "a": {"b": 1}, "a.b": {"c": 2}});
        for (path, value) in [
            ("items[0].quantity", "0"),
            ("items[1].quantity", ""),
            ("items[0]", "object"),
            ("items", "array"),
            ("criteria.eshops.name.like", "array"),
            ("criteria.eshops.name.like[0]", "1"),
            ("criteria.eshops", "2"),
            ("name", "x"),
            ("none", "null"),
            ("colour", ""),
            ("", "object"),
            ("a.b.c", "2"),
            ("items[99999999999999999999]", ""),
        ] {
            assert_eq!(value_at(path, &body), value, "{path}");
        }
        assert_eq!(value_at("[1]", &json!(["a", true])), "true");
        assert_eq!(value_at("[1][0].x", &json!([0, [{"x": 2.5}]])), "2.5");
    }

    #[test]
    fn a_long_value_is_shortened_and_a_secret_masked() {
        let long = "ü".repeat(101);
        assert_eq!(value_at("name", &json!({"name": long})), format!("{}…", "ü".repeat(99)));
        assert_eq!(value_at("name", &json!({"name": "ü".repeat(100)})), "ü".repeat(100));
        let secret =
            Violation { is_secret: true, ..Violation::new("password", "invalid_length", "is short") };
        assert_eq!(Parameters::of(&secret, Some(&json!({"password": "hush"}))).value, "***");
        assert_eq!(Parameters::of(&secret, Some(&json!({"password": null}))).value, "null");
        assert_eq!(Parameters::of(&secret, Some(&json!({}))).value, "");
        assert_eq!(Parameters::of(&secret, None).value, "");
    }

    #[test]
    fn a_hostile_path_is_looked_for_once() {
        let dots = ".".repeat(1_000_000);
        let body = json!({"a": {}, dots.as_str(): 1});
        assert_eq!(value_at(&dots, &body), "1");
        assert_eq!(value_at(&format!("a.{dots}"), &body), "");
    }
}
