//! Permissions on accounts and tokens (`docs/reference/roles.md#delegation`).

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, World, admin_body, email, id, user_body};
use crate::support::strangers;

/// Every operation on accounts and tokens, with ids that do not exist, and the roles that may call it.
fn operations(world: &World) -> Vec<(Method, String, Value, &'static [&'static str])> {
    const WRITE_ADMINS: &[&str] = &["superadmin"];
    const READ: &[&str] = &["superadmin", "admin", "viewer"];
    const WRITE_USERS: &[&str] = &["superadmin", "admin"];
    const TOKENS: &[&str] = &["superadmin", "admin"];
    let id = Uuid::nil();
    let organisation = world.api.tenant.organisation;
    let operation = |method, path: &str, body, roles| (method, format!("/api/{path}"), body, roles);
    vec![
        operation(Method::POST, "admin", json!({}), WRITE_ADMINS),
        operation(Method::GET, &format!("admin/{id}"), Value::Null, READ),
        operation(Method::PUT, &format!("admin/{id}"), json!({}), WRITE_ADMINS),
        operation(Method::DELETE, &format!("admin/{id}"), Value::Null, WRITE_ADMINS),
        operation(Method::POST, "admin/list", Value::Null, READ),
        operation(Method::PUT, &format!("admin/activate/{id}"), Value::Null, WRITE_ADMINS),
        operation(Method::PUT, &format!("admin/deactivate/{id}"), Value::Null, WRITE_ADMINS),
        operation(Method::PUT, "admin/activate", json!([id]), WRITE_ADMINS),
        operation(Method::PUT, "admin/deactivate", json!([id]), WRITE_ADMINS),
        operation(Method::PUT, "admin/delete", json!([id]), WRITE_ADMINS),
        operation(Method::PUT, &format!("admin/{id}/preferences"), json!({}), WRITE_ADMINS),
        operation(Method::PUT, &format!("admin/{id}/organisation/{organisation}"), Value::Null, WRITE_ADMINS),
        operation(
            Method::DELETE,
            &format!("admin/{id}/organisation/{organisation}"),
            Value::Null,
            WRITE_ADMINS,
        ),
        operation(Method::POST, "business-user", json!({}), WRITE_USERS),
        operation(Method::GET, &format!("business-user/{id}"), Value::Null, READ),
        operation(Method::POST, "business-user/list", Value::Null, READ),
        operation(Method::DELETE, &format!("business-user/{id}"), Value::Null, WRITE_USERS),
        operation(Method::POST, "access-token", json!({}), TOKENS),
        operation(Method::GET, &format!("access-token/{id}"), Value::Null, TOKENS),
        operation(Method::POST, "access-token/list", Value::Null, TOKENS),
        operation(Method::DELETE, &format!("access-token/{id}"), Value::Null, TOKENS),
    ]
}

#[tokio::test]
async fn each_role_may_do_what_the_table_says() {
    let world = World::new(&strangers().await).await;
    let tokens = [
        ("superadmin", &world.api.superadmin),
        ("admin", &world.admin),
        ("user", &world.api.user),
        ("connector", &world.api.connector),
        ("viewer", &world.api.viewer),
    ];
    for (method, path, body, roles) in operations(&world) {
        for (role, token) in tokens {
            let reply = world.api.call_with(token, method.clone(), &path, body.clone(), &[]).await;
            let status = reply.status.as_u16();
            if roles.contains(&role) {
                assert!(matches!(status, 200 | 400 | 404), "{role} {method} {path}: {status} {}", reply.text);
            } else {
                assert_eq!(status, 403, "{role} {method} {path}: {}", reply.text);
            }
        }
    }
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_revealed() {
    let world = World::new(&strangers().await).await;
    let mut operations = operations(&world);
    for path in ["refresh-token", "logout"] {
        operations.push((Method::POST, format!("/api/{path}"), Value::Null, &[]));
    }
    for (method, path, body, _) in operations {
        let reply = world.api.call_with("lsh_nonsense", method.clone(), &path, body, &[]).await.expect(401);
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        world
            .api
            .send(Request::builder().method(method).uri(path).body(Body::empty()).unwrap())
            .await
            .expect(401);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_sees_only_the_accounts_and_tokens_of_its_organisations(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (ours, theirs) = (world.api.tenant.organisation, world.other.organisation);
    let superadmin = &world.api.superadmin;
    let mut seen = Vec::new();
    for (organisation, name) in [(ours, "ours"), (theirs, "theirs")] {
        let admin = world.add_admin(name, json!({"organisations": [organisation]})).await;
        let body = user_body(name, organisation.to_string());
        let user = id(&world.api.post(superadmin, "/api/business-user", body).await.expect(201).json());
        let body = json!({"name": name, "role": "user", "organisation": organisation});
        let token = id(&world.api.post(superadmin, "/api/access-token", body).await.expect(201).json());
        seen.push([
            format!("admin/{admin}"),
            format!("business-user/{user}"),
            format!("access-token/{token}"),
        ]);
    }
    // of no organisation
    world.add_admin("nobody", json!({})).await;
    for (ours, theirs) in seen[0].iter().zip(&seen[1]) {
        world.api.get(&world.admin, &format!("/api/{ours}")).await.expect(200);
        world.api.get(&world.admin, &format!("/api/{theirs}")).await.expect(404);
        world.api.get(superadmin, &format!("/api/{theirs}")).await.expect(200);
        if !theirs.starts_with("admin") {
            world.api.delete(&world.admin, &format!("/api/{theirs}")).await.expect(404);
        }
    }
    let names = async |token: &str, path: &str, field: &str| {
        let body = json!({"select": [field], "sort": [{"field": field}]});
        let list = world.api.post(token, path, body).await.expect(200).json();
        let total = list["paging"]["total"].as_u64().unwrap();
        let names: Vec<String> = list["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r[field].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(total, names.len() as u64);
        names
    };
    assert_eq!(names(&world.admin, "/api/admin/list", "email").await, [email("ours")]);
    assert_eq!(names(superadmin, "/api/admin/list", "email").await.len(), 3);
    assert_eq!(names(&world.api.viewer, "/api/admin/list", "email").await.len(), 3);
    assert_eq!(names(&world.admin, "/api/business-user/list", "email").await, [email("ours")]);
    assert_eq!(names(&world.api.viewer, "/api/business-user/list", "email").await.len(), 2);
    let tokens = names(&world.admin, "/api/access-token/list", "name").await;
    assert!(tokens.contains(&"ours".to_owned()) && !tokens.contains(&"theirs".to_owned()), "{tokens:?}");
    // not even in criteria with dotted paths
    let behind = json!({"criteria": {"organisations.name": {"eq": "Other"}}});
    let list = world.api.post(&world.admin, "/api/admin/list", behind.clone()).await.expect(200).json();
    assert_eq!(list["paging"]["total"], 0);
    let list = world.api.post(superadmin, "/api/admin/list", behind).await.expect(200).json();
    assert_eq!(list["paging"]["total"], 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_creates_no_accounts_in_other_organisations(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let theirs = world.other.organisation.to_string();
    let reply =
        world.api.post(&world.admin, "/api/business-user", user_body("eve", theirs)).await.expect(400);
    assert_eq!(reply.violations(), ["organisation unknown_reference"]);
    world.api.post(&world.admin, "/api/admin", admin_body("eve", json!({}))).await.expect(403);
    assert_eq!(world.count("SELECT count(*) FROM business_user").await, 0);
}
