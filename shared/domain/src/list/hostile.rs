//! Input of callers never becomes SQL: the text of every statement is checked word by word.
//!
//! A statement may contain only the words of the tables of fields and of the engine, placeholders and numbered aliases; and
//! two requests that differ only in their values have the same text.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Request;
use super::criteria::{Operator, operators};
use super::resource::{Field, Kind, Resource};
use crate::list::fields::delivery::DELIVERY;
use crate::list::fields::eshop::ESHOP;
use crate::list::fields::job::JOB;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::product::PRODUCT;
use crate::list::fields::stock::PRODUCT_STOCK;
use crate::list::fields::subscription::WEBHOOK;
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::fields::wms::WMS;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, OrganisationId, TokenId, WmsId};

const RESOURCES: [&Resource; 9] =
    [&ORGANISATION, &ESHOP, &WAREHOUSE, &WMS, &PRODUCT, &PRODUCT_STOCK, &JOB, &WEBHOOK, &DELIVERY];

/// What the engine itself says.
const ENGINE: &str = r#"
    SELECT FROM WHERE true false AND EXISTS 1 LEFT JOIN ON AS ORDER BY DESC NULLS LAST LIMIT OFFSET UNION ANY ALL OR ILIKE NOT IS NULL ARRAY
    ROW json_build_array json_build_object to_char AT TIME ZONE 'UTC' 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"' text uuid id numeric
    trim_scale
"#;

/// A text split into words, separated by the punctuation of SQL.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$'))).filter(|word| !word.is_empty())
}

/// Every word that a statement may hold.
static VOCABULARY: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let mut known: HashSet<&'static str> = words(ENGINE).collect();
    let mut seen = BTreeSet::new();
    for resource in RESOURCES {
        learn(resource, &mut known, &mut seen);
    }
    known
});

fn learn(resource: &'static Resource, known: &mut HashSet<&'static str>, seen: &mut BTreeSet<&'static str>) {
    if seen.insert(resource.name) {
        let tenancy = resource.tenancy;
        let tenancy =
            [Some(tenancy.organisation), tenancy.several, tenancy.eshop, tenancy.wms, tenancy.maker];
        for text in resource.tables.iter().chain([&resource.version]).chain(tenancy.iter().flatten()) {
            known.extend(words(text));
        }
        learn_fields(resource.fields, known, seen);
    }
}

fn learn_fields(
    fields: &'static [Field],
    known: &mut HashSet<&'static str>,
    seen: &mut BTreeSet<&'static str>,
) {
    for field in fields {
        for text in [field.name, field.sql, field.json.unwrap_or_default()] {
            known.extend(words(text));
        }
        match field.kind {
            Kind::Object(inner) => learn_fields(inner, known, seen),
            Kind::Rows(link, inner) => {
                known.extend(words(link.table).chain(words(link.of)).chain(words(link.id)));
                learn_fields(inner, known, seen);
            }
            Kind::One(related) => learn(related, known, seen),
            Kind::Many(link, related) => {
                known.extend(words(link.table).chain(words(link.of)).chain(words(link.id)));
                learn(related, known, seen);
            }
            _ => {}
        }
    }
}

