//! Each bound of each body in the document is enforced by the service: a value on one side is refused with
//! the path of the field, one on the other side is not.

use serde_json::{Map, Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::sample::{Operation, Sample};
use crate::product::MIGRATIONS;

/// Codes of violations that a schema can express; others concern stored data.
const KNOWN_TO_SCHEMAS: &[&str] = &[
    "unknown_currency",
    "invalid_date",
    "invalid_amount",
    "required",
    "wrong_type",
    "invalid_length",
    "out_of_range",
    "invalid_count",
    "not_allowed",
    "unknown_field",
    "invalid_id",
    "invalid_timestamp",
    "unknown_operator",
    "invalid_character",
    "invalid_base64",
];

/// The largest array to send.
const LARGEST: usize = 200_000;

/// One changed body.
#[derive(Debug)]
struct Case {
    /// The path of the field in violations.
    path: String,
    body: Value,
    /// Whether the schema accepts it.
    fits: bool,
    /// Whether the field is null in it.
    is_null: bool,
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_service_enforces_every_bound_of_every_body(_: PgPoolOptions, options: PgConnectOptions) {
    let sample = Sample::new(&options).await;
    let mut sent = 0;
    for operation in sample.operations() {
        for (media, schema, example) in &operation.bodies {
            if media != "application/json" {
                continue;
            }
            let mut cases = Vec::new();
            alter(&sample, schema, example, "", &|body| body, &mut cases);
            // an invalid row is an item error of the job; `null` means the same as an absent credential, and
            // the type of credentials decides which others are allowed; `direction` is for syncs without
            // rows, but the example has rows
            cases.retain(|case| {
                let is_of_row = ["products[", "stocks[", "expeditions[", "news["]
                    .iter()
                    .any(|rows| case.path.starts_with(rows));
                let credential =
                    ["authentication.", "credentials."].iter().find_map(|of| case.path.strip_prefix(of));
                !(is_of_row
                    || credential.is_some_and(|name| case.is_null || name == "type")
                    || case.path == "direction"
                    // a cursor is what a page before has given
                    || case.path == "after")
            });
            for case in &cases {
                check(&sample, &operation, case).await;
            }
            assert!(cases.len() > 2, "{}: {cases:?}", operation.id);
            sent += cases.len();
        }
    }
    assert!(sent > 500, "{sent}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn null_is_no_body_where_a_body_is_optional(_: PgPoolOptions, options: PgConnectOptions) {
    let sample = Sample::new(&options).await;
    let mut optional = 0;
    for operation in sample.operations().into_iter().filter(|operation| operation.is_body_optional) {
        let request = http::Request::builder()
            .method(operation.method.clone())
            .uri(&operation.path)
            .header("authorization", format!("Bearer {}", sample.api.superadmin))
            .header("prefer", "respond-async")
            .header("content-type", "application/json");
        let reply = sample.api.send(request.body(" null\n".into()).unwrap()).await;
        assert_ne!(reply.status.as_u16(), 400, "{} {}: {}", operation.method, operation.path, reply.text);
        optional += 1;
    }
    assert!(optional > 25, "{optional}");
}

async fn check(sample: &Sample, operation: &Operation, case: &Case) {
    let api = &sample.api;
    let prefer = [("prefer", "respond-async"), ("content-type", "application/json")];
    let request = http::Request::builder()
        .method(operation.method.clone())
        .uri(&operation.path)
        .header("authorization", format!("Bearer {}", api.superadmin));
    let request = prefer.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let body = case.body.to_string();
    let shown: String = body.chars().take(600).collect();
    let reply = api.send(request.body(body.into()).unwrap()).await;
    let place = format!("{} {} with {shown}: {}", operation.method, operation.path, reply.text);
    assert!(operation.answers.contains(&reply.status.as_u16().to_string()), "{place}");
    let refused: Vec<(String, String)> = if reply.status.as_u16() == 400 {
        let violations = reply.json()["violations"].as_array().cloned().unwrap_or_default();
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        violations.iter().map(|v| (text(&v["propertyPath"]), text(&v["code"]))).collect()
    } else {
        Vec::new()
    };
    let is_refused =
        refused.iter().any(|(path, code)| *path == case.path && KNOWN_TO_SCHEMAS.contains(&code.as_str()));
    assert_eq!(is_refused, !case.fits, "{} of {place}", case.path);
}

/// Changes a value and everything in it, one bound at a time.
fn alter(
    sample: &Sample,
    schema: &Value,
    value: &Value,
    path: &str,
    whole: &dyn Fn(Value) -> Value,
    cases: &mut Vec<Case>,
) {
    let schema = sample.schema(schema);
    let mut case = |value: Value, fits: bool| {
        let is_null = value.is_null();
        cases.push(Case { path: path.to_owned(), body: whole(value), fits, is_null });
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if let Some(several) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        if path.is_empty() {
            // of a body with several forms, the form of the example
            let is_of = |form: &&Value| {
                let mut names = form["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                names.all(|name| value.get(name).is_some())
            };
            let form = several.iter().find(is_of).unwrap();
            let first = cases.len();
            alter(sample, form, value, path, whole, cases);
            // without its characteristic member, it may match another form
            let is_another = |body: &Value| {
                several.iter().filter(|other| *other != form).map(|other| sample.schema(other)).any(|other| {
                    let mut required =
                        other["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                    let mut members = body.as_object().into_iter().flatten();
                    other["type"] == "object"
                        && required.all(|name| body.get(name).is_some())
                        && members.all(|(name, _)| other["properties"].get(name).is_some())
                })
            };
            let altered = cases.split_off(first);
            cases.extend(altered.into_iter().filter(|case| case.fits || !is_another(&case.body)));
            return;
        }
        let is_null = |one: &&Value| one["type"] == "null";
        case(Value::Null, several.iter().any(|one| is_null(&one)));
        if let ([one], false) =
            (&several.iter().filter(|one| !is_null(one)).collect::<Vec<_>>()[..], value.is_null())
        {
            let first = cases.len();
            alter(sample, one, value, path, whole, cases);
            let altered = cases.split_off(first);
            cases.extend(altered.into_iter().filter(|case| case.path != path || !case.is_null));
        }
        return;
    }
    if types.is_empty() {
        // any value is allowed
        return;
    }
    // an empty body is checked with null instead
    if !path.is_empty() {
        case(Value::Null, types.contains(&"null"));
    }
    let bound = |name: &str| schema[name].as_u64().and_then(|n| usize::try_from(n).ok());
    match types.first().copied() {
        Some("boolean") => {
            case(json!(true), true);
            case(json!("true"), false);
        }
        Some("integer") => {
            let of = |name: &str| schema[name].as_i64().unwrap();
            case(json!("1"), false);
            case(json!(1.5), false);
            case(json!(of("minimum")), true);
            case(json!(of("maximum")), true);
            if let Some(less) = of("minimum").checked_sub(1) {
                case(json!(less), false);
            }
            if let Some(more) = of("maximum").checked_add(1) {
                case(json!(more), false);
            }
        }
        Some("number") if schema["maximum"].is_number() => {
            let of = |name: &str| schema[name].as_f64().unwrap();
            for (number, is_allowed) in [
                (of("minimum"), true),
                (of("maximum"), true),
                (of("minimum") - 0.01, false),
                (of("maximum") + 0.01, false),
            ] {
                case(json!(number), is_allowed);
            }
            case(json!("1"), false);
        }
        Some("string") => {
            case(json!(1), false);
            case(json!(["x"]), false);
            if let Some(values) = schema["enum"].as_array() {
                // a few paths of a long list are enough
                for value in values.iter().filter(|value| !value.is_null()).step_by(values.len() / 12 + 1) {
                    case(value.clone(), true);
                }
                case(json!("neither"), false);
            } else if schema["format"] == "uuid" {
                // in capitals, the same id
                if let Some(id) = value.as_str() {
                    case(json!(id.to_uppercase()), true);
                }
                case(json!("0192a1b2700070008000000000000001"), false);
                case(json!("0192a1b2"), false);
            } else if schema["contentEncoding"] == "base64" {
                case(json!("!"), false);
                case(json!(""), bound("minLength").is_none());
            } else if schema["format"] == "date" {
                case(json!("2026-02-30"), false);
                case(json!("2026-1-31"), false);
                case(json!("2096-01-31"), true);
            } else if schema["format"] == "date-time" {
                case(json!("2026-01-31T12:00:00"), false);
                case(json!("2096-01-31T12:00:00.5-05:00"), true);
            } else {
                // characters, not bytes; the rest of a pattern is not tested here
                let letter = if schema["pattern"].is_null() { "ü" } else { "A" };
                let is_free = letter == "ü" && schema["format"] != "uri";
                let (least, most) = (bound("minLength").unwrap_or(0), bound("maxLength").unwrap());
                if least > 0 {
                    case(json!(letter.repeat(least - 1)), false);
                }
                case(json!(letter.repeat(most + 1)), false);
                if is_free {
                    case(json!(letter.repeat(least)), true);
                    case(json!(letter.repeat(most)), true);
                    case(json!("a\u{0}b"), false);
                }
            }
        }
        Some("array") => {
            case(json!({}), false);
            let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap());
            let element = value.get(0);
            if least > 0 {
                case(json!([]), false);
            }
            if most < LARGEST {
                // elements are counted before they are read
                let small = if element.is_some_and(Value::is_object) { json!({}) } else { json!(0) };
                let element = element.filter(|_| most < 100).cloned().unwrap_or(small);
                case(Value::Array(vec![element; most + 1]), false);
            }
            if let Some(element) = element {
                let inner = |value: Value| whole(json!([value]));
                alter(sample, &schema["items"], element, &format!("{path}[0]"), &inner, cases);
            }
        }
        Some("object") => {
            if !path.is_empty() {
                case(json!("x"), false);
            }
            if schema["additionalProperties"] != false && schema["properties"].is_null() {
                if path.is_empty() {
                    for wrong in [json!([]), json!("x"), json!(1)] {
                        case(wrong, false);
                    }
                }
                return;
            }
            let empty = Map::new();
            let members = value.as_object().unwrap_or(&empty);
            let with = |name: &str, value: Option<Value>| {
                let mut members = members.clone();
                members.remove(name);
                members.extend(value.map(|value| (name.to_owned(), value)));
                whole(Value::Object(members))
            };
            let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            cases.push(Case {
                path: at("unheardOf"),
                body: with("unheardOf", Some(json!(1))),
                fits: false,
                is_null: false,
            });
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                cases.push(Case { path: at(name), body: with(name, None), fits: false, is_null: false });
            }
            for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
                // optional members that the example omits are tested if they need no others
                let is_deep = matches!(sample.schema(inner)["type"].as_str(), Some("object"));
                if !members.contains_key(name) && is_deep {
                    continue;
                }
                let old = members.get(name).cloned().unwrap_or_default();
                alter(sample, inner, &old, &at(name), &|value| with(name, Some(value)), cases);
            }
        }
        _ => {}
    }
}
