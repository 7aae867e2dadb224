//! The API compared with that of the newest release (`docs/reference/compatibility.md#what-stays`). `./dev release` keeps what is compared.

mod difference;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use chrono::{Months, NaiveDate};
use longshore_api::openapi;
use serde_json::{Value, json};

use self::difference::breaks;

const PAGE: &str = include_str!("../../../../docs/reference/compatibility.md");

/// The heading of the list of dated changes.
const DATED: &str = "\n## Dated changes\n";

fn now() -> Value {
    serde_json::from_str(openapi::served()).unwrap()
}

fn version(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

/// The kept releases, the oldest first.
fn releases() -> Vec<(Vec<u32>, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/releases");
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries
        .filter_map(|path| Some((version(path.file_name().unwrap().to_str().unwrap())?, path)))
        .collect();
    found.sort();
    found
}

/// The breaks that a list on a page allows: what the comparison says, announced a year before the day of the change.
fn allowed(page: &str) -> BTreeSet<String> {
    let (_, list) = page.split_once(DATED).unwrap();
    let rows = list.lines().filter_map(|line| line.strip_prefix("| `"));
    let read = |row: &str| {
        let (change, rest) = row.split_once("` | ").unwrap();
        let mut cells = rest.split(" | ");
        let mut day = || cells.next().unwrap().parse::<NaiveDate>().unwrap();
        let (announced, day) = (day(), day());
        assert!(day >= announced + Months::new(12), "{row}: an old way stays for 12 months");
        change.to_owned()
    };
    rows.map(read).collect()
}

#[test]
fn nothing_of_the_newest_release_breaks_without_a_date() {
    let (_, newest) = releases().pop().unwrap();
    let kept: Value = serde_json::from_slice(&fs::read(newest.join("openapi.json")).unwrap()).unwrap();
    let (found, dated) = (breaks(&kept, &now()), allowed(PAGE));
    let undated: Vec<_> = found.difference(&dated).collect();
    assert!(
        undated.is_empty(),
        "clients of {} break, and docs/reference/compatibility.md#dated-changes has no date for it: {undated:#?}",
        newest.display()
    );
}

#[test]
fn each_kept_release_is_complete() {
    for (version, folder) in releases() {
        let kept: Value = serde_json::from_slice(&fs::read(folder.join("openapi.json")).unwrap()).unwrap();
        assert_eq!(self::version(kept["info"]["version"].as_str().unwrap()), Some(version), "{folder:?}");
        let dump = fs::read(folder.join("demo.dump")).unwrap();
        assert!(dump.starts_with(b"PGDMP"), "{folder:?}");
    }
}

#[test]
fn a_dated_change_is_allowed_and_no_other() {
    let page = format!(
        "{DATED}\n| change | announced | from | instead |\n| --- | --- | --- | --- |\n\
         | `GET /api/counts: removed` | 2027-01-31 | 2028-01-31 | `GET /api/attention` |\n"
    );
    assert_eq!(allowed(&page), BTreeSet::from(["GET /api/counts: removed".to_owned()]));
    let soon = page.replace("2028-01-31", "2028-01-30");
    assert!(std::panic::catch_unwind(|| allowed(&soon)).is_err(), "within the year");
    assert_eq!(allowed(PAGE), BTreeSet::new(), "nothing is dated");
}

/// A member of a document, which must be there.
fn at<'v>(document: &'v mut Value, place: &str) -> &'v mut Value {
    document.pointer_mut(place).unwrap_or_else(|| panic!("{place} is not in the document"))
}

/// Removes a member of an object, which must be there.
fn remove(document: &mut Value, place: &str, name: &str) {
    let removed = at(document, place).as_object_mut().unwrap().remove(name);
    assert!(removed.is_some(), "{place} has no {name}");
}

/// Removes a word of an array, which must be there.
fn unsay(document: &mut Value, place: &str, word: &str) {
    let words = at(document, place).as_array_mut().unwrap();
    let before = words.len();
    words.retain(|one| one != word);
    assert_eq!(words.len(), before - 1, "{place} has no {word}");
}

const PRODUCT: &str = "/components/schemas/Product/properties";
const TO_CREATE: &str = "/components/schemas/ProductToCreate";
const COUNTS: &str = "/paths/~1api~1counts/get";
const FIND: &str = "/paths/~1api~1find/post";
const CHANGE: &str = "/webhooks/product_change/post/requestBody/content/application~1json/example";

