//! Logins and their tokens.

mod attempt;

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Method, Request};
use longshore_http::app::App;
use longshore_http::extract::login::LIMIT;
use longshore_kernel::config::RedisSettings;
use longshore_kernel::queue::Queues;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, PASSWORD, World, email};
use crate::support::strangers;

const LIST: &str = "/api/product/list";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_gives_a_token_for_twelve_hours(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD, "role": "superadmin"})).await;
    world.add_user("uma").await;
    for (door, name, kind) in [("admin", "ann", "admin"), ("user", "uma", "business_user")] {
        for field in ["login", "email"] {
            let now = world.api.services.clock.now().timestamp();
            let body = json!({field: email(name).to_uppercase(), "password": PASSWORD});
            // without a token, or with any token
            let reply = world.api.post("", &format!("/api/login/{door}"), body).await.expect(200).json();
            let members: Vec<&String> = reply.as_object().unwrap().keys().collect();
            assert_eq!(members, ["exp", "token"]);
            let life = reply["exp"].as_i64().unwrap() - now;
            assert!((12 * 3600 - 1..12 * 3600 + 60).contains(&life), "{life}");
            world.api.post(reply["token"].as_str().unwrap(), LIST, Value::Null).await.expect(200);
        }
        let audited =
            "SELECT count(*) FROM audit WHERE action = 'access_token.login' AND actor_type = ANY ($1)";
        let count: i64 = sqlx::query_scalar(audited).bind([kind]).fetch_one(&world.owner).await.unwrap();
        assert_eq!(count, 2);
    }
    // tokens of logins are not listed as access tokens
    let list = world.api.post(&world.api.superadmin, "/api/access-token/list", Value::Null).await.expect(200);
    assert!(!list.text.contains("\"login\""), "{}", list.text);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_wrong_login_gets_the_same_answer(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    world.add_admin("off", json!({"password": PASSWORD, "active": false})).await;
    world.add_admin("none", json!({})).await;
    world.add_user("uma").await;
    let mut replies = Vec::new();
    for (door, name, password) in [
        ("admin", "ann", "wrong horse"),
        ("admin", "off", PASSWORD),
        ("admin", "none", PASSWORD),
        ("admin", "nobody", PASSWORD),
        ("admin", "uma", PASSWORD),
        ("user", "ann", PASSWORD),
        ("user", "uma", "wrong horse"),
    ] {
        let mut reply = world.try_login(door, &email(name), password).await.expect(401).json();
        reply.as_object_mut().unwrap().remove("requestId");
        replies.push(reply);
    }
    assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    for (body, expected) in [
        (json!({}), vec!["login required", "password required"]),
        (json!({"login": 1, "password": null}), vec!["login wrong_type", "password wrong_type"]),
        (json!({"login": "a", "email": "a", "password": "b"}), vec!["login unknown_field"]),
    ] {
        assert_eq!(world.api.post("", "/api/login/admin", body).await.expect(400).violations(), expected);
    }
    assert_eq!(world.count("SELECT count(*) FROM access_token WHERE admin_id IS NOT NULL").await, 0);
}

