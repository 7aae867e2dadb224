//! Sessions: how a login opens them, who sees them, and how they end.

use axum::body::Body;
use chrono::{DateTime, TimeDelta, Utc};
use http::{Method, Request};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PASSWORD, World, email, id};

const LIST: &str = "/api/product/list";
const SESSIONS: &str = "/api/session/list";
const REFRESH: &str = "/api/refresh-token";

impl World {
    /// The sessions that a caller sees, oldest first.
    async fn sessions(&self, token: &str) -> Vec<Value> {
        let listed = self.api.post(token, SESSIONS, Value::Null).await.expect(200).json();
        listed["results"].as_array().unwrap().clone()
    }

    async fn refresh(&self, token: &str) -> String {
        let reply = self.api.post(token, REFRESH, Value::Null).await.expect(200).json();
        reply["token"].as_str().unwrap().to_owned()
    }

    async fn alter(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.owner).await.unwrap();
    }

    /// Logs a business user in; returns the token.
    async fn login_user(&self, name: &str) -> String {
        let reply = self.try_login("user", &email(name), PASSWORD).await.expect(200).json();
        reply["token"].as_str().unwrap().to_owned()
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_is_a_session_that_shows_whose_it_is_and_when_it_ends(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ann = world.add_admin("ann", json!({"password": PASSWORD, "role": "viewer"})).await;
    let body = json!({"login": email("ann"), "password": PASSWORD}).to_string();
    let request = Request::post("/api/login/admin").header("user-agent", "shell/1.0").body(Body::from(body));
    let opened = world.api.send(request.unwrap()).await.expect(200).json();
    let token = opened["token"].as_str().unwrap();
    let [session] = &world.sessions(token).await[..] else { panic!("one session") };
    let names: Vec<_> = session.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "account",
        "address",
        "changedAt",
        "createdAt",
        "endsAt",
        "expiresAt",
        "id",
        "lastUsedAt",
        "userAgent",
        "version",
    ];
    assert_eq!(names, expected);
    assert_eq!(session["account"], json!({"type": "admin", "id": ann, "name": "ann Admin"}));
    assert_eq!(session["userAgent"], "shell/1.0");
    let at = |name: &str| session[name].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    assert_eq!(at("expiresAt").timestamp(), opened["exp"].as_i64().unwrap());
    assert_eq!(at("endsAt") - at("expiresAt"), TimeDelta::days(7) - TimeDelta::hours(12));
    assert_eq!(at("lastUsedAt").timestamp() % 60, 0);
    // criteria as in every list
    let asked = json!({"criteria": {"account.id": {"eq": ann}, "userAgent": {"like": "SHELL"}}, "limit": 5});
    let listed = world.api.post(token, SESSIONS, asked).await.expect(200).json();
    assert_eq!(listed["paging"]["total"], 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn accounts_see_and_end_their_own_sessions_and_a_superadmin_all(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let superadmin = world.api.superadmin.clone();
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    world.add_admin("vic", json!({"password": PASSWORD, "role": "viewer"})).await;
    world.add_user("uma").await;
    let (ann, other) = (world.login("ann").await, world.login("ann").await);
    let (vic, uma) = (world.login("vic").await, world.login_user("uma").await);
    for (token, count) in [
        (&ann, 2),
        (&vic, 1),
        (&uma, 1),
        (&superadmin, 4),
        // programs have no sessions, even if they may see more
        (&world.api.viewer, 0),
        (&world.api.user, 0),
        (&world.api.connector, 0),
        (&world.admin, 0),
    ] {
        assert_eq!(world.sessions(token).await.len(), count);
    }
    let [mine, second] = &world.sessions(&ann).await[..] else { panic!("two sessions") };
    let (mine, second) = (id(mine), format!("/api/session/{}", id(second)));
    for stranger in [&vic, &uma, &world.api.viewer, &world.api.user, &world.api.connector, &world.admin] {
        world.api.delete(stranger, &second).await.expect(404);
        world.api.delete(stranger, &format!("/api/session/{mine}")).await.expect(404);
    }
    world.api.delete("", &second).await.expect(401);
    world.api.post("", SESSIONS, Value::Null).await.expect(401);
    world.api.post(&other, LIST, Value::Null).await.expect(200);
    world.api.delete(&ann, &second).await.expect(204);
    world.api.delete(&ann, &second).await.expect(410);
    world.until(&other, Method::POST, LIST, 401).await;
    world.api.post(&other, REFRESH, Value::Null).await.expect(401);
    world.api.post(&ann, LIST, Value::Null).await.expect(200);
    assert_eq!(world.sessions(&ann).await.len(), 1);
    // the audit shows who ended it
    let theirs = id(&world.sessions(&uma).await[0]);
    world.api.delete(&superadmin, &format!("/api/session/{theirs}")).await.expect(204);
    world.until(&uma, Method::POST, LIST, 401).await;
    assert_eq!(world.audit(&theirs).await[0].0, "session.end");
    world.api.delete(&superadmin, &format!("/api/session/{}", Uuid::nil())).await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refresh_ends_the_token_that_it_replaces_a_minute_later(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD, "role": "viewer"})).await;
    let first = world.login("ann").await;
    let second = world.refresh(&first).await;
    let third = world.refresh(&second).await;
    assert_eq!(world.sessions(&third).await.len(), 1, "it is one session");
    let ending = "SELECT count(*) FROM access_token
                  WHERE session_id IS NOT NULL AND expires_at BETWEEN now() AND now() + interval '1 minute'";
    assert_eq!(world.count(ending).await, 2);
    world.api.post(&first, LIST, Value::Null).await.expect(200);
    // after the minute
    world
        .alter("UPDATE access_token SET expires_at = now() WHERE expires_at < now() + interval '2 minutes' AND session_id IS NOT NULL")
        .await;
    for old in [&first, &second] {
        world.until(old, Method::POST, LIST, 401).await;
        world.api.post(old, REFRESH, Value::Null).await.expect(401);
    }
    world.api.post(&third, LIST, Value::Null).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_session_lasts_seven_days_however_often_it_is_refreshed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.add_user("uma").await;
    let token = world.login_user("uma").await;
    // after six days and 23 hours
    world.alter("UPDATE session SET expires_at = date_trunc('second', now()) + interval '30 minutes', ends_at = date_trunc('second', now()) + interval '1 hour'").await;
    let reply = world.api.post(&token, REFRESH, Value::Null).await.expect(200).json();
    let end: i64 = world.count("SELECT extract(epoch FROM ends_at)::bigint FROM session").await;
    assert_eq!(reply["exp"].as_i64().unwrap(), end);
    let late = reply["token"].as_str().unwrap();
    assert_eq!(world.refresh_exp(late).await, end, "a further one gains nothing");
    world.alter("UPDATE session SET expires_at = now(), ends_at = now()").await;
    world.api.post(late, REFRESH, Value::Null).await.expect(401);
}