/// A change of a document, and what is said of it.
type Case = (&'static str, fn(&mut Value));

/// The changes that break clients.
const BREAKS: &[Case] = &[
    ("GET /api/counts: removed", |new| remove(new, "/paths", "/api/counts")),
    ("DELETE /api/admin/{id}: removed", |new| remove(new, "/paths/~1api~1admin~1{id}", "delete")),
    (r#"GET /api/counts: the operationId "read_counts" is another one"#, |new| {
        *at(new, &format!("{COUNTS}/operationId")) = json!("read_all_counts");
    }),
    ("POST /api/product: the role user may not call it any more", |new| {
        at(new, "/paths/~1api~1product/post")["security"] =
            json!([{"accessToken": ["superadmin", "admin", "connector"]}]);
    }),
    ("GET /health/live: needs a token", |new| {
        at(new, "/paths/~1health~1live/get")["security"] = json!([{"accessToken": ["superadmin"]}]);
    }),
    ("POST /api/partner-integration/eshop/sync/products inventoryId: removed", |new| {
        let place = "/paths/~1api~1partner-integration~1eshop~1sync~1products/post/parameters";
        at(new, place).as_array_mut().unwrap().retain(|one| one["name"] != "inventoryId");
    }),
    ("GET /api/counts since: required", |new| {
        at(new, COUNTS)["parameters"] =
            json!([{"in": "query", "name": "since", "required": true, "schema": {"type": "string"}}]);
    }),
    ("PUT /api/attention/{id}/acknowledge body: required", |new| {
        at(new, "/paths/~1api~1attention~1{id}~1acknowledge/put/requestBody")["required"] = json!(true);
    }),
    ("POST /api/partner-integration/eshop/sync/products body: text/csv removed", |new| {
        let place = "/paths/~1api~1partner-integration~1eshop~1sync~1products/post/requestBody/content";
        remove(new, place, "text/csv");
    }),
    ("GET /api/counts 200: removed", |new| {
        let answers = at(new, &format!("{COUNTS}/responses")).as_object_mut().unwrap();
        let answer = answers.remove("200").unwrap();
        answers.insert("203".to_owned(), answer);
    }),
    ("POST /api/product/list 200: text/csv removed", |new| {
        remove(new, "/paths/~1api~1product~1list/post/responses/200/content", "text/csv");
    }),
    ("GET /api/product/{id} 200 ETag: removed", |new| {
        remove(new, "/paths/~1api~1product~1{id}/get/responses/200/headers", "ETag");
    }),
    ("answer Product.weight: removed", |new| remove(new, PRODUCT, "weight")),
    (r#"answer Product.active: "boolean" became "string""#, |new| {
        *at(new, &format!("{PRODUCT}/active")) = json!({"type": "string"});
    }),
    (r#"answer Product.createdAt: the format "date-time" became "date""#, |new| {
        *at(new, &format!("{PRODUCT}/createdAt/format")) = json!("date");
    }),
    // may be null now
    (r#"answer Product.name: "string" became "null""#, |new| {
        *at(new, &format!("{PRODUCT}/name/type")) = json!(["string", "null"]);
    }),
    ("answer Problem.detail: may be absent", |new| {
        unsay(new, "/components/schemas/Problem/required", "detail");
    }),
    (r#"answer Delivery.state: "asleep" added"#, |new| {
        at(new, "/components/schemas/Delivery/properties/state/enum")
            .as_array_mut()
            .unwrap()
            .push(json!("asleep"));
    }),
    (r#"answer Expedition.status: "lost" added"#, |new| {
        at(new, "/components/schemas/ExpeditionStatus/enum").as_array_mut().unwrap().push(json!("lost"));
    }),
    ("request ProductToCreate.weight: removed", |new| {
        remove(new, &format!("{TO_CREATE}/properties"), "weight");
    }),
    ("request ProductToCreate.colour: required", |new| {
        at(new, &format!("{TO_CREATE}/properties"))["colour"] = json!({"type": "string"});
        at(new, &format!("{TO_CREATE}/required")).as_array_mut().unwrap().push(json!("colour"));
    }),
    ("request ProductToCreate.weight: required", |new| {
        at(new, &format!("{TO_CREATE}/required")).as_array_mut().unwrap().push(json!("weight"));
    }),
    ("request ProductQuery.select[]: \"weight\" removed", |new| {
        unsay(new, "/components/schemas/ProductQuery/properties/select/items/enum", "weight");
    }),
    ("request ProductQuery.select: maxItems 60 became 59", |new| {
        *at(new, "/components/schemas/ProductQuery/properties/select/maxItems") = json!(59);
    }),
    ("request ProductToCreate.name: minLength", |new| {
        let name = at(new, &format!("{TO_CREATE}/properties/name"));
        name["minLength"] = json!(name["minLength"].as_i64().unwrap_or(0) + 1);
    }),
    ("request ProductToCreate.name: has another pattern", |new| {
        at(new, &format!("{TO_CREATE}/properties/name"))["pattern"] = json!("^[A-Z]+$");
    }),
    ("request ProductToCreate.name: takes only some words", |new| {
        at(new, &format!("{TO_CREATE}/properties/name"))["enum"] = json!(["mug"]);
    }),
    // null is not taken any more
    (r#"request ProductToCreate.weight: "null" became "integer""#, |new| {
        *at(new, &format!("{TO_CREATE}/properties/weight")) =
            json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": i32::MAX});
    }),
    ("event product_change: removed", |new| remove(new, "/webhooks", "product_change")),
    ("event product_change.data.productSku: removed", |new| {
        remove(new, &format!("{CHANGE}/data"), "productSku");
    }),
    ("event product_change.data.changedFields: has another type", |new| {
        *at(new, &format!("{CHANGE}/data/changedFields")) = json!("active");
    }),
    ("answer Event.timestamp: removed", |new| {
        remove(new, "/components/schemas/Event/properties", "timestamp");
    }),
    ("request WebhookEvent: \"product_change\" removed", |new| {
        unsay(new, "/components/schemas/WebhookEvent/enum", "product_change");
    }),
];

