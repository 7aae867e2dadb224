//! Lists as CSV (`docs/reference/lists.md#csv`).

use std::process::{Command, Stdio};
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use longshore_api::openapi;
use longshore_api::routes::list::send;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::{self, Form, Listed};
use longshore_kernel::access::Scope;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fixture::{Good, MIGRATIONS, break_off, list as ask, store_many};
use crate::support::{Api, Reply, strangers};

/// A list, as CSV.
async fn csv(api: &Api, token: &str, path: &str, body: Value) -> Reply {
    api.call_with(token, Method::POST, path, body, &[("accept", "text/csv")]).await
}

/// What Python's `csv` reads: the lines, each with its cells.
fn read_by_python(text: &str) -> Vec<Vec<String>> {
    use std::io::Write as _;

    const PROGRAM: &str = "import csv, io, json, sys
text = sys.stdin.buffer.read().decode()
print(json.dumps(list(csv.reader(io.StringIO(text, newline=''), strict=True))))";
    let mut python = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = python.wait_with_output().unwrap();
    assert!(done.status.success());
    serde_json::from_slice(&done.stdout).unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_list_answers_with_csv_and_with_json(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let lists: Vec<_> = openapi::routes()
        .iter()
        .filter(|route| route.also == Some("text/csv") && !route.path.contains('{'))
        .collect();
    assert!(lists.len() >= 27, "{}", lists.len());
    for list in openapi::routes().iter().filter(|route| route.path.ends_with("/list")) {
        assert!(list.also.is_some(), "{}", list.path);
    }
    for list in lists {
        let reply = csv(&api, &api.superadmin, list.path, Value::Null).await.expect(200);
        assert_eq!(reply.header("content-type"), Some("text/csv; charset=utf-8"), "{}", list.path);
        let file = reply.header("content-disposition").unwrap();
        assert!(file.starts_with("attachment; filename=\"") && file.ends_with(".csv\""), "{file}");
        let head = reply.text.lines().next().unwrap();
        assert!(head.split(',').any(|name| name == "id"), "{}: {head}", list.path);
        let lines = read_by_python(&reply.text);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{}", list.path);
        let whole = api.post(&api.superadmin, list.path, Value::Null).await.expect(200).json();
        assert_eq!(lines.len(), 1 + whole["results"].as_array().unwrap().len(), "{}", list.path);
    }
}

#[tokio::test]
async fn the_cells_are_the_values_of_the_records() {
    let api = Api::new(&strangers().await).await;
    let names = [
        "plain",
        "a, b; \"c\"\r\nd\ne",
        "=1+1",
        "'=1+1",
        "''-x",
        "-1.50",
        "+420 777",
        "@home",
        "\ttab",
        " č 👍 ",
    ];
    for (number, name) in names.iter().enumerate() {
        let mut good = Good::new(api.tenant.organisation.get(), &format!("SKU-{number:02}"));
        good.name = (*name).to_owned();
        good.weight = (number % 2 == 0).then_some(number.try_into().unwrap());
        good.references = ["a", "b|", "c"].into_iter().take(number % 4).map(str::to_owned).collect();
        good.eshops = vec![api.tenant.eshop.get()];
        good.store(&api.services.db.main).await;
    }
    let query = json!({
        "criteria": {"productSku": {"like": "SKU-"}}, "sort": [{"field": "productSku", "order": "DESC"}],
        "select": ["name", "productSku", "weight", "active", "referenceNumbers", "eshops", "createdAt", "name"],
    });
    let reply = csv(&api, &api.user, "/api/product/list", query.clone()).await.expect(200);
    assert!(reply.text.starts_with("name,productSku,weight,active,referenceNumbers,eshops,createdAt\r\n"));
    let lines = read_by_python(&reply.text);
    let records = ask(&api, &api.user, "product", query).await;
    let records = records["results"].as_array().unwrap();
    assert_eq!((lines.len(), records.len()), (1 + names.len(), names.len()));
    for (line, record) in lines[1..].iter().zip(records) {
        let name = record["name"].as_str().unwrap();
        let marked = ["=1+1", "'=1+1", "''-x", "+420 777", "@home", "\ttab"].contains(&name);
        assert_eq!(line[0], if marked { format!("'{name}") } else { name.to_owned() });
        assert_eq!(line[1], record["productSku"].as_str().unwrap());
        assert_eq!(line[2], record["weight"].as_i64().map(|weight| weight.to_string()).unwrap_or_default());
        assert_eq!(line[3], "true");
        let joined = |value: &Value| {
            let texts = value.as_array().unwrap().iter().map(|text| text.as_str().unwrap());
            texts.collect::<Vec<_>>().join("|")
        };
        assert_eq!((&line[4], &line[5]), (&joined(&record["referenceNumbers"]), &joined(&record["eshops"])));
        assert_eq!(line[6], record["createdAt"].as_str().unwrap());
    }
    // without a choice, what is one value
    let head = csv(&api, &api.user, "/api/product/list", json!({"select": [], "limit": 1})).await.expect(200);
    let head = head.text.lines().next().unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
    assert!(
        ["id", "organisation", "name", "weight", "version"].iter().all(|name| head.iter().any(|h| h == name))
    );
    assert!(
        !head
            .iter()
            .any(|name| ["eshops", "images", "children", "referenceNumbers"].contains(&name.as_str()))
    );
    // one column without a value is a line all the same
    let query = json!({"criteria": {"productSku": {"eq": "SKU-01"}}, "select": ["weight"]});
    let only = csv(&api, &api.user, "/api/product/list", query).await.expect(200);
    assert_eq!(only.text, "weight\r\n\"\"\r\n");
}

#[tokio::test]
async fn a_list_as_csv_is_narrowed_like_any_other_and_its_refusals_are_problems() {
    let api = Api::new(&strangers().await).await;
    store_many(&api, 30).await;
    let count = async |body: Value| {
        let reply = csv(&api, &api.user, "/api/product/list", body).await.expect(200);
        reply.text.lines().count() - 1
    };
    assert_eq!(count(json!({})).await, 30);
    assert_eq!(count(json!({"limit": 7})).await, 7);
    assert_eq!(count(json!({"offset": 25, "count": "none"})).await, 5);
    assert_eq!(count(json!({"criteria": {"active": {"eq": false}}})).await, 0);
    let page = ask(&api, &api.user, "product", json!({"limit": 20})).await;
    assert_eq!(count(json!({"after": page["paging"]["next"]})).await, 10);
    for (body, path) in [
        (json!({"nested": true}), "nested"),
        (json!({"select": ["nmae"]}), "select[0]"),
        (json!({"criteria": {"weigth": {"eq": 1}}}), "criteria.weigth"),
    ] {
        let refused = csv(&api, &api.user, "/api/product/list", body).await.expect(400);
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert!(refused.violations().iter().any(|violation| violation.starts_with(path)), "{}", refused.text);
    }
    csv(&api, "lsh_nonsense", "/api/product/list", json!({})).await.expect(401);
    // what has no rows has no CSV
    let get = [("accept", "text/csv")];
    let refused = api.call_with(&api.user, Method::GET, "/api/counts", Value::Null, &get).await.expect(406);
    assert_eq!(refused.json()["detail"], "the Accept header must include application/json");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_long_list_as_csv_is_streamed_and_an_error_in_it_breaks_it_off(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    store_many(&api, 40_000).await;
    let body = json!({"select": ["id", "name", "productSku", "createdAt", "changedAt"], "nested": false});
    let open = async || {
        let patience = Duration::from_secs(30);
        let (services, body) = (&api.services, Some(body.clone()));
        match list::answer(services, &PRODUCT, &Scope::Everything, None, body, Form::Csv, patience)
            .await
            .unwrap()
        {
            Listed::Stream(first, stream) => send(first, stream),
            Listed::Whole(text) => panic!("{} bytes", text.len()),
        }
    };
    let whole = open().await.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(whole.to_vec()).unwrap();
    assert_eq!(text.matches("\r\n").count(), 40_001);
    assert!(text.starts_with("id,name,productSku,createdAt,changedAt\r\n") && text.ends_with("+00:00\r\n"));

    let response = open().await;
    break_off(options).await;
    assert!(response.into_body().collect().await.is_err());
}
