//! Single admins.

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PASSWORD, World, admin_body, email, id};
use crate::support::strangers;

const PATH: &str = "/api/admin";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_created_admin_is_returned_completely_without_its_password(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let mut organisations = [world.other.organisation, world.api.tenant.organisation];
    let members = json!({
        "phone": "+420 1", "password": PASSWORD, "organisations": organisations, "preferences": {"a": [1, null]},
    });
    let reply = world.api.post(superadmin, PATH, admin_body("ann", members)).await.expect(201);
    let admin = reply.json();
    organisations.sort_unstable();
    let expected = json!({
        "id": admin["id"], "email": "ann@example.com", "firstName": "ann", "lastName": "Admin", "phone": "+420 1",
        "role": "admin", "active": true, "organisations": organisations, "preferences": {"a": [1, null]},
        "createdAt": admin["createdAt"], "changedAt": admin["createdAt"], "version": 1,
    });
    assert_eq!(admin, expected);
    let path = format!("{PATH}/{}", id(&admin));
    assert_eq!(reply.header("location"), Some(path.as_str()));
    let read = world.api.get(superadmin, &path).await.expect(200);
    assert_eq!(read.json(), admin);
    assert_eq!(read.header("etag"), reply.header("etag"));
    let list = world.api.post(superadmin, "/api/admin/list", Value::Null).await.expect(200).json();
    assert_eq!(list["results"], json!([admin]));
    let audit = world.audit(&id(&admin)).await;
    assert_eq!((audit[0].0.as_str(), &audit[0].1["password"]), ("admin.create", &json!([null, "***"])));
    // nowhere in the database, in plain text or with a fast hash
    let leaks = "SELECT count(*) FROM audit WHERE changes::text LIKE '%correct horse%'";
    assert_eq!(world.count(leaks).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM admin WHERE password_hash LIKE '$argon2id$%'").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_rule_of_an_admin_names_its_field(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let refused =
        async |body: Value| world.api.post(&world.api.superadmin, PATH, body).await.expect(400).violations();
    let missing = refused(json!({})).await;
    assert_eq!(missing, ["email required", "firstName required", "lastName required", "role required"]);
    let unknown = Uuid::nil();
    for (members, expected) in [
        (json!({"email": "nobody"}), "email invalid_email"),
        (json!({"email": "a@b@c"}), "email invalid_email"),
        (json!({"email": "a b@c"}), "email invalid_email"),
        (json!({"email": format!("{}@b", "a".repeat(253))}), "email invalid_length"),
        (json!({"firstName": ""}), "firstName invalid_length"),
        (json!({"role": "user"}), "role not_allowed"),
        (json!({"role": "connector"}), "role not_allowed"),
        (json!({"password": "elevenchars"}), "password invalid_length"),
        (json!({"password": "x".repeat(129)}), "password invalid_length"),
        (json!({"active": null}), "active wrong_type"),
        (
            json!({"organisations": [world.api.tenant.organisation, unknown]}),
            "organisations[1] unknown_reference",
        ),
        (json!({"organisations": ["x"]}), "organisations[0] invalid_id"),
        (json!({"preferences": []}), "preferences wrong_type"),
        (json!({"preferences": {"a": "\0"}}), "preferences invalid_character"),
        (json!({"passwordHash": "x"}), "passwordHash unknown_field"),
    ] {
        assert_eq!(refused(admin_body("ann", members.clone())).await, [expected], "{members}");
    }
    assert_eq!(world.count("SELECT count(*) FROM admin").await, 0);
    let shortest = format!("abcd{}", "x".repeat(8));
    let longest = format!("abcd{}", "ü".repeat(124));
    for members in [json!({"password": shortest}), json!({"password": longest, "email": "b@c"})] {
        world.api.post(&world.api.superadmin, PATH, admin_body("ann", members)).await.expect(201);
    }
}

#[tokio::test]
async fn an_address_belongs_to_one_admin_in_any_spelling() {
    let world = World::new(&strangers().await).await;
    let ann = world.add_admin("ann", json!({})).await;
    let bob = world.add_admin("bob", json!({})).await;
    let body = admin_body("x", json!({"email": "ANN@Example.com"}));
    let reply = world.api.post(&world.api.superadmin, PATH, body).await.expect(400);
    assert_eq!(reply.violations(), ["email already_taken"]);
    let parameters = json!({"{{ value }}": "ANN@Example.com", "{{ id }}": ann});
    assert_eq!(reply.json()["violations"][0]["parameters"], parameters);
    let path = format!("{PATH}/{bob}");
    let reply = world.api.put(&world.api.superadmin, &path, json!({"email": email("ann")})).await.expect(400);
    assert_eq!(reply.json()["violations"][0]["parameters"]["{{ id }}"], ann);
    world.api.put(&world.api.superadmin, &path, json!({"email": "BOB@example.com"})).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_changes_the_given_fields_and_is_audited(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let admin = world.add_admin("ann", json!({"phone": "1"})).await;
    let path = format!("{PATH}/{admin}");
    let organisation = world.api.tenant.organisation;
    let change =
        json!({"lastName": "Other", "phone": null, "organisations": [organisation], "role": "viewer"});
    let reply = world.api.put(superadmin, &path, change).await.expect(200);
    assert_eq!(reply.header("location"), Some(path.as_str()));
    let changed = reply.json();
    assert_eq!(changed, world.api.get(superadmin, &path).await.expect(200).json());
    assert_eq!((&changed["firstName"], &changed["lastName"]), (&json!("ann"), &json!("Other")));
    assert_eq!((&changed["phone"], &changed["role"]), (&Value::Null, &json!("viewer")));
    let audit = world.audit(&admin).await;
    let expected = json!({
        "lastName": ["Admin", "Other"], "phone": ["1", null], "organisations": [[], [organisation]],
        "role": ["admin", "viewer"],
    });
    assert_eq!(audit[1], ("admin.update".to_owned(), expected));
    // the same update again is no change
    let again = world.api.put(superadmin, &path, json!({"lastName": "Other"})).await.expect(200);
    assert_eq!(again.json(), changed);
    assert_eq!(world.audit(&admin).await.len(), 2);
    world.api.put(superadmin, &path, json!({"password": "another one of them"})).await.expect(200);
    assert_eq!(world.audit(&admin).await[2].1, json!({"password": [null, "***"]}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_of_an_outdated_version_is_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let path = format!("{PATH}/{}", world.add_admin("ann", json!({})).await);
    let seen = world.api.get(superadmin, &path).await.expect(200).header("etag").unwrap().to_owned();
    let put = async |path: &str, body: Value| {
        world.api.call_with(superadmin, Method::PUT, path, body, &[("if-match", seen.as_str())]).await
    };
    put(&path, json!({"lastName": "Seen"})).await.expect(200);
    put(&path, json!({"lastName": "Unseen"})).await.expect(412);
    put(&format!("{path}/preferences"), json!({})).await.expect(412);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn preferences_are_replaced_completely_and_limited_to_16_kib(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let admin = world.add_admin("ann", json!({"preferences": {"old": true}})).await;
    let path = format!("{PATH}/{admin}/preferences");
    let reply = world.api.put(superadmin, &path, json!({"theme": "dark"})).await.expect(200);
    assert_eq!(reply.json()["preferences"], json!({"theme": "dark"}));
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{admin}").as_str()));
    let audit = world.audit(&admin).await;
    assert_eq!(
        audit[1],
        ("admin.preferences".to_owned(), json!({"preferences": [{"old": true}, {"theme": "dark"}]}))
    );
    // `{"a":""}` has eight bytes
    let of = |bytes: usize| json!({"a": "x".repeat(bytes - 8)});
    world.api.put(superadmin, &path, of(16 * 1024)).await.expect(200);
    let reply = world.api.put(superadmin, &path, of(16 * 1024 + 1)).await.expect(400);
    assert_eq!(reply.violations(), [" too_large"]);
    for body in [json!([]), json!("x"), json!(1)] {
        world.api.put(superadmin, &path, body).await.expect(400);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_is_added_to_organisations_and_removed(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let admin = world.add_admin("ann", json!({})).await;
    let organisation = world.api.tenant.organisation;
    let path = format!("{PATH}/{admin}/organisation/{organisation}");
    for _ in 0..2 {
        world.api.put(superadmin, &path, Value::Null).await.expect(204);
    }
    let read = async || world.api.get(superadmin, &format!("{PATH}/{admin}")).await.expect(200).json();
    assert_eq!(read().await["organisations"], json!([organisation]));
    world.api.delete(superadmin, &path).await.expect(204);
    assert_eq!(read().await["organisations"], json!([]));
    world.api.delete(superadmin, &path).await.expect(404);
    let actions: Vec<String> = world.audit(&admin).await.into_iter().map(|(action, _)| action).collect();
    assert_eq!(actions, ["admin.create", "admin.organisation_add", "admin.organisation_remove"]);
    let nobody = Uuid::nil();
    for path in [
        format!("{PATH}/{admin}/organisation/{nobody}"),
        format!("{PATH}/{nobody}/organisation/{organisation}"),
    ] {
        world.api.put(superadmin, &path, Value::Null).await.expect(404);
        world.api.delete(superadmin, &path).await.expect(404);
    }
    world.api.put(superadmin, &format!("{PATH}/{admin}/organisation/x"), Value::Null).await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_deleted_admin_is_gone_for_callers_who_could_see_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    let organisation = world.api.tenant.organisation;
    let admin = world.add_admin("ann", json!({"organisations": [organisation]})).await;
    let path = format!("{PATH}/{admin}");
    world.api.delete(superadmin, &path).await.expect(204);
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::PUT, path.clone()),
        (Method::DELETE, path.clone()),
        (Method::PUT, format!("{PATH}/activate/{admin}")),
        (Method::PUT, format!("{PATH}/deactivate/{admin}")),
        (Method::PUT, format!("{path}/preferences")),
        (Method::PUT, format!("{path}/organisation/{organisation}")),
        (Method::DELETE, format!("{path}/organisation/{organisation}")),
    ] {
        let reply = world.api.call_with(superadmin, method.clone(), &path, json!({}), &[]).await;
        assert_eq!(reply.status.as_u16(), 410, "{method} {path}: {}", reply.text);
    }
    world.api.get(&world.api.viewer, &path).await.expect(410);
    world.api.get(&world.admin, &path).await.expect(404);
    world.api.get(superadmin, &format!("{PATH}/{}", Uuid::nil())).await.expect(404);
    assert_eq!(world.audit(&admin).await[1].0, "admin.delete");
    // the address can be used again
    world.add_admin("ann", json!({})).await;
}

#[tokio::test]
async fn the_last_active_superadmin_stays_one() {
    let world = World::new(&strangers().await).await;
    let token = &world.api.superadmin;
    // an inactive superadmin does not count
    world.add_admin("off", json!({"role": "superadmin", "active": false})).await;
    let last = world.add_admin("last", json!({"role": "superadmin"})).await;
    let path = format!("{PATH}/{last}");
    world.api.put(token, &format!("{PATH}/deactivate/{last}"), Value::Null).await.expect(409);
    world.api.delete(token, &path).await.expect(409);
    world.api.put(token, &path, json!({"role": "admin"})).await.expect(409);
    world.api.put(token, &path, json!({"active": false})).await.expect(409);
    for verb in ["deactivate", "delete"] {
        world.api.put(token, &format!("{PATH}/{verb}"), json!([last])).await.expect(409);
    }
    assert_eq!(world.audit(&last).await.len(), 1, "nothing was changed");
    world.api.put(token, &path, json!({"lastName": "Lasting"})).await.expect(200);
    world.add_admin("next", json!({"role": "superadmin"})).await;
    world.api.put(token, &format!("{PATH}/deactivate/{last}"), Value::Null).await.expect(204);
    world.api.delete(token, &path).await.expect(204);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_of_two_superadmins_removed_at_once_stays(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let token = &world.api.superadmin;
    let away = async |round: usize, admin: String| {
        let path = format!("{PATH}/{admin}");
        let reply = match round % 3 {
            0 => world.api.put(token, &format!("{PATH}/deactivate/{admin}"), Value::Null).await,
            1 => world.api.delete(token, &path).await,
            _ => world.api.put(token, &path, json!({"role": "viewer"})).await,
        };
        reply.status.as_u16()
    };
    let mut standing = world.add_admin("first", json!({"role": "superadmin"})).await;
    for round in 0..12 {
        let other = world.add_admin(&format!("n{round}"), json!({"role": "superadmin"})).await;
        let (one, two) = tokio::join!(away(round, standing.clone()), away(round + round / 3, other.clone()));
        let refused = [one, two].iter().filter(|status| **status == 409).count();
        assert_eq!(refused, 1, "{one} and {two}");
        standing = if one == 409 { standing } else { other };
        assert_eq!(world.count("SELECT count(*) FROM admin WHERE role = 'superadmin' AND active").await, 1);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_create_is_executed_once_and_its_key_reveals_nothing_about_the_password(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let key = [("idempotency-key", "k")];
    let body = admin_body("ann", json!({"password": PASSWORD}));
    let call = async |body: &Value| {
        world.api.call_with(&world.api.superadmin, Method::POST, PATH, body.clone(), &key).await
    };
    let first = call(&body).await.expect(201);
    let again = call(&body).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), first.json());
    call(&admin_body("bob", json!({"password": PASSWORD}))).await.expect(422);
    assert_eq!(world.count("SELECT count(*) FROM admin").await, 1);
    let kept: Vec<u8> =
        sqlx::query_scalar("SELECT body_hash FROM idempotency").fetch_one(&world.owner).await.unwrap();
    let of_the_body = longshore_kernel::crypto::sha256(body.to_string().as_bytes());
    assert_ne!(kept, of_the_body);
}
