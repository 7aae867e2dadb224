//! Every rejection has the one shape (decisions, section 2).

use axum::body::Body;
use http::{Method, Request};
use longshore_api::app::App;
use longshore_api::router;
use longshore_bench::services;
use longshore_shared::platform::database::Database;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::support::{Api, Reply};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_shared::platform::database::MIGRATIONS;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unknown_path_is_told_in_the_one_error_shape(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
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

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_request_id_that_is_not_sane_is_replaced(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    for id in ["a b", "<script>", &"x".repeat(65)] {
        let request =
            Request::builder().uri("/health/live").header("x-request-id", id).body(Body::empty()).unwrap();
        let reply = api.send(request).await.expect(200);
        assert_ne!(reply.header("x-request-id"), Some(id));
        assert!(reply.header("x-request-id").is_some());
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_problem_has_a_page_that_explains_it(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    for kind in longshore_shared::platform::problem::ALL {
        let page = api.get("", &format!("/problems/{}", kind.code)).await.expect(200).json();
        assert_eq!(page["status"], kind.status);
        assert!(!page["explanation"].as_str().unwrap().is_empty());
    }
    api.get("", "/problems/nonsense").await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn http_itself_is_answered_in_the_same_shape(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let user = api.user.clone();

    let reply = api.call_with(&user, Method::PATCH, "/api/product/list", Value::Null, &[]).await.expect(405);
    assert_eq!(reply.json()["code"], "method_not_allowed");
    assert!(reply.header("allow").is_some_and(|allow| allow.contains("POST")), "{:?}", reply.headers);

    let refused = [("accept", "text/csv")];
    let reply =
        api.call_with(&user, Method::POST, "/api/product/list", Value::Null, &refused).await.expect(406);
    assert_eq!(reply.json()["code"], "not_acceptable");
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

#[sqlx::test(migrator = "MIGRATIONS")]
async fn whoever_shows_no_good_token_is_asked_for_one(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
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
async fn a_token_that_was_revoked_or_has_expired_is_none(_: PgPoolOptions, options: PgConnectOptions) {
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

#[sqlx::test(migrator = "MIGRATIONS")]
async fn without_postgres_a_request_is_told_to_come_again(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    api.services.db.main.close().await;
    let reply = api.post(&api.user, "/api/product/list", Value::Null).await.expect(503);
    assert_eq!(reply.json()["code"], "unavailable");
    assert!(reply.header("retry-after").is_some());
    let ready = api.get("", "/health/ready").await.expect(503).json();
    assert_eq!(ready["postgres"], "down");
    api.get("", "/health/live").await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_database_that_is_not_there_or_lets_nobody_in_is_told_as_postgres_being_away(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut api = Api::new(&options).await;
    for options in [options.clone().database("not-there"), options.clone().username("nobody")] {
        let mut services = api.services.clone();
        services.db = Database::from_options(&options, &services::database_settings().unwrap());
        api.router = router::build(App::new(services));
        let reply = api.post(&api.user, "/api/product/list", Value::Null).await.expect(503);
        assert_eq!(reply.json()["code"], "unavailable");
        assert!(reply.header("retry-after").is_some());
    }
}

/// The create of a supplier, which Postgres refuses for a reason of its own until it is mended.
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

    /// Refused with this error of Postgres; answers what the caller is told.
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

    /// The same request is executed once nothing is wrong any more.
    async fn mended(&self) {
        sqlx::raw_sql("DROP TRIGGER fail ON supplier").execute(&self.owner).await.unwrap();
        let made = self.create().await.expect(201);
        assert_eq!(made.header("idempotent-replayed"), None);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_that_postgres_has_no_room_for_is_told_to_come_again_and_can(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let refused = Refused::new(options).await;
    // a full disk, no memory, too many locks, a session that was idle for too long, a disk that fails
    for code in ["53100", "53200", "53400", "25P03", "58030"] {
        refused.by(code).await;
    }
    refused.mended().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_that_lost_a_race_is_told_to_come_again_and_can(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let refused = Refused::new(options).await;
    // a deadlock, a serialisation that failed, a lock that was not there in time (where the operator limits the wait)
    for code in ["40P01", "40001", "55P03"] {
        let problem = refused.by(code).await;
        assert_eq!(problem["detail"], "the change lost a race against another one; try again in a moment");
    }
    refused.mended().await;
}
