//! Access tokens on request.

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, World, id};

const PATH: &str = "/api/access-token";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_is_shown_once_and_opens_what_it_is_for(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
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
        "eshop": tenant.eshop, "expiresAt": "2999-01-01T00:00:00.000000+00:00",
        "createdBy": "admin of a test", "createdAt": token["createdAt"], "changedAt": token["createdAt"],
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

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_deleted_token_opens_nothing_within_seconds(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let body = json!({"name": "x", "role": "user", "organisation": world.api.tenant.organisation});
    let token = world.api.post(&world.admin, PATH, body).await.expect(201).json();
    let secret = token["token"].as_str().unwrap();
    // believed from now on
    world.api.post(secret, "/api/product/list", Value::Null).await.expect(200);
    let path = format!("{PATH}/{}", id(&token));
    world.api.delete(&world.admin, &path).await.expect(204);
    world.until(secret, Method::POST, "/api/product/list", 401).await;
    world.api.delete(&world.admin, &path).await.expect(410);
    assert_eq!(world.audit(&id(&token)).await[1].0, "access_token.delete");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn nobody_gives_a_token_more_than_its_own_role_and_scope(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
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

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_rule_of_a_token_names_its_field(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
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