/// `$1`, `t0`, `s3`: a letter of the engine's and a number of the engine's.
fn is_numbered(word: &str) -> bool {
    word.strip_prefix(['$', 't', 's']).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The words of a statement that do not come from this code.
fn strangers(text: &str) -> Vec<&str> {
    words(text).filter(|word| !is_numbered(word) && !VOCABULARY.contains(word)).collect()
}

/// Placeholders of a text, in order of their numbers.
fn placeholders(text: &str) -> BTreeSet<usize> {
    words(text).filter_map(|word| word.strip_prefix('$')?.parse().ok()).collect()
}

fn check(text: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(strangers(text), Vec::<&str>::new(), "in {}", text);
    let numbers = placeholders(text);
    prop_assert_eq!(
        numbers.len(),
        numbers.last().copied().unwrap_or(0),
        "a placeholder is missing: {}",
        text
    );
    for mark in ["--", "/*", ";", "\\", "{", "}"] {
        prop_assert!(!text.contains(mark), "{} in {}", mark, text);
    }
    Ok(())
}

/// Paths of a resource that take operators, with the field at their end; through one relation at most.
fn paths(resource: &'static Resource) -> Vec<(String, &'static Field)> {
    type Found = Vec<(String, &'static Field)>;
    fn collect(fields: &'static [Field], before: &str, relations: usize, found: &mut Found) {
        for field in fields.iter().filter(|field| field.is_asked()) {
            let path = format!("{before}{}", field.name);
            let inside = format!("{path}.");
            match field.kind {
                Kind::Object(inner) | Kind::Rows(_, inner) => collect(inner, &inside, relations, found),
                Kind::One(related) | Kind::Many(_, related) if relations > 0 => {
                    collect(related.fields, &inside, relations - 1, found);
                }
                _ => {}
            }
            if !operators(&field.kind).is_empty() {
                found.push((path, field));
            }
        }
    }
    let mut found = Vec::new();
    collect(resource.fields, "", 1, &mut found);
    found
}

/// Text that tries to be interpreted by Postgres.
fn hostile_text() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "'",
        "''",
        "\"",
        "\\'",
        "$$",
        "$1",
        "$2; --",
        "--",
        "/*",
        "*/",
        ";",
        ")",
        "(",
        "||",
        "::text",
        "{t}",
        "{e}",
        "{l}",
        "t0.",
        "t0.id",
        " OR 1=1",
        " UNION SELECT hash FROM access_token",
        "; DROP TABLE product; --",
        "pg_sleep(9)",
        "E'\\x27'",
        "U&'\\0027'",
        "%",
        "_",
        "\u{2019}",
        "\u{ff07}",
        "\n",
        "name",
        "id",
        "ASC",
        "NULLS FIRST",
        ".",
        "..",
    ]);
    prop_oneof![
        prop::collection::vec(fragment, 1..6).prop_map(|parts| parts.concat()),
        "[^\u{0}]{0,40}",
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', "")),
    ]
}

/// A value of a field: one that a caller chose, and one of ours with the same shape.
fn operand(field: &Field, operator: Operator, text: &str, number: i64, several: usize) -> (Value, Value) {
    let many = matches!(operator, Operator::In | Operator::Nin);
    let all = |value: Value| if many { Value::from(vec![value; several]) } else { value };
    match (operator, field.kind) {
        // of a closed list a caller chooses a word of ours, unless a part of one is looked for
        (Operator::Eq | Operator::Neq | Operator::In | Operator::Nin, Kind::Text | Kind::Texts)
            if field.among.is_some() =>
        {
            let words = field.among.unwrap_or_default();
            (all(json!(words.first())), all(json!(words.last())))
        }
        (Operator::Null | Operator::Flag, _) | (_, Kind::Boolean) => (json!(true), json!(true)),
        (_, Kind::Text | Kind::Texts) => (all(json!(text)), all(json!("x"))),
        (_, Kind::Integer | Kind::Number) => (all(json!(number)), all(json!(1))),
        (_, Kind::Date) => (all(json!("2026-01-01")), all(json!("2027-02-03"))),
        (_, Kind::Timestamp) => (all(json!("2026-01-01T00:00:00+01:00")), all(json!("2027-02-03T04:05:06Z"))),
        _ => {
            let id = Uuid::from_u128(u128::from(number.unsigned_abs()));
            (all(json!(id)), all(json!(Uuid::max())))
        }
    }
}

fn scopes() -> Vec<Scope> {
    let of = |ids: &[u128]| {
        Scope::Organisations(ids.iter().copied().map(OrganisationId::from_u128).collect::<Arc<[_]>>())
    };
    vec![
        Scope::Everything,
        of(&[1]),
        of(&[1, 2]),
        Scope::Eshop { organisation: OrganisationId::from_u128(1), eshop: EshopId::from_u128(2) },
        Scope::Connector {
            organisation: OrganisationId::from_u128(1),
            eshop: Some(EshopId::from_u128(2)),
            token: TokenId::from_u128(3),
        },
        Scope::Wms { organisation: OrganisationId::from_u128(1), wms: WmsId::from_u128(2) },
    ]
}

