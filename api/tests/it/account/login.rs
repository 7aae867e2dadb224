//! Logins, and what becomes of their tokens.

use std::fs::File;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Method, Request};
use longshore_api::app::App;
use longshore_api::extract::visitor::Peer;
use longshore_api::router;
use longshore_bench::services;
use longshore_shared::account::login::limit::{Attempt, PER_ACCOUNT, PER_ADDRESS};
use longshore_shared::job::queue::Queues;
use longshore_shared::platform::config::RedisSettings;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, PASSWORD, World, email};
use crate::support::Api;

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
            // without a token, or with any
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
    // logins are no access tokens that others may see
    let list = world.api.post(&world.api.superadmin, "/api/access-token/list", Value::Null).await.expect(200);
    assert!(!list.text.contains("\"login\""), "{}", list.text);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wrong_login_is_told_the_same_whatever_is_wrong(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    world.add_admin("off", json!({"password": PASSWORD, "active": false})).await;
    world.add_admin("none", json!({})).await;
    world.add_user("uma").await;
    let mut told = Vec::new();
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
        told.push(reply);
    }
    assert!(told.iter().all(|reply| *reply == told[0]), "{told:?}");
    for (body, expected) in [
        (json!({}), vec!["login required", "password required"]),
        (json!({"login": 1, "password": null}), vec!["login wrong_type", "password wrong_type"]),
        (json!({"login": "a", "email": "a", "password": "b"}), vec!["login unknown_field"]),
    ] {
        assert_eq!(world.api.post("", "/api/login/admin", body).await.expect(400).violations(), expected);
    }
    assert_eq!(world.count("SELECT count(*) FROM access_token WHERE admin_id IS NOT NULL").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unknown_account_costs_what_a_wrong_password_costs(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let mut least = [Duration::MAX; 2];
    // the quickest of several: what the machine did beside does not count
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
async fn too_many_attempts_on_an_account_are_refused_by_every_process(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    world.add_admin("bob", json!({"password": PASSWORD})).await;
    for _ in 0..PER_ACCOUNT {
        world.try_login("admin", &email("ann"), "wrong horse").await.expect(401);
    }
    // another process
    world.api.router = router::build(App::new(world.api.services.clone()));
    let reply = world.try_login("admin", &email("ANN"), PASSWORD).await.expect(429);
    assert_eq!(reply.json()["code"], "rate_limited");
    let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=300).contains(&wait), "{wait}");
    world.login("bob").await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_that_succeeds_does_not_count(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    for _ in 0..=PER_ACCOUNT {
        world.login("ann").await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn too_many_attempts_from_an_address_are_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let from = async |address: &str, forwarded: &str| {
        let body = json!({"login": "nobody", "password": PASSWORD});
        let mut request = Request::post("/api/login/user")
            .header("x-forwarded-for", forwarded)
            .body(Body::from(body.to_string()))
            .unwrap();
        request.extensions_mut().insert(Peer(address.parse().unwrap()));
        world.api.send(request).await
    };
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    for account in 0..PER_ADDRESS {
        let login = format!("n{account}");
        Attempt::new(&world.api.services.queues, "admin", &login, Some(address)).admit().await.unwrap();
    }
    // whatever the client writes, unless it is a proxy of the operator's
    from("192.0.2.1", "198.51.100.1").await.expect(429);
    from("192.0.2.2", "192.0.2.1").await.expect(401);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn without_redis_one_still_logs_in(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let mut services = services::for_test(&options).unwrap();
    let nowhere = RedisSettings { redis_url: "redis://127.0.0.1:1".to_owned(), queue_prefix: "x".to_owned() };
    services.queues = Queues::open(&nowhere).unwrap();
    let world = World { api: Api { router: router::build(App::new(services)), ..world.api }, ..world };
    world.login("ann").await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refreshed_token_is_another_one_and_logout_ends_the_one_that_is_shown(
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
    world.api.post(&first, LIST, Value::Null).await.expect(200);
    world.api.post(&first, "/api/logout", Value::Null).await.expect(204);
    world.until(&first, Method::POST, LIST, 401).await;
    world.api.post(second, LIST, Value::Null).await.expect(200);
    // what is no login has no end to be put off, and is deleted by those who may
    for path in ["/api/refresh-token", "/api/logout"] {
        world.api.post(&world.api.connector, path, Value::Null).await.expect(403);
    }
    world.api.post(&world.api.connector, LIST, Value::Null).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn whoever_is_shut_out_deleted_or_gets_another_password_loses_its_tokens(
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
            // let in again, it still has to log in
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
    let token = world.login("ann").await;
    let total = async || {
        let list = world.api.post(&token, "/api/organisation/list", Value::Null).await.expect(200).json();
        list["paging"]["total"].as_u64().unwrap()
    };
    let until = async |expected: u64| {
        let deadline = Instant::now() + super::PATIENCE;
        while total().await != expected {
            assert!(Instant::now() < deadline, "the organisations never were {expected}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert_eq!(total().await, 0);
    for (count, organisation) in [(1, ours), (2, theirs)] {
        let path = format!("/api/admin/{admin}/organisation/{organisation}");
        world.api.put(superadmin, &path, Value::Null).await.expect(204);
        until(count).await;
    }
    // a job of an admin with several organisations is one that it sees
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
    until(1).await;
    // its role is read anew as well
    world.api.put(superadmin, &format!("/api/admin/{admin}"), json!({"role": "viewer"})).await.expect(200);
    until(2).await;
    world.api.put(&token, "/api/product/activate", json!([uuid::Uuid::nil()])).await.expect(403);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_key_is_known_of_an_account_that_has_logged_in_anew(_: PgPoolOptions, options: PgConnectOptions) {
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
    // another account's key is another one
    let other = create(&world.login("bea").await).await;
    assert_eq!(other.header("idempotent-replayed"), None);
    assert_eq!(world.count("SELECT count(*) FROM supplier").await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_business_user_works_in_its_organisation_as_a_user(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_user("uma").await;
    let reply = world.try_login("user", &email("uma"), PASSWORD).await.expect(200).json();
    let token = reply["token"].as_str().unwrap();
    let list = world.api.post(token, "/api/organisation/list", Value::Null).await.expect(200).json();
    assert_eq!(list["results"][0]["id"], json!(world.api.tenant.organisation));
    assert_eq!(list["paging"]["total"], 1);
    world.api.post(token, "/api/admin/list", Value::Null).await.expect(403);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_first_admin_comes_by_the_command_line_and_logs_in(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let folder =
        std::env::temp_dir().join(format!("longshore-{}", longshore_shared::platform::ids::new_id()));
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
        let (told, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{log}");
        assert!(!told.contains(PASSWORD) && !log.contains(PASSWORD));
        let token = world.login(name).await;
        let admin = world.api.get(&token, &format!("/api/admin/{}", told.trim())).await.expect(200).json();
        assert_eq!((&admin["email"], &admin["role"]), (&json!(email(name)), &json!("superadmin")));
    }
    assert!(!create(&email("filed"), None).status.success(), "the address is taken");
    std::fs::write(&file, "short\n").unwrap();
    let output = create(&email("short"), None);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("password"));
    std::fs::remove_dir_all(folder).unwrap();
}
