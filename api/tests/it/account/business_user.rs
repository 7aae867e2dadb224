//! Business users.

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, World, email, id, user_body};
use crate::support::strangers;

const PATH: &str = "/api/business-user";

#[tokio::test]
async fn a_business_user_is_created_listed_and_permanently_deleted() {
    let world = World::new(&strangers().await).await;
    let organisation = world.api.tenant.organisation;
    let body = user_body("uma", organisation.to_string());
    let reply = world.api.post(&world.admin, PATH, body.clone()).await.expect(201);
    let user = reply.json();
    let expected = json!({
        "id": user["id"], "email": email("uma"), "firstName": "uma", "lastName": "User", "phone": null,
        "organisation": organisation, "active": true, "createdAt": user["createdAt"], "changedAt": user["createdAt"],
        "version": 1,
    });
    assert_eq!(user, expected);
    let path = format!("{PATH}/{}", id(&user));
    assert_eq!(reply.header("location"), Some(path.as_str()));
    assert_eq!(world.api.get(&world.api.viewer, &path).await.expect(200).json(), user);
    let list = world.api.post(&world.admin, &format!("{PATH}/list"), Value::Null).await.expect(200).json();
    assert_eq!(list["results"], json!([user]));
    let taken = world.api.post(&world.admin, PATH, body).await.expect(400);
    assert_eq!(taken.violations(), ["email already_taken"]);
    let parameters = json!({"{{ value }}": email("uma"), "{{ id }}": user["id"]});
    assert_eq!(taken.json()["violations"][0]["parameters"], parameters);
    world.api.delete(&world.admin, &path).await.expect(204);
    world.api.delete(&world.admin, &path).await.expect(410);
    world.api.get(&world.admin, &path).await.expect(410);
    let audit = world.audit(&id(&user)).await;
    assert_eq!(audit[0].1["password"], json!([null, "***"]));
    assert_eq!(audit[1].0, "business_user.delete");
    world.api.delete(&world.admin, &format!("{PATH}/{}", Uuid::nil())).await.expect(404);
}

#[tokio::test]
async fn each_rule_of_a_business_user_names_its_field() {
    let world = World::new(&strangers().await).await;
    let refused = async |body: Value| world.api.post(&world.admin, PATH, body).await.expect(400).violations();
    let missing = refused(json!({})).await;
    assert_eq!(
        missing,
        ["email required", "firstName required", "lastName required", "organisation required"]
    );
    let body = |name: &str, value: Value| {
        let mut body = user_body("uma", world.api.tenant.organisation.to_string());
        body[name] = value;
        body
    };
    for (name, value, expected) in [
        ("email", json!("uma"), "email invalid_email"),
        ("password", json!("short"), "password invalid_length"),
        ("organisation", json!(Uuid::nil()), "organisation unknown_reference"),
        ("role", json!("superadmin"), "role unknown_field"),
        ("phone", json!("x".repeat(51)), "phone invalid_length"),
    ] {
        assert_eq!(refused(body(name, value)).await, [expected]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_create_of_a_business_user_is_executed_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let body = user_body("uma", world.api.tenant.organisation.to_string());
    for _ in 0..2 {
        let key = [("idempotency-key", "k")];
        world.api.call_with(&world.admin, Method::POST, PATH, body.clone(), &key).await.expect(201);
    }
    assert_eq!(world.count("SELECT count(*) FROM business_user").await, 1);
}