/// Sends a request with a body of that type, or without a type, and without a token.
async fn send(
    world: &World,
    path: &str,
    content_type: Option<&str>,
    body: impl Into<Body>,
) -> crate::support::Reply {
    let mut request = Request::builder().method(Method::POST).uri(path);
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    world.api.send(request.body(body.into()).unwrap()).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_is_json_with_any_content_type_or_the_fields_of_a_form(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    world.add_user("uma").await;
    let form = "application/x-www-form-urlencoded";
    for (path, name) in [("/api/login/admin", "ann"), ("/api/login/user", "uma")] {
        let document = json!({"login": email(name), "password": PASSWORD}).to_string();
        for content_type in [None, Some(form), Some("text/plain"), Some("multipart/form-data"), Some("")] {
            for mark in ["", "\u{feff}", " \n"] {
                send(&world, path, content_type, format!("{mark}{document}")).await.expect(200);
            }
        }
        let fields =
            format!("login={}&password={}", email(name).replace('@', "%40"), PASSWORD.replace(' ', "+"));
        send(&world, path, Some("application/x-www-form-urlencoded; charset=utf-8"), fields)
            .await
            .expect(200);
        let part = |name: &str, value: &str| {
            format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let parts = part("email", &email(name)) + &part("password", PASSWORD) + "--x--\r\n";
        send(&world, path, Some("multipart/form-data; boundary=x"), parts).await.expect(200);
    }
    let path = "/api/login/admin";
    send(&world, path, Some(form), "login=ann&password=wrong+horse").await.expect(401);
    let refused =
        send(&world, path, Some(form), format!("login=&password={}", "x".repeat(256))).await.expect(400);
    assert_eq!(refused.violations(), ["login invalid_length", "password invalid_length"]);
    assert_eq!(refused.json()["violations"][1]["parameters"], json!({"{{ value }}": "***"}));
    let refused = send(&world, path, Some(form), "login=a&login=b&password=c").await.expect(400);
    assert_eq!(refused.violations(), ["login repeated_key"]);
    for (content_type, body) in [
        (None, ""),
        (None, "login=a&password=b"),
        (Some("application/json"), "{"),
        (Some("multipart/form-data"), "x"),
    ] {
        let refused = send(&world, path, content_type, body).await.expect(400);
        assert_eq!(refused.json()["code"], "malformed_body", "{content_type:?} {body}");
    }
    let large = send(&world, path, Some(form), "x".repeat(LIMIT + 1)).await.expect(413);
    assert_eq!(large.json()["code"], "too_large");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_is_refreshed_by_the_body_as_well(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD, "role": "viewer"})).await;
    let first = world.login("ann").await;
    let path = "/api/refresh-token";
    for (content_type, body) in [
        (Some("application/json"), json!({"refresh_token": first}).to_string()),
        (None, json!({"refresh_token": first}).to_string()),
        (Some("application/x-www-form-urlencoded"), format!("refresh_token={first}")),
    ] {
        let reply = send(&world, path, content_type, body).await.expect(200).json();
        let token = reply["token"].as_str().unwrap();
        assert_ne!(token, first);
        world.api.post(token, LIST, Value::Null).await.expect(200);
    }
    // beside the header, or with nothing in it
    for body in [json!({}), json!({"refresh_token": null}), json!({"refresh_token": first})] {
        world.api.post(&first, path, body).await.expect(200);
    }
    send(&world, path, None, json!({"refresh_token": world.api.connector}).to_string()).await.expect(403);
    for body in [String::new(), json!({}).to_string(), json!({"refresh_token": "lsh_nobody"}).to_string()] {
        let refused = send(&world, path, None, body).await.expect(401);
        assert_eq!(refused.json()["code"], "unauthenticated");
    }
    let refused =
        send(&world, path, None, json!({"refresh_token": 1, "tokens": 2}).to_string()).await.expect(400);
    assert_eq!(refused.violations(), ["refresh_token wrong_type", "tokens unknown_field"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unknown_account_costs_what_a_wrong_password_costs(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let mut least = [Duration::MAX; 2];
    // the fastest of several, so that other load does not count
    for _ in 0..6 {
        for (least, name) in least.iter_mut().zip(["ann", "nobody"]) {
            let started = Instant::now();
            world.try_login("admin", &email(name), "wrong horse").await.expect(401);
            *least = (*least).min(started.elapsed());
        }
    }
    assert!(least[1] > least[0] / 4, "{least:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn logins_work_without_redis(_: PgPoolOptions, options: PgConnectOptions) {
    let mut world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let mut services = services::for_test(&options).unwrap();
    let nowhere = RedisSettings { redis_url: "redis://127.0.0.1:1".to_owned(), queue_prefix: "x".to_owned() };
    services.queues = Queues::open(&nowhere).unwrap();
    world.api.serve(App::new(services));
    world.login("ann").await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refreshed_token_is_another_one_and_logout_ends_the_session(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD, "role": "viewer"})).await;
    let first = world.login("ann").await;
    let reply = world.api.post(&first, "/api/refresh-token", Value::Null).await.expect(200).json();
    let second = reply["token"].as_str().unwrap();
    assert_ne!(first, second);
    assert!(reply["exp"].is_i64());
    let other = world.login("ann").await;
    world.api.post(&first, LIST, Value::Null).await.expect(200);
    world.api.post(second, LIST, Value::Null).await.expect(200);
    // with any of its tokens, a session ends completely, and no other session does
    world.api.post(&first, "/api/logout", Value::Null).await.expect(204);
    for token in [&first, second] {
        world.until(token, Method::POST, LIST, 401).await;
        world.api.post(token, "/api/refresh-token", Value::Null).await.expect(401);
    }
    world.api.post(&other, LIST, Value::Null).await.expect(200);
    // other tokens cannot be refreshed, and are deleted by those who may
    for path in ["/api/refresh-token", "/api/logout"] {
        world.api.post(&world.api.connector, path, Value::Null).await.expect(403);
    }
    world.api.post(&world.api.connector, LIST, Value::Null).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_deactivated_or_deleted_account_or_one_with_a_new_password_loses_its_tokens(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let members = json!({"password": PASSWORD, "role": "viewer"});
    for (name, method, path, body) in [
        ("a", Method::PUT, "deactivate/{id}", Value::Null),
        ("b", Method::DELETE, "{id}", Value::Null),
        ("c", Method::PUT, "{id}", json!({"active": false})),
        ("d", Method::PUT, "{id}", json!({"password": "another horse"})),
    ] {
        let id = world.add_admin(name, members.clone()).await;
        let token = world.login(name).await;
        world.api.post(&token, LIST, Value::Null).await.expect(200);
        let path = format!("/api/admin/{}", path.replace("{id}", &id));
        let done = world.api.call_with(superadmin, method, &path, body, &[]).await;
        assert!(done.status.is_success(), "{}", done.text);
        world.until(&token, Method::POST, LIST, 401).await;
        if name == "a" {
            // after the activation a new login is still required
            world.api.put(superadmin, &format!("/api/admin/activate/{id}"), Value::Null).await.expect(204);
            world.api.post(&token, LIST, Value::Null).await.expect(401);
            world.login(name).await;
        }
    }
    let user = world.add_user("uma").await;
    let reply = world.try_login("user", &email("uma"), PASSWORD).await.expect(200).json();
    let token = reply["token"].as_str().unwrap();
    world.api.post(token, LIST, Value::Null).await.expect(200);
    world.api.delete(superadmin, &format!("/api/business-user/{user}")).await.expect(204);
    world.until(token, Method::POST, LIST, 401).await;
    world.try_login("user", &email("uma"), PASSWORD).await.expect(401);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_that_logged_in_sees_the_organisations_it_was_added_to(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let (ours, theirs) = (world.api.tenant.organisation, world.other.organisation);
    let admin = world.add_admin("ann", json!({"password": PASSWORD})).await;
    let mut token = world.login("ann").await;
    let total = async |token: &str| {
        let list = world.api.post(token, "/api/organisation/list", Value::Null).await.expect(200).json();
        list["paging"]["total"].as_u64().unwrap()
    };
    let until = async |token: &str, expected: u64| {
        let deadline = Instant::now() + super::PATIENCE;
        while total(token).await != expected {
            assert!(Instant::now() < deadline, "the organisations never were {expected}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert_eq!(total(&token).await, 0);
    for (count, organisation) in [(1, ours), (2, theirs)] {
        let path = format!("/api/admin/{admin}/organisation/{organisation}");
        world.api.put(superadmin, &path, Value::Null).await.expect(204);
        until(&token, count).await;
    }
    // an admin of several organisations sees a job about them
    let bulk = [("prefer", "respond-async")];
    let ids = json!([uuid::Uuid::nil()]);
    let job = world
        .api
        .call_with(&token, Method::PUT, "/api/product/activate", ids, &bulk)
        .await
        .expect(202)
        .json();
    assert_eq!(job["createdBy"], json!({"type": "admin", "id": admin, "name": "ann Admin"}));
    let path = format!("/api/admin/{admin}/organisation/{ours}");
    world.api.delete(superadmin, &path).await.expect(204);
    // an admin removed from an organisation has to log in again
    world.until(&token, Method::POST, LIST, 401).await;
    token = world.login("ann").await;
    assert_eq!(total(&token).await, 1);
    // the role is read again, too
    world.api.put(superadmin, &format!("/api/admin/{admin}"), json!({"role": "viewer"})).await.expect(200);
    until(&token, 2).await;
    world.api.put(&token, "/api/product/activate", json!([uuid::Uuid::nil()])).await.expect(403);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_idempotency_key_is_still_known_after_a_new_login(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let organisation = world.api.tenant.organisation;
    for name in ["ann", "bea"] {
        world.add_admin(name, json!({"password": PASSWORD, "organisations": [organisation]})).await;
    }
    let supplier = json!({"organisation": organisation, "name": "Rope & Co"});
    let key = [("idempotency-key", "k")];
    let create = async |token: &str| {
        let path = "/api/supplier";
        world.api.call_with(token, Method::POST, path, supplier.clone(), &key).await.expect(201)
    };
    let first = world.login("ann").await;
    let made = create(&first).await;
    let refreshed = world.api.post(&first, "/api/refresh-token", Value::Null).await.expect(200).json();
    for token in [world.login("ann").await.as_str(), refreshed["token"].as_str().unwrap()] {
        let again = create(token).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.text, made.text);
    }
    // the same key of another account is a different one
    let other = create(&world.login("bea").await).await;
    assert_eq!(other.header("idempotent-replayed"), None);
    assert_eq!(world.count("SELECT count(*) FROM supplier").await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_idempotency_key_shows_nothing_of_an_organisation_that_its_account_has_lost(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let (ours, other) = (world.api.tenant.organisation, world.other.organisation);
    let admin = world.add_admin("ann", json!({"password": PASSWORD, "organisations": [ours, other]})).await;
    let supplier = json!({"organisation": ours, "name": "Rope & Co"});
    let create = async || {
        let token = world.login("ann").await;
        let key = [("idempotency-key", "k")];
        world.api.call_with(&token, Method::POST, "/api/supplier", supplier.clone(), &key).await
    };
    let made = create().await.expect(201);
    let path = format!("/api/admin/{admin}/organisation/{ours}");
    world.api.delete(superadmin, &path).await.expect(204);
    let lost = create().await.expect(422);
    assert_eq!(lost.json()["code"], "idempotency_key_reused");
    assert!(!lost.text.contains("Rope") && !lost.text.contains(made.json()["id"].as_str().unwrap()));
    world.api.put(superadmin, &path, Value::Null).await.expect(204);
    let again = create().await.expect(201);
    assert_eq!((again.header("idempotent-replayed"), &again.text), (Some("true"), &made.text));
    // as one who sees everything, it has another scope, too
    world
        .api
        .put(superadmin, &format!("/api/admin/{admin}"), json!({"role": "superadmin"}))
        .await
        .expect(200);
    create().await.expect(422);
    assert_eq!(world.count("SELECT count(*) FROM supplier").await, 1);
}

#[tokio::test]
async fn a_business_user_works_in_its_organisation_as_a_user() {
    let world = World::new(&strangers().await).await;
    world.add_user("uma").await;
    let reply = world.try_login("user", &email("uma"), PASSWORD).await.expect(200).json();
    let token = reply["token"].as_str().unwrap();
    let list = world.api.post(token, "/api/organisation/list", Value::Null).await.expect(200).json();
    assert_eq!(list["results"][0]["id"], json!(world.api.tenant.organisation));
    assert_eq!(list["paging"]["total"], 1);
    world.api.post(token, "/api/admin/list", Value::Null).await.expect(403);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_first_admin_is_created_by_the_command_line_and_logs_in(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let folder = std::env::temp_dir().join(format!("longshore-{}", longshore_kernel::ids::new_id()));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let create = |email: &str, input: Option<&std::path::Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longshore-api"));
        command.args(["admin", "create", "--role", "superadmin", "--email", email]);
        command.env("DATABASE_URL", options.to_url_lossy().as_str());
        match input {
            Some(input) => command.stdin(File::open(input).unwrap()),
            None => command.arg("--password-file").arg(&file).stdin(Stdio::null()),
        };
        command.output().unwrap()
    };
    for (name, input) in [("piped", Some(file.as_path())), ("filed", None)] {
        let output = create(&email(name), input);
        let (printed, log) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{log}");
        assert!(!printed.contains(PASSWORD) && !log.contains(PASSWORD));
        let token = world.login(name).await;
        let admin = world.api.get(&token, &format!("/api/admin/{}", printed.trim())).await.expect(200).json();
        assert_eq!((&admin["email"], &admin["role"]), (&json!(email(name)), &json!("superadmin")));
    }
    assert!(!create(&email("filed"), None).status.success(), "the address is taken");
    std::fs::write(&file, "short\n").unwrap();
    let output = create(&email("short"), None);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("password"));
    std::fs::remove_dir_all(folder).unwrap();
}
