//! Access tokens.

use chrono::{DateTime, TimeDelta, Utc};
use http::Method;
use longshore_domain::account::token;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, PASSWORD, World, id};
use crate::support::strangers;

const PATH: &str = "/api/access-token";

#[tokio::test]
async fn a_token_is_shown_once_and_gives_its_access() {
    let world = World::new(&strangers().await).await;
    let tenant = &world.api.tenant;
    let body = json!({
        "name": "shop", "role": "connector", "organisation": tenant.organisation, "eshop": tenant.eshop,
        "expiresAt": "2999-01-01T00:00:00Z",
    });
    let key = [("idempotency-key", "k")];
    let call =
        async || world.api.call_with(&world.admin, Method::POST, PATH, body.clone(), &key).await.expect(201);
    let reply = call().await;
    let mut token = reply.json();
    let secret = token["token"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("lsh_"));
    token.as_object_mut().unwrap().remove("token");
    let expected = json!({
        "id": token["id"], "name": "shop", "role": "connector", "organisation": tenant.organisation,
        "eshop": tenant.eshop, "wms": null, "expiresAt": "2999-01-01T00:00:00.000000+00:00",
        "createdBy": {"type": "token", "id": token["createdBy"]["id"], "name": "admin of a test"},
        "revokedAt": null, "revokedBy": null, "lastUsedAt": null, "createdAt": token["createdAt"],
        "changedAt": token["createdAt"], "version": 1,
    });
    assert_eq!(token, expected);
    let path = format!("{PATH}/{}", id(&token));
    assert_eq!(reply.header("location"), Some(path.as_str()));
    let again = call().await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), token, "without the token");
    assert_eq!(world.api.get(&world.admin, &path).await.expect(200).json(), token);
    world.api.post(&secret, "/api/product/list", Value::Null).await.expect(200);
    let audit = world.audit(&id(&token)).await;
    assert_eq!(audit[0].1["token"], json!([null, "***"]));
}