/// The changes that may be made at any time.
const ADDITIONS: &[Case] = &[
    ("an operation", |new| at(new, "/paths")["/api/news"] = json!({"get": {"responses": {}}})),
    ("a method", |new| at(new, "/paths/~1api~1counts")["put"] = json!({"responses": {}})),
    ("a role", |new| {
        at(new, "/paths/~1api~1product/post")["security"] =
            json!([{"accessToken": ["superadmin", "admin", "user", "connector", "viewer"]}]);
    }),
    ("an optional parameter", |new| {
        at(new, COUNTS)["parameters"] =
            json!([{"in": "query", "name": "since", "schema": {"type": "string"}}]);
    }),
    ("a deprecated operation", |new| at(new, COUNTS)["deprecated"] = json!(true)),
    ("a field of an answer", |new| at(new, PRODUCT)["colour"] = json!({"type": "string"})),
    ("a header of an answer", |new| {
        at(new, "/paths/~1api~1product~1{id}/get/responses/200/headers")["Age"] =
            json!({"schema": {"type": "integer"}});
    }),
    ("an optional field of a request", |new| {
        at(new, &format!("{TO_CREATE}/properties"))["colour"] = json!({"type": "string"});
    }),
    ("a word in an answer", |new| {
        at(new, "/components/schemas/ProblemCode/enum").as_array_mut().unwrap().push(json!("too_green"));
    }),
    ("a word in a request", |new| {
        let place = "/components/schemas/ProductQuery/properties/select/items/enum";
        at(new, place).as_array_mut().unwrap().push(json!("colour"));
    }),
    ("a wider bound", |new| {
        *at(new, "/components/schemas/ProductQuery/properties/select/maxItems") = json!(61);
    }),
    ("a body that may be left out", |new| {
        remove(new, "/paths/~1api~1product/post/requestBody", "required");
    }),
    ("null in a request", |new| {
        *at(new, &format!("{TO_CREATE}/properties/name/type")) = json!(["string", "null"]);
    }),
    ("no null in an answer", |new| *at(new, &format!("{PRODUCT}/description/type")) = json!("string")),
    ("a field that is always there", |new| {
        at(new, "/components/schemas/Event/required").as_array_mut().unwrap().push(json!("eshop"));
    }),
    ("an event", |new| at(new, "/webhooks")["product_deleted"] = json!({"post": {}})),
    ("a field of an event", |new| at(new, &format!("{CHANGE}/data"))["colour"] = json!("red")),
    ("a text", |new| *at(new, &format!("{FIND}/summary")) = json!("Finds it")),
    // the same, declared elsewhere
    ("a name of a schema", |new| {
        let inner = at(new, &format!("{PRODUCT}/active")).take();
        at(new, "/components/schemas")["IsActive"] = inner;
        at(new, PRODUCT)["active"] = json!({"$ref": "#/components/schemas/IsActive"});
    }),
];

#[test]
fn each_change_that_breaks_clients_is_found() {
    let old = now();
    for (says, change) in BREAKS {
        let mut new = old.clone();
        change(&mut new);
        let found = breaks(&old, &new);
        assert!(found.iter().any(|one| one.starts_with(says)), "{says} is not in {found:#?}");
    }
}

#[test]
fn what_may_be_added_at_any_time_breaks_nothing() {
    let old = now();
    assert_eq!(breaks(&old, &old), BTreeSet::new());
    for (what, change) in ADDITIONS {
        let mut new = old.clone();
        change(&mut new);
        assert_ne!(new, old, "{what}");
        assert_eq!(breaks(&old, &new), BTreeSet::new(), "{what}");
    }
}