/// What is asked of one path.
type Asked = (prop::sample::Index, prop::sample::Index, String, i64, usize);

fn asked() -> impl Strategy<Value = Asked> {
    (any::<prop::sample::Index>(), any::<prop::sample::Index>(), hostile_text(), any::<i64>(), 0..4_usize)
}

proptest! {
    #[test]
    fn values_change_what_is_bound_and_never_the_text(
        resource in prop::sample::select(&RESOURCES[..]),
        scope in prop::sample::select(scopes()),
        asked in prop::collection::vec(asked(), 0..5),
        sorted in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..4),
        selected in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        nested in any::<bool>(),
    ) {
        let paths = paths(resource);
        let (mut theirs, mut ours) = (Map::new(), Map::new());
        for (path, operator, text, number, several) in asked {
            let (path, field) = path.get(&paths);
            let operator = *operator.get(operators(&field.kind));
            let (their, our) = operand(field, operator, &text, number, several);
            theirs.insert(path.clone(), json!({operator.as_str(): their}));
            ours.insert(path.clone(), json!({operator.as_str(): our}));
        }
        let keys: Vec<_> = sorted
            .into_iter()
            .map(|(path, down)| json!({"field": path.get(&paths).0, "order": if down { "DESC" } else { "ASC" }}))
            .collect();
        let listed: Vec<_> = resource.listed().collect();
        let select: Vec<_> = selected.into_iter().map(|field| field.get(&listed).name).collect();
        let body = |criteria: Map<String, Value>| {
            let mut body = json!({"criteria": criteria, "sort": keys, "nested": nested, "limit": 10});
            if !select.is_empty() {
                body["select"] = json!(select);
            }
            Some(body)
        };
        // an order through several records is refused, with any values
        match (Request::read(resource, body(theirs)), Request::read(resource, body(ours))) {
            (Ok(theirs), Ok(ours)) => {
                let text = theirs.sql(&scope).unwrap();
                prop_assert_eq!(&text, &ours.sql(&scope).unwrap());
                check(&text)?;
            }
            (Err(_), Err(_)) => {}
            (theirs, ours) => prop_assert!(false, "{:?} beside {:?}", theirs, ours),
        }
    }

    #[test]
    fn names_of_a_callers_own_are_refused_or_are_ours(
        resource in prop::sample::select(&RESOURCES[..]),
        name in hostile_text(),
        known in any::<prop::sample::Index>(),
    ) {
        let (path, field) = known.get(&paths(resource)).clone();
        let operator = operators(&field.kind)[0];
        let value = operand(field, operator, "x", 1, 1).0;
        let field = json!({operator.as_str(): value});
        for body in [
            json!({"criteria": {name.as_str(): field}}),
            json!({"criteria": {format!("{path}{name}"): field}}),
            json!({"criteria": {format!("{path}.{name}"): field}}),
            json!({"criteria": {path.as_str(): {name.as_str(): value}}}),
            json!({"sort": [{"field": name}]}),
            json!({"sort": [{"field": format!("{path}{name}")}]}),
            json!({"sort": [{"field": path, "order": name}]}),
            json!({"select": [name]}),
            json!({name.as_str(): true}),
        ] {
            // a name that happens to be one of ours is read, and written as we write it
            if let Ok(request) = Request::read(resource, Some(body)) {
                check(&request.sql(&Scope::Everything).unwrap())?;
            }
        }
    }
}

#[test]
fn the_vocabulary_distinguishes_text_of_callers_from_our_own() {
    assert!(strangers("SELECT t0.id FROM product t0 WHERE t0.name = $1 ORDER BY s0 DESC").is_empty());
    assert_eq!(strangers("SELECT pg_sleep(9) FROM access_token"), ["pg_sleep", "9", "access_token"]);
    assert!(check("SELECT t0.id FROM product t0 -- ").is_err());
    assert!(check("SELECT t0.id FROM product t0 WHERE t0.name = $2").is_err());
}
