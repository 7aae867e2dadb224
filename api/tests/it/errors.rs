//! Every rejection has the one shape (`docs/reference/errors.md#error-object`).

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};
use longshore_http::app::App;
use longshore_kernel::database::Database;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::support::strangers;
use crate::support::{Api, Reply};

mod together;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

#[tokio::test]
async fn an_unknown_path_has_the_one_error_shape() {
    let api = Api::new(&strangers().await).await;
    let request =
        Request::builder().uri("/api/nothing").header("x-request-id", "mine-1").body(Body::empty()).unwrap();
    let reply = api.send(request).await.expect(404);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.header("x-request-id"), Some("mine-1"));
    let body = reply.json();
    assert_eq!(body["type"], "/problems/no_such_path");
    assert_eq!(body["code"], "no_such_path");
    assert_eq!(body["status"], 404);
    assert_eq!(body["requestId"], "mine-1");
    assert_eq!(body["message"], body["detail"]);
    assert_eq!(body["violations"], serde_json::json!([]));
}

#[tokio::test]
async fn a_violation_shows_the_value_that_it_refuses() {
    let api = Api::new(&strangers().await).await;
    let long = "ü".repeat(300);
    let body = json!({
        "organisation": "mine", "eshops": [api.tenant.eshop, "x", 7.5], "productSku": "", "name": long, "weight": -1,
        "active": null, "type": {"is": "bundle"}, "colour": ["red"], "childrenProducts": [{"quantity": true}],
    });
    let reply = api.post(&api.user, "/api/product", body).await.expect(400).json();
    let refused: Vec<(String, Value)> = reply["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (v["propertyPath"].as_str().unwrap().to_owned(), v["parameters"].clone()))
        .collect();
    for (path, value) in [
        ("organisation", "mine"),
        ("eshops[1]", "x"),
        ("eshops[2]", "7.5"),
        ("productSku", ""),
        ("internalSku", ""),
        ("name", format!("{}…", "ü".repeat(99)).as_str()),
        ("weight", "-1"),
        ("active", "null"),
        ("type", "object"),
        ("colour", "array"),
        ("childrenProducts[0].productId", ""),
        ("childrenProducts[0].quantity", "true"),
    ] {
        let expected = (path.to_owned(), json!({"{{ value }}": value}));
        assert!(refused.contains(&expected), "{expected:?} is not among {refused:?}");
    }
    let detail = "organisation must be a UUID of 8-4-4-4-12 hexadecimal digits, and 12 more";
    assert_eq!((&reply["detail"], &reply["message"]), (&json!(detail), &json!(detail)));
    assert_eq!(reply["code"], "invalid_data");
    // for a reference that is checked after the body was read, for a whole body, and for an invalid body
    let body = json!({"criteria": {"eshops.name": {"like": true}}});
    let parameters = |reply: &Value| reply["violations"][0]["parameters"].clone();
    let reply = api.post(&api.user, "/api/product/list", body).await.expect(400).json();
    assert_eq!(parameters(&reply), json!({"{{ value }}": "true"}));
    let reply = api.post(&api.user, "/api/product/list", json!(["x"])).await.expect(400).json();
    assert_eq!(parameters(&reply), json!({"{{ value }}": "array"}));
    assert_eq!(reply["detail"], "must be an object, not an array");
    let supplier = json!({"organisation": uuid::Uuid::nil(), "name": "x"});
    let reply = api.post(&api.user, "/api/supplier", supplier).await.expect(400).json();
    assert_eq!(parameters(&reply), json!({"{{ value }}": uuid::Uuid::nil()}));
    // in an array that stands for its one element, too
    let order = json!({"carrierOptions": [{"recipientIdentificationNumber": 7}]});
    let reply = api.post(&api.user, "/api/expedition", order).await.expect(400).json();
    let path = "carrierOptions[0].recipientIdentificationNumber";
    let is_of_options = |violation: &&Value| violation["propertyPath"] == path;
    let refused = reply["violations"].as_array().unwrap().iter().find(is_of_options).unwrap();
    assert_eq!(refused["parameters"], json!({"{{ value }}": "7"}));
}

#[tokio::test]
async fn at_most_a_hundred_violations_are_listed_and_the_others_counted() {
    let api = Api::new(&strangers().await).await;
    let ids: Vec<String> = (0..250).map(|n| format!("MUG-{n}")).collect();
    let reply = api.put(&api.user, "/api/product/activate", json!(ids)).await.expect(400).json();
    assert_eq!(reply["violations"].as_array().unwrap().len(), 100);
    assert!(reply["detail"].as_str().unwrap().ends_with(", and 249 more"), "{}", reply["detail"]);
    assert_eq!(reply["violations"][99]["parameters"], json!({"{{ value }}": "MUG-99"}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refused_secret_is_never_shown(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let eshop = api.tenant.eshop;
    let person = |password: Value| {
        json!({"email": "a@b", "firstName": "A", "lastName": "B", "role": "viewer",
        "password": password, "pasword": "hush"})
    };
    let webhook = |authentication: Value| {
        json!({"eshop": eshop, "event": "test", "destination":
        "https://hush:hush@shop.example/", "authentication": authentication})
    };
    let setting = format!("/api/partner-integration/eshop-setting/{eshop}");
    for (path, body, masked) in [
        ("/api/login/admin", json!({"login": "a", "password": ["hush"], "pasword": "hush"}), 2),
        ("/api/refresh-token", json!({"refresh_token": 7, "token": "hush"}), 2),
        ("/api/admin", person(json!("hush")), 2),
        ("/api/admin", person(json!(["hush"])), 2),
        (
            "/api/eshop-webhook",
            webhook(json!({"type": "bearer", "token": "hush\u{7}", "password": "hush"})),
            3,
        ),
        ("/api/eshop-webhook", webhook(json!({"type": "header", "header": "Host", "token": "hush\u{7}"})), 3),
        ("/api/eshop-webhook", webhook(json!("hush")), 2),
        (
            setting.as_str(),
            json!({"integrationType": "baselinker", "credentials": {"token": "hush\u{7}", "key": "hush"}}),
            2,
        ),
        (setting.as_str(), json!({"integrationType": "baselinker", "credentials": "hush"}), 1),
        (setting.as_str(), json!({"integrationType": "feed", "baseUrl": "https://hush@feed.example/"}), 1),
    ] {
        let reply = api.post(&api.superadmin, path, body.clone()).await.expect(400);
        assert!(!reply.text.contains("hush"), "{path} {body}: {}", reply.text);
        assert_eq!(
            reply.text.matches(r#"{"{{ value }}":"***"}"#).count(),
            masked,
            "{path} {body}: {}",
            reply.text
        );
    }
}

#[tokio::test]
async fn an_invalid_request_id_is_replaced() {
    let api = Api::new(&strangers().await).await;
    for id in ["a b", "<script>", &"x".repeat(65)] {
        let request =
            Request::builder().uri("/health/live").header("x-request-id", id).body(Body::empty()).unwrap();
        let reply = api.send(request).await.expect(200);
        assert_ne!(reply.header("x-request-id"), Some(id));
        assert!(reply.header("x-request-id").is_some());
    }
}

#[tokio::test]
async fn every_problem_has_a_page_that_explains_it() {
    let api = Api::new(&strangers().await).await;
    for kind in longshore_kernel::problem::ALL {
        let page = api.get("", &format!("/problems/{}", kind.code)).await.expect(200).json();
        assert_eq!(page["status"], kind.status);
        assert!(!page["explanation"].as_str().unwrap().is_empty());
    }
    api.get("", "/problems/nonsense").await.expect(404);
    let all = api.get("", "/problems").await.expect(200).json();
    assert_eq!(all["results"].as_array().unwrap().len(), longshore_kernel::problem::ALL.len());
    assert_eq!(all["results"][0], api.get("", "/problems/invalid_data").await.json());
}

#[tokio::test]
async fn a_browser_is_led_to_pages_and_a_program_to_json() {
    let api = Api::new(&strangers().await).await;
    let index = api.get("", "/").await.expect(200).json();
    for path in index.as_object().unwrap().values() {
        let reply = api.get("", path.as_str().unwrap()).await;
        assert!(reply.status.is_success() || reply.status.is_redirection(), "{path}");
    }
    let browser = [("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")];
    for (path, page) in [("/", "/console"), ("/problems", "/docs/errors")] {
        let led = api.call_with("", Method::GET, path, Value::Null, &browser).await.expect(303);
        assert_eq!((led.header("location"), led.header("vary")), (Some(page), Some("accept")));
    }
    api.get("", "/docs/errors").await.expect(200);
}

#[tokio::test]
async fn a_body_that_curl_has_changed_says_how_to_send_it() {
    let api = Api::new(&strangers().await).await;
    let sync = "/api/partner-integration/eshop/sync/products";
    let eshop = api.tenant.eshop;
    let joined = format!(r#"{{"eshop": "{eshop}"}}{{"productSku": "A", "name": "A"}}"#);
    for (path, media, body, status) in [
        ("/api/product/list", "application/x-www-form-urlencoded", "{}", 415),
        (sync, "application/x-www-form-urlencoded", &*joined, 415),
        (sync, "application/x-ndjson", &joined, 400),
        (sync, "application/json", &joined, 400),
    ] {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("authorization", format!("Bearer {}", api.user))
            .header("content-type", media);
        let refused =
            api.send(request.body(Body::from(body.to_owned())).unwrap()).await.expect(status).json();
        assert!(refused["detail"].as_str().unwrap().contains("--data-binary"), "{refused}");
    }
}

#[tokio::test]
async fn http_itself_is_answered_in_the_same_shape() {
    let api = Api::new(&strangers().await).await;
    let user = api.user.clone();

    let reply = api.call_with(&user, Method::PATCH, "/api/product/list", Value::Null, &[]).await.expect(405);
    assert_eq!(reply.json()["code"], "method_not_allowed");
    assert!(reply.header("allow").is_some_and(|allow| allow.contains("POST")), "{:?}", reply.headers);
    assert_eq!(reply.json()["detail"], "this path does not support this method; it supports POST");
    let one = "/api/expedition/0192a1b2-7000-7000-8000-000000000001";
    let reply = api.call_with(&user, Method::POST, one, Value::Null, &[]).await.expect(405);
    let named = reply.json()["detail"].as_str().unwrap().split_once("it supports ").unwrap().1.to_owned();
    assert_eq!(
        named.split(", ").collect::<BTreeSet<_>>(),
        BTreeSet::from(["DELETE", "GET", "HEAD", "PATCH", "PUT"])
    );
    for (method, path, meant) in [
        (Method::POST, "/api/products/list", "POST /api/product/list"),
        (Method::POST, "/api/product/list/", "POST /api/product/list"),
        (Method::POST, "/product/list", "POST /api/product/list"),
        (Method::PUT, "/api/expedition/1/cancle", "PUT /api/expedition/{id}/cancel"),
        (Method::GET, "/openapi", "GET /openapi.json"),
    ] {
        let reply = api.call_with(&user, method, path, Value::Null, &[]).await.expect(404);
        let detail = format!("there is no operation at this path; did you mean {meant}?");
        assert_eq!(reply.json()["detail"], detail, "{path}");
    }

    let refused = [("accept", "image/png")];
    let reply =
        api.call_with(&user, Method::POST, "/api/product/list", Value::Null, &refused).await.expect(406);
    assert_eq!(reply.json()["code"], "not_acceptable");
    assert_eq!(reply.json()["detail"], "the Accept header must include application/json or text/csv");
    for accepted in ["*/*", "application/json", "text/html, application/json;q=0.1", ""] {
        let accepted = [("accept", accepted)];
        api.call_with(&user, Method::POST, "/api/product/list", Value::Null, &accepted).await.expect(200);
    }

    let text = |body: Body, content_type: &str| {
        let request = Request::builder().method(Method::POST).uri("/api/product");
        let request =
            request.header("authorization", format!("Bearer {user}")).header("content-type", content_type);
        request.body(body).unwrap()
    };
    let reply = api.send(text(Body::from("{}"), "text/plain")).await.expect(415);
    assert_eq!(reply.json()["code"], "unsupported_media_type");
    let reply = api.send(text(Body::empty(), "application/json")).await.expect(400);
    assert_eq!(reply.json()["code"], "malformed_body");
    let reply = api.send(text(Body::from(vec![b' '; 2 * 1024 * 1024]), "application/json")).await.expect(413);
    assert_eq!(reply.json()["code"], "too_large");
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let reply = api.send(text(Body::from(deep), "application/json")).await.expect(400);
    assert_eq!(reply.json()["code"], "malformed_body");
}

#[tokio::test]
async fn a_request_without_a_valid_token_is_asked_for_one() {
    let api = Api::new(&strangers().await).await;
    for token in ["", "lsh_nonsense", "nonsense", &api.user[..api.user.len() - 1]] {
        let reply = api.post(token, "/api/product/list", Value::Null).await.expect(401);
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{token}");
        assert_eq!(reply.json()["code"], "unauthenticated");
    }
    let request =
        Request::builder().method(Method::POST).uri("/api/product/list").body(Body::empty()).unwrap();
    api.send(request).await.expect(401);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_revoked_or_expired_token_is_invalid(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let owner = sqlx::PgPool::connect_with(options).await.unwrap();
    sqlx::query("UPDATE access_token SET revoked_at = now() WHERE role = 'user'")
        .execute(&owner)
        .await
        .unwrap();
    sqlx::query("UPDATE access_token SET expires_at = now() WHERE role = 'viewer'")
        .execute(&owner)
        .await
        .unwrap();
    api.post(&api.user, "/api/product/list", Value::Null).await.expect(401);
    api.post(&api.viewer, "/api/product/list", Value::Null).await.expect(401);
    api.post(&api.connector, "/api/product/list", Value::Null).await.expect(200);
}

#[tokio::test]
async fn without_postgres_a_request_may_be_repeated_later() {
    let api = Api::new(&strangers().await).await;
    api.services.db.close().await;
    let reply = api.post(&api.user, "/api/product/list", Value::Null).await.expect(503);
    assert_eq!(reply.json()["code"], "unavailable");
    assert!(reply.header("retry-after").is_some());
    let ready = api.get("", "/health/ready").await.expect(503).json();
    assert_eq!(ready["postgres"], "down");
    api.get("", "/health/live").await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_missing_or_closed_database_is_reported_as_unavailable(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut api = Api::new(&options).await;
    for options in [options.clone().database("not-there"), options.clone().username("nobody")] {
        let mut services = api.services.clone();
        services.db = Database::from_options(&options, &services::database_settings().unwrap());
        api.serve(App::new(services));
        let reply = api.post(&api.user, "/api/product/list", Value::Null).await.expect(503);
        assert_eq!(reply.json()["code"], "unavailable");
        assert!(reply.header("retry-after").is_some());
    }
}

/// The creation of a supplier, which Postgres refuses with an error until it is repaired: of anybody, so its database is its own.
struct Refused {
    api: Api,
    owner: sqlx::PgPool,
}

impl Refused {
    async fn new(options: PgConnectOptions) -> Self {
        let api = Api::new(&options).await;
        Self { api, owner: sqlx::PgPool::connect_with(options).await.unwrap() }
    }

    async fn create(&self) -> Reply {
        let body = json!({"organisation": self.api.tenant.organisation, "name": "Clay Works"});
        let key = [("idempotency-key", "k")];
        self.api.call_with(&self.api.user, Method::POST, "/api/supplier", body, &key).await
    }

    /// Refused with this error of Postgres; returns the answer.
    async fn by(&self, code: &str) -> Value {
        let fails = format!(
            "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''{code}''; END';
             CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON supplier EXECUTE FUNCTION fail();"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(fails)).execute(&self.owner).await.unwrap();
        let reply = self.create().await.expect(503);
        assert!(reply.header("retry-after").is_some(), "{code}");
        let problem = reply.json();
        assert_eq!(problem["code"], "unavailable", "{code}");
        problem
    }

    /// The same request succeeds after the repair.
    async fn mended(&self) {
        sqlx::raw_sql("DROP TRIGGER fail ON supplier").execute(&self.owner).await.unwrap();
        let made = self.create().await.expect(201);
        assert_eq!(made.header("idempotent-replayed"), None);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_without_room_in_postgres_may_be_repeated_and_then_succeeds(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let refused = Refused::new(options).await;
    // full disk, no memory, too many locks, idle session time-out, disk failure
    for code in ["53100", "53200", "53400", "25P03", "58030"] {
        refused.by(code).await;
    }
    refused.mended().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_that_lost_a_race_may_be_repeated_and_then_succeeds(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let refused = Refused::new(options).await;
    // a deadlock, a serialization failure, a lock time-out (if the operator limits the wait)
    for code in ["40P01", "40001", "55P03"] {
        let problem = refused.by(code).await;
        assert_eq!(problem["detail"], "another change was made at the same time; try again in a moment");
    }
    refused.mended().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_whose_statement_is_cancelled_may_be_repeated_and_then_succeeds(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let refused = Refused::new(options).await;
    let problem = refused.by("57014").await;
    let detail = "the request took too long or was cancelled; try again in a moment";
    assert_eq!(problem["detail"], detail);
    refused.mended().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_client_that_disconnects_while_its_idempotency_key_is_claimed_leaves_it_free(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let refused = Refused::new(options).await;
    let mut lock = refused.owner.begin().await.unwrap();
    sqlx::query("LOCK TABLE idempotency IN SHARE MODE").execute(&mut *lock).await.unwrap();
    tokio::select! {
        reply = refused.create() => panic!("{}", reply.status),
        locked = services::until_locked(&refused.owner, 1) => locked.unwrap(),
    }
    lock.commit().await.unwrap();
    let repeated = async {
        loop {
            let reply = refused.create().await;
            if reply.status != 409 {
                return reply;
            }
        }
    };
    // the lease of a claim is 15 s
    let repeated = tokio::time::timeout(Duration::from_secs(5), repeated).await;
    repeated.expect("the key is free").expect(201);
}