impl World {
    async fn refresh_exp(&self, token: &str) -> i64 {
        self.api.post(token, REFRESH, Value::Null).await.expect(200).json()["exp"].as_i64().unwrap()
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_session_too_many_ends_the_least_recently_used_one(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ann = world.add_admin("ann", json!({"password": PASSWORD, "role": "viewer"})).await;
    let mut tokens = Vec::new();
    for _ in 0..20 {
        tokens.push(world.login("ann").await);
    }
    assert_eq!(world.sessions(&world.api.superadmin).await.len(), 20);
    // the oldest one is in use
    world.api.post(&tokens[0], LIST, Value::Null).await.expect(200);
    world.until_count("SELECT count(*) FROM session WHERE last_used_at > created_at", 1).await;
    let newest = world.login("ann").await;
    world.until(&tokens[1], Method::POST, LIST, 401).await;
    for token in [&tokens[0], &tokens[2], &newest] {
        world.api.post(token, LIST, Value::Null).await.expect(200);
    }
    let listed = world.sessions(&world.api.superadmin).await;
    assert_eq!(listed.len(), 20);
    assert!(listed.iter().all(|session| session["account"]["id"] == json!(ann)));
    // nor do refreshes create an unlimited number of tokens
    for _ in 0..30 {
        world.refresh(&newest).await;
    }
    let live = "SELECT count(*) FROM access_token k JOIN session s ON s.id = k.session_id
                WHERE k.revoked_at IS NULL AND k.expires_at > now() AND s.ended_at IS NULL";
    assert_eq!(world.count(live).await, 20);
    world.api.post(&newest, LIST, Value::Null).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_logins_do_not_exceed_the_limit_of_sessions(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_user("uma").await;
    for _ in 0..19 {
        world.login_user("uma").await;
    }
    // as many concurrent logins as the limit of attempts allows
    futures::future::join_all((0..8).map(|_| world.login_user("uma"))).await;
    assert_eq!(world.sessions(&world.api.superadmin).await.len(), 20);
}

impl World {
    /// Waits until a counting query has the expected result.
    pub(super) async fn until_count(&self, sql: &'static str, expected: i64) {
        let deadline = std::time::Instant::now() + super::PATIENCE;
        while self.count(sql).await != expected {
            assert!(std::time::Instant::now() < deadline, "it never was {expected}: {sql}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_last_use_of_a_token_is_written_once_a_minute_without_a_new_version(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let body = json!({"name": "x", "role": "user", "organisation": world.api.tenant.organisation});
    let made = world.api.post(&world.admin, "/api/access-token", body).await.expect(201);
    let (token, etag) = (made.json(), made.header("etag").unwrap().to_owned());
    assert_eq!(token["lastUsedAt"], Value::Null);
    let secret = token["token"].as_str().unwrap();
    world.api.post(secret, LIST, Value::Null).await.expect(200);
    let used = "SELECT count(*) FROM access_token WHERE name = 'x' AND last_used_at IS NOT NULL";
    world.until_count(used, 1).await;
    let path = format!("/api/access-token/{}", id(&token));
    let reply = world.api.get(&world.admin, &path).await.expect(200);
    assert_eq!(reply.header("etag"), Some(etag.as_str()));
    let shown = reply.json();
    assert_eq!(shown["changedAt"], token["changedAt"]);
    let at: DateTime<Utc> = shown["lastUsedAt"].as_str().unwrap().parse().unwrap();
    assert_eq!(at.timestamp() % 60, 0);
    // a process without a cache looks the token up, and writes only in another minute
    let version = "SELECT (xmin::text)::bigint FROM access_token WHERE name = 'x'";
    world.alter("UPDATE access_token SET last_used_at = date_trunc('minute', now()) + interval '59.9 seconds' WHERE name = 'x'").await;
    let before = world.count(version).await;
    for _ in 0..3 {
        let router = longshore_api::router::build(longshore_http::app::App::new(world.api.services.clone()));
        let request = Request::post(LIST).header("authorization", format!("Bearer {secret}"));
        let request = request.header("host", "longshore.example").body(Body::empty()).unwrap();
        let reply = tower::ServiceExt::oneshot(router, request).await.unwrap();
        assert_eq!(reply.status().as_u16(), 200);
    }
    assert_eq!(world.count(version).await, before);
    world.alter("UPDATE access_token SET last_used_at = now() - interval '2 minutes' WHERE name = 'x'").await;
    world.until(secret, Method::POST, LIST, 200).await;
    let router = longshore_api::router::build(longshore_http::app::App::new(world.api.services.clone()));
    let request = Request::post(LIST).header("authorization", format!("Bearer {secret}"));
    let request = request.header("host", "longshore.example").body(Body::empty()).unwrap();
    tower::ServiceExt::oneshot(router, request).await.unwrap();
    let fresh =
        "SELECT count(*) FROM access_token WHERE name = 'x' AND last_used_at > now() - interval '1 minute'";
    world.until_count(fresh, 1).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn sessions_that_ended_long_ago_are_removed_with_their_tokens(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    use longshore_domain::account::session;

    let world = World::new(&options).await;
    world.add_user("uma").await;
    world.login_user("uma").await;
    let kept = world.login_user("uma").await;
    world
        .alter("UPDATE session SET expires_at = now() - interval '25 hours' WHERE id = (SELECT min(id::text)::uuid FROM session)")
        .await;
    assert_eq!(session::expire(&world.api.services.db.main, 10).await.unwrap(), 1);
    assert_eq!(world.count("SELECT count(*) FROM access_token WHERE session_id IS NOT NULL").await, 1);
    world.api.post(&kept, LIST, Value::Null).await.expect(200);
}