#[tokio::test]
async fn a_revoked_token_is_refused_within_seconds_and_its_record_stays() {
    let world = World::new(&strangers().await).await;
    let body = json!({"name": "x", "role": "user", "organisation": world.api.tenant.organisation});
    let token = world.api.post(&world.admin, PATH, body).await.expect(201).json();
    let secret = token["token"].as_str().unwrap();
    // cached from now on
    world.api.post(secret, "/api/product/list", Value::Null).await.expect(200);
    let path = format!("{PATH}/{}", id(&token));
    world.api.delete(&world.admin, &path).await.expect(204);
    world.until(secret, Method::POST, "/api/product/list", 401).await;
    let shown = world.api.get(&world.admin, &path).await.expect(200).json();
    assert_eq!(shown["revokedBy"]["name"], "admin of a test");
    assert!(shown["revokedAt"].is_string() && shown["version"] == 2, "{shown}");
    // again, nothing changes
    world.api.delete(&world.admin, &path).await.expect(204);
    assert_eq!(world.api.get(&world.admin, &path).await.expect(200).json(), shown);
    let audit = world.audit(&id(&token)).await;
    assert_eq!((audit.len(), audit[1].0.as_str()), (2, "access_token.delete"));
    let listed = async |criteria: Value| {
        let list = json!({"criteria": criteria, "limit": 10});
        let list = world.api.post(&world.admin, &format!("{PATH}/list"), list).await.expect(200).json();
        list["results"].as_array().unwrap().contains(&shown)
    };
    assert!(listed(json!({"name": {"eq": "x"}})).await);
    assert!(listed(json!({"revokedAt": {"null": false}})).await);
    assert!(!listed(json!({"revokedAt": {"null": true}})).await);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_revoked_token_is_kept_as_long_as_the_audit(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let body = json!({"name": "x", "role": "user", "organisation": world.api.tenant.organisation});
    let token = world.api.post(&world.admin, PATH, body).await.expect(201).json();
    let path = format!("{PATH}/{}", id(&token));
    world.api.delete(&world.admin, &path).await.expect(204);
    let forget = async || token::forget_revoked(&world.api.services.db.main, 10).await.unwrap();
    assert_eq!(forget().await, 0);
    sqlx::query(
        "UPDATE access_token SET revoked_at = now() - interval '731 days' WHERE revoked_at IS NOT NULL",
    )
    .execute(&world.owner)
    .await
    .unwrap();
    assert_eq!(forget().await, 1);
    world.api.get(&world.admin, &path).await.expect(404);
    world.api.delete(&world.admin, &path).await.expect(404);
}

#[tokio::test]
async fn a_token_cannot_have_more_than_the_role_and_scope_of_its_creator() {
    let world = World::new(&strangers().await).await;
    let (ours, theirs) = (world.api.tenant.organisation, world.other.organisation);
    let ask = async |token: &str, role: &str, organisation: Value| {
        let body = json!({"name": "x", "role": role, "organisation": organisation});
        world.api.post(token, PATH, body).await.status.as_u16()
    };
    for role in ["admin", "user", "connector"] {
        assert_eq!(ask(&world.admin, role, json!(ours)).await, 201, "{role}");
        assert_eq!(ask(&world.admin, role, json!(theirs)).await, 400, "{role}");
        assert_eq!(ask(&world.admin, role, Value::Null).await, 400, "{role}");
        assert_eq!(ask(&world.api.superadmin, role, json!(theirs)).await, 201, "{role}");
    }
    for role in ["superadmin", "viewer"] {
        assert_eq!(ask(&world.admin, role, Value::Null).await, 403, "{role}");
        assert_eq!(ask(&world.admin, role, json!(ours)).await, 403, "{role}");
        assert_eq!(ask(&world.api.superadmin, role, Value::Null).await, 201, "{role}");
        assert_eq!(ask(&world.api.superadmin, role, json!(ours)).await, 400, "{role}");
    }
}

#[tokio::test]
async fn each_rule_of_a_token_names_its_field() {
    let world = World::new(&strangers().await).await;
    let (ours, theirs) = (&world.api.tenant, &world.other);
    for (body, expected) in [
        (json!({}), vec!["name required", "role required"]),
        (json!({"name": "", "role": "root"}), vec!["name invalid_length", "role not_allowed"]),
        (
            json!({"name": "x", "role": "user", "organisation": ours.organisation, "expiresAt": "2001-01-01T00:00:00Z"}),
            vec!["expiresAt out_of_range"],
        ),
        (
            json!({"name": "x", "role": "user", "organisation": ours.organisation, "eshop": ours.eshop}),
            vec!["eshop invalid"],
        ),
        (
            json!({"name": "x", "role": "connector", "organisation": ours.organisation, "eshop": theirs.eshop}),
            vec!["eshop unknown_reference"],
        ),
        (json!({"name": "x", "role": "viewer", "token": "lsh_mine"}), vec!["token unknown_field"]),
    ] {
        let reply = world.api.post(&world.api.superadmin, PATH, body).await.expect(400);
        assert_eq!(reply.violations(), expected);
    }
}

const LIST: &str = "/api/product/list";

impl World {
    /// Creates a token; returns its id and the token itself.
    async fn make(&self, maker: &str, body: Value) -> (String, String) {
        let made = self.api.post(maker, PATH, body).await.expect(201).json();
        (id(&made), made["token"].as_str().unwrap().to_owned())
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_expires_after_a_year_by_default(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let organisation = world.api.tenant.organisation;
    let end = async |maker: &str, given: Option<Value>| {
        let mut body = json!({"name": "x", "role": "admin", "organisation": organisation});
        if let Some(given) = given {
            body["expiresAt"] = given;
        }
        let made = world.api.post(maker, PATH, body).await.expect(201).json();
        let at = made["expiresAt"].as_str().map(|at| at.parse::<DateTime<Utc>>().unwrap());
        (at, made["token"].as_str().unwrap().to_owned())
    };
    let now = world.api.services.clock.now();
    let year = end(&world.admin, None).await.0.unwrap() - now;
    assert!((TimeDelta::days(365)..TimeDelta::days(367)).contains(&year), "{year}");
    assert_eq!(end(&world.admin, Some(Value::Null)).await.0, None);
    let soon = now + TimeDelta::days(9);
    let (ends_at, short) = end(&world.admin, Some(json!(soon))).await;
    assert_eq!(ends_at.unwrap().timestamp_micros(), soon.timestamp_micros());
    // a token that it creates expires no later, as its record shows
    for given in [None, Some(Value::Null), Some(json!("2999-01-01T00:00:00Z"))] {
        assert_eq!(end(&short, given).await.0, ends_at);
    }
    // … and as the answer says
    let body = json!({"name": "x", "role": "admin", "organisation": organisation, "expiresAt": "2999-01-01T00:00:00Z"});
    let made = world.api.post(&short, PATH, body.clone()).await.expect(201).json();
    assert!(made["notice"].as_str().unwrap().starts_with("expiresAt is earlier than asked for"), "{made}");
    assert_eq!(world.api.post(&world.admin, PATH, body).await.expect(201).json().get("notice"), None);
    let sooner = now + TimeDelta::days(8);
    let (ends_at, _) = end(&short, Some(json!(sooner))).await;
    assert_eq!(ends_at.unwrap().timestamp_micros(), sooner.timestamp_micros());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_and_the_tokens_it_created_end_with_its_account(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let (ours, theirs) = (world.api.tenant.organisation, world.other.organisation);
    let body = |role: &str, of: uuid::Uuid| json!({"name": "left", "role": role, "organisation": of});
    for (name, method, path, change, keeps_the_other) in [
        ("a", Method::PUT, "deactivate/{id}", Value::Null, false),
        ("b", Method::DELETE, "{id}", Value::Null, false),
        ("c", Method::PUT, "{id}", json!({"active": false}), false),
        ("d", Method::DELETE, "{id}/organisation/{ours}", Value::Null, true),
        ("e", Method::PUT, "{id}", json!({"organisations": [theirs]}), true),
        ("f", Method::PUT, "{id}", json!({"role": "viewer"}), false),
    ] {
        let members = json!({"password": PASSWORD, "organisations": [ours, theirs]});
        let admin = world.add_admin(name, members).await;
        let login = world.login(name).await;
        let (made_id, made) = world.make(&login, body("admin", ours.get())).await;
        let (_, elsewhere) = world.make(&login, body("user", theirs.get())).await;
        let (second_id, second) = world.make(&made, body("admin", ours.get())).await;
        let (third_id, third) = world.make(&second, body("connector", ours.get())).await;
        let shown = world.api.get(superadmin, &format!("{PATH}/{made_id}")).await.expect(200).json();
        let maker = json!({"type": "admin", "id": admin, "name": format!("{name} Admin")});
        assert_eq!(shown["createdBy"], maker);
        let shown = world.api.get(superadmin, &format!("{PATH}/{second_id}")).await.expect(200).json();
        assert_eq!(shown["createdBy"]["id"], json!(made_id));
        for token in [&made, &elsewhere, &second, &third] {
            world.api.post(token, LIST, Value::Null).await.expect(200);
        }
        let path =
            format!("/api/admin/{}", path.replace("{id}", &admin).replace("{ours}", &ours.to_string()));
        let done = world.api.call_with(superadmin, method, &path, change, &[]).await;
        assert!(done.status.is_success(), "{name}: {}", done.text);
        for token in [&made, &second, &third] {
            world.until(token, Method::POST, LIST, 401).await;
        }
        let expected = if keeps_the_other { 200 } else { 401 };
        world.until(&elsewhere, Method::POST, LIST, expected).await;
        for gone in [&made_id, &second_id, &third_id] {
            let shown = world.api.get(superadmin, &format!("{PATH}/{gone}")).await.expect(200).json();
            assert!(shown["revokedAt"].is_string(), "{name}: {shown}");
            assert_eq!(world.audit(gone).await[1].0, "access_token.delete", "{name}");
        }
    }
    let left = world
        .api
        .post(
            superadmin,
            &format!("{PATH}/list"),
            json!({"criteria": {"name": {"eq": "left"}, "revokedAt": {"null": true}}}),
        )
        .await;
    assert_eq!(left.expect(200).json()["paging"]["total"], 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_superadmin_that_loses_its_role_keeps_no_token_of_that_role(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ours = world.api.tenant.organisation;
    let members = json!({"password": PASSWORD, "role": "superadmin", "organisations": [ours]});
    let admin = world.add_admin("ann", members.clone()).await;
    world.add_admin("bea", members).await;
    let login = world.login("ann").await;
    let (_, greater) = world.make(&login, json!({"name": "x", "role": "superadmin"})).await;
    let (_, fitting) = world.make(&login, json!({"name": "x", "role": "user", "organisation": ours})).await;
    let path = format!("/api/admin/{admin}");
    world.api.put(&world.api.superadmin, &path, json!({"role": "admin"})).await.expect(200);
    world.until(&greater, Method::POST, LIST, 401).await;
    world.api.post(&fitting, LIST, Value::Null).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn with_a_token_those_are_revoked_that_it_created_and_others_stay(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ours = world.api.tenant.organisation;
    let admin = world.add_admin("ann", json!({"password": PASSWORD, "organisations": [ours]})).await;
    let login = world.login("ann").await;
    let body = || json!({"name": "x", "role": "admin", "organisation": ours});
    let (first_id, first) = world.make(&login, body()).await;
    let (_, second) = world.make(&first, body()).await;
    let (_, old) = world.make(&login, json!({"name": "old", "role": "user", "organisation": ours})).await;
    sqlx::query("UPDATE access_token SET made_by_admin_id = NULL, created_by_type = NULL WHERE name = 'old'")
        .execute(&world.owner)
        .await
        .unwrap();
    world.api.delete(&world.admin, &format!("{PATH}/{first_id}")).await.expect(204);
    world.until(&second, Method::POST, LIST, 401).await;
    world
        .api
        .put(&world.api.superadmin, &format!("/api/admin/deactivate/{admin}"), Value::Null)
        .await
        .expect(204);
    world.until(&login, Method::POST, LIST, 401).await;
    world.api.post(&old, LIST, Value::Null).await.expect(200);
    let listed = json!({"criteria": {"name": {"eq": "old"}}, "limit": 1});
    let listed = world.api.post(&world.admin, &format!("{PATH}/list"), listed).await.expect(200).json();
    assert_eq!(listed["results"][0]["createdBy"], json!({"type": null, "id": null, "name": "ann Admin"}));
}

/// The creator is cached for seconds, but its token is not created.
#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_recently_deactivated_account_creates_no_token(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ours = world.api.tenant.organisation;
    let admin = world.add_admin("ann", json!({"password": PASSWORD, "organisations": [ours]})).await;
    let login = world.login("ann").await;
    let body = json!({"name": "x", "role": "user", "organisation": ours});
    let (made_id, made) =
        world.make(&login, json!({"name": "x", "role": "admin", "organisation": ours})).await;
    world.api.post(&made, LIST, Value::Null).await.expect(200);
    let leave = format!("/api/admin/{admin}/organisation/{ours}");
    world.api.delete(&world.api.superadmin, &leave).await.expect(204);
    let shown = world.api.get(&world.api.superadmin, &format!("{PATH}/{made_id}")).await.expect(200).json();
    assert!(shown["revokedAt"].is_string(), "{shown}");
    for maker in [&made, &login] {
        let refused = world.api.post(maker, PATH, body.clone()).await;
        assert!([400, 401].contains(&refused.status.as_u16()), "{}", refused.text);
    }
    assert_eq!(
        world.count("SELECT count(*) FROM access_token WHERE name = 'x' AND revoked_at IS NULL").await,
        0
    );
}
