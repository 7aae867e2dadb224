//! Passwords: rules, changing one's own, and upgrading stored hashes to new parameters.

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, PASSWORD, World, admin_body, email, user_body};

const PATH: &str = "/api/account/password";
const LIST: &str = "/api/product/list";

fn wish(old: &str, new: &str) -> Value {
    json!({"password": old, "newPassword": new})
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_new_password_is_long_and_neither_common_nor_simple(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let superadmin = &world.api.superadmin;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let ann = world.login("ann").await;
    for (password, expected) in [
        ("elevenchars", "invalid_length"),
        ("password", "invalid_length"),
        ("sonyericsson", "too_common"),
        ("SonyEricsson", "too_common"),
        ("1QAZ2wsx3edc", "too_common"),
        ("aaaaaaaaaaaa", "too_simple"),
        ("            ", "too_simple"),
        ("abcdabcdabcd", "too_simple"),
        ("\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}      ", "too_simple"),
    ] {
        let refused =
            world.api.post(superadmin, "/api/admin", admin_body("x", json!({"password": password}))).await;
        assert_eq!(refused.expect(400).violations(), [format!("password {expected}")]);
        let mut body = user_body("x", world.api.tenant.organisation.to_string());
        body["password"] = json!(password);
        let refused = world.api.post(superadmin, "/api/business-user", body).await.expect(400);
        assert_eq!(refused.violations(), [format!("password {expected}")]);
        assert_eq!(refused.json()["violations"][0]["parameters"], json!({"{{ value }}": "***"}));
        let refused = world.api.put(&ann, PATH, wish(PASSWORD, password)).await.expect(400);
        assert_eq!(refused.violations(), [format!("newPassword {expected}")]);
    }
    let updated = world.add_admin("bob", json!({})).await;
    let simple = json!({"password": "aaaaaaaaaaaa"});
    let refused = world.api.put(superadmin, &format!("/api/admin/{updated}"), simple).await.expect(400);
    assert_eq!(refused.violations(), ["password too_simple"]);
    for password in ["twelve chars", "sonyericsson!"] {
        let made = world
            .api
            .post(superadmin, "/api/admin", admin_body(&password[..3], json!({"password": password})))
            .await;
        made.expect(201);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_of_password_keeps_its_session_and_ends_the_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let user = world.add_user("uma").await;
    let admin = world.add_admin("uma", json!({"password": PASSWORD, "role": "viewer"})).await;
    for (door, account, kind) in [("user", user, "business_user"), ("admin", admin, "admin")] {
        let login = async |password: &str| {
            let reply = world.try_login(door, &email("uma"), password).await.expect(200).json();
            reply["token"].as_str().unwrap().to_owned()
        };
        let (kept, other) = (login(PASSWORD).await, login(PASSWORD).await);
        let refused =
            world.api.put(&kept, PATH, wish("wrong horse battery", "another horse")).await.expect(400);
        assert_eq!(refused.violations(), ["password wrong_password"]);
        assert_eq!(refused.json()["violations"][0]["parameters"], json!({"{{ value }}": "***"}));
        let changed = world.api.put(&kept, PATH, wish(PASSWORD, "another horse")).await.expect(200).json();
        assert_eq!(changed, json!({"tokens": [], "countOfTokens": 0}));
        world.until(&other, Method::POST, LIST, 401).await;
        world.api.post(&kept, LIST, Value::Null).await.expect(200);
        world.api.post(&kept, "/api/refresh-token", Value::Null).await.expect(200);
        world.try_login(door, &email("uma"), PASSWORD).await.expect(401);
        login("another horse").await;
        let (action, changes) = world.audit(&account).await.pop().unwrap();
        assert_eq!((action, changes), (format!("{kind}.password"), json!({"password": ["***", "***"]})));
    }
    // programs have no password
    for token in [&world.api.superadmin, &world.api.viewer, &world.api.user, &world.api.connector] {
        world.api.put(token, PATH, wish(PASSWORD, "another horse")).await.expect(403);
    }
    world.api.put("", PATH, wish(PASSWORD, "another horse")).await.expect(401);
    let refused = world.api.put(&world.api.user, PATH, json!({"pasword": "x"})).await.expect(400);
    assert_eq!(refused.violations(), ["password required", "newPassword required", "pasword unknown_field"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_of_password_names_the_tokens_that_live_on_and_ends_them_if_asked(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ours = world.api.tenant.organisation;
    world.add_admin("ann", json!({"password": PASSWORD, "organisations": [ours]})).await;
    world.add_admin("bea", json!({"password": PASSWORD, "organisations": [ours]})).await;
    let (ann, bea) = (world.login("ann").await, world.login("bea").await);
    let make = async |maker: &str, name: &str| {
        let body = json!({"name": name, "role": "admin", "organisation": ours});
        let made = world.api.post(maker, "/api/access-token", body).await.expect(201).json();
        made["token"].as_str().unwrap().to_owned()
    };
    let first = make(&ann, "first").await;
    let (second, other) = (make(&first, "second").await, make(&bea, "other").await);
    let left = world.api.put(&ann, PATH, wish(PASSWORD, "another horse")).await.expect(200).json();
    let names: Vec<_> = left["tokens"].as_array().unwrap().iter().map(|token| &token["name"]).collect();
    assert_eq!((names, &left["countOfTokens"]), (vec![&json!("second"), &json!("first")], &json!(2)));
    assert_eq!(
        (&left["tokens"][0]["role"], &left["tokens"][0]["organisation"]),
        (&json!("admin"), &json!(ours))
    );
    for token in [&first, &second, &other] {
        world.api.post(token, LIST, Value::Null).await.expect(200);
    }
    let mut change = wish("another horse", PASSWORD);
    change["tokens"] = json!(true);
    let left = world.api.put(&ann, PATH, change).await.expect(200).json();
    assert_eq!(left, json!({"tokens": [], "countOfTokens": 0}));
    for token in [&first, &second] {
        world.until(token, Method::POST, LIST, 401).await;
    }
    world.api.post(&other, LIST, Value::Null).await.expect(200);
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'access_token.delete'").await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_reset_of_another_password_names_the_tokens_that_live_on_and_ends_them_if_asked(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ours = world.api.tenant.organisation;
    let id = world.add_admin("ann", json!({"password": PASSWORD, "organisations": [ours]})).await;
    let ann = world.login("ann").await;
    let make = async |maker: &str, name: &str| {
        let body = json!({"name": name, "role": "admin", "organisation": ours});
        let made = world.api.post(maker, "/api/access-token", body).await.expect(201).json();
        made["token"].as_str().unwrap().to_owned()
    };
    let first = make(&ann, "first").await;
    let second = make(&first, "second").await;
    let path = format!("/api/admin/{id}");
    let put = async |body: Value| world.api.put(&world.api.superadmin, &path, body).await;
    // a change of anything else ends none of them, and names none
    let refused = put(json!({"phone": "1", "tokens": true})).await.expect(400);
    assert_eq!(refused.violations(), ["tokens invalid"]);
    let changed = put(json!({"phone": "1", "tokens": false})).await.expect(200).json();
    assert_eq!((&changed["phone"], changed.get("tokens")), (&json!("1"), None));
    let left = put(json!({"password": "another horse"})).await.expect(200).json();
    let names: Vec<_> = left["tokens"].as_array().unwrap().iter().map(|token| &token["name"]).collect();
    assert_eq!((names, &left["countOfTokens"]), (vec![&json!("second"), &json!("first")], &json!(2)));
    assert_eq!(left["email"], changed["email"]);
    world.until(&ann, Method::POST, LIST, 401).await;
    for token in [&first, &second] {
        world.api.post(token, LIST, Value::Null).await.expect(200);
    }
    let left = put(json!({"password": PASSWORD, "tokens": true})).await.expect(200).json();
    assert_eq!((&left["tokens"], &left["countOfTokens"]), (&json!([]), &json!(0)));
    for token in [&first, &second] {
        world.until(token, Method::POST, LIST, 401).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn guesses_of_the_current_password_are_limited_like_logins(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let ann = world.login("ann").await;
    let mut statuses = Vec::new();
    for _ in 0..40 {
        let reply = world.api.put(&ann, PATH, wish("wrong horse battery", "another horse")).await;
        statuses.push(reply.status.as_u16());
        if reply.status == 429 {
            break;
        }
    }
    assert_eq!((statuses.first(), statuses.last()), (Some(&400), Some(&429)), "{statuses:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_older_hash_is_still_accepted_and_upgraded_to_the_current_parameters(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    // of "short", with half of the current memory parameter
    const OLD: &str = "$argon2id$v=19$m=9728,t=2,p=1$";
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let user = world.add_user("uma").await;
    let changed = "SELECT count(*) FROM business_user WHERE changed_at > created_at";
    let hash = old_hash("short");
    assert!(hash.starts_with(OLD), "{hash}");
    for table in ["UPDATE admin SET password_hash = $1", "UPDATE business_user SET password_hash = $1"] {
        sqlx::query(table).bind(&hash).execute(&world.owner).await.unwrap();
    }
    for (door, name) in [("admin", "ann"), ("user", "uma")] {
        world.try_login(door, &email(name), "wrong").await.expect(401);
    }
    let old = "SELECT (SELECT count(*) FROM admin WHERE password_hash LIKE '%m=9728,%')
                    + (SELECT count(*) FROM business_user WHERE password_hash LIKE '%m=9728,%')";
    assert_eq!(world.count(old).await, 2);
    for (door, name) in [("admin", "ann"), ("user", "uma")] {
        world.try_login(door, &email(name), "short").await.expect(200);
    }
    assert_eq!(world.count(old).await, 0);
    let new = "SELECT (SELECT count(*) FROM admin WHERE password_hash LIKE '%m=19456,t=2,p=1%')
                    + (SELECT count(*) FROM business_user WHERE password_hash LIKE '%m=19456,t=2,p=1%')";
    assert_eq!(world.count(new).await, 2);
    assert_eq!(world.count(changed).await, 0, "that is no change of the account");
    assert_eq!(world.audit(&user).await.len(), 1);
    for (door, name) in [("admin", "ann"), ("user", "uma")] {
        world.try_login(door, &email(name), "short").await.expect(200);
    }
}

/// A hash with other parameters than those of the service.
fn old_hash(password: &str) -> String {
    use argon2::password_hash::{PasswordHasher as _, SaltString};
    use argon2::{Algorithm, Argon2, Params, Version};

    let salt = SaltString::encode_b64(b"salt of the test").unwrap();
    let params = Params::new(9_728, 2, 1, None).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password(password.as_bytes(), &salt).unwrap().to_string()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_business_user_is_changed_by_admins_of_its_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let organisation = world.api.tenant.organisation;
    let uma = world.add_user("uma").await;
    world.add_user("ute").await;
    let path = format!("/api/business-user/{uma}");
    let before = world.api.get(&world.admin, &path).await.expect(200);
    let body =
        json!({"firstName": "Uma", "phone": "+420 1", "email": email("UMA"), "organisation": organisation});
    let reply = world.api.put(&world.admin, &path, body.clone()).await.expect(200);
    let user = reply.json();
    assert_eq!(
        (&user["firstName"], &user["phone"], &user["lastName"]),
        (&json!("Uma"), &json!("+420 1"), &json!("User"))
    );
    assert_ne!(before.header("etag"), reply.header("etag"));
    let (action, changes) = world.audit(&uma).await.pop().unwrap();
    assert_eq!(action, "business_user.update");
    assert_eq!(
        changes,
        json!({"firstName": ["uma", "Uma"], "phone": [null, "+420 1"], "email": [email("uma"), email("UMA")]})
    );
    // no change is written
    assert_eq!(world.api.put(&world.admin, &path, body).await.expect(200).json(), user);
    assert_eq!(world.audit(&uma).await.len(), 2);
    let stale = [("if-match", before.header("etag").unwrap())];
    world.api.call_with(&world.admin, Method::PUT, &path, json!({"phone": null}), &stale).await.expect(412);
    assert_eq!(
        world.api.put(&world.admin, &path, json!({"phone": null})).await.expect(200).json()["phone"],
        Value::Null
    );
    for (body, expected) in [
        (json!({"organisation": world.other.organisation}), "organisation not_allowed"),
        (json!({"email": email("ute")}), "email already_taken"),
        (json!({"email": null}), "email wrong_type"),
        (json!({"createdAt": "2020-01-01T00:00:00Z"}), "createdAt read_only"),
        (json!({"role": "admin"}), "role unknown_field"),
    ] {
        assert_eq!(world.api.put(&world.admin, &path, body).await.expect(400).violations(), [expected]);
    }
    let theirs = world.other.token(&world.api.services, longshore_kernel::access::Role::Admin).await.unwrap();
    for (method, path) in [
        (Method::PUT, path.clone()),
        (Method::PUT, format!("/api/business-user/activate/{uma}")),
        (Method::PUT, format!("/api/business-user/deactivate/{uma}")),
    ] {
        let call =
            async |token: &str| world.api.call_with(token, method.clone(), &path, json!({}), &[]).await;
        call(&theirs).await.expect(404);
        for token in [&world.api.viewer, &world.api.user, &world.api.connector] {
            call(token).await.expect(403);
        }
        call("").await.expect(401);
    }
    world.api.delete(&world.admin, &path).await.expect(204);
    world.api.put(&world.admin, &path, json!({"phone": null})).await.expect(410);
    world
        .api
        .put(&world.admin, &format!("/api/business-user/deactivate/{uma}"), Value::Null)
        .await
        .expect(410);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_deactivated_business_user_or_one_with_a_new_password_has_to_log_in_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let uma = world.add_user("uma").await;
    let login = async |password: &str, status: u16| {
        let reply = world.try_login("user", &email("uma"), password).await.expect(status).json();
        reply["token"].as_str().unwrap_or_default().to_owned()
    };
    let put = async |path: &str, body: Value, status: u16| {
        let path = format!("/api/business-user/{}", path.replace("{id}", &uma));
        world.api.put(&world.admin, &path, body).await.expect(status);
    };
    for (path, body, status) in
        [("deactivate/{id}", Value::Null, 204), ("{id}", json!({"active": false}), 200)]
    {
        let token = login(PASSWORD, 200).await;
        put(path, body, status).await;
        world.until(&token, Method::POST, LIST, 401).await;
        login(PASSWORD, 401).await;
        put("activate/{id}", Value::Null, 204).await;
        // after the activation a new login is still required
        world.api.post(&token, LIST, Value::Null).await.expect(401);
        world.api.post(&token, "/api/refresh-token", Value::Null).await.expect(401);
    }
    let token = login(PASSWORD, 200).await;
    put("{id}", json!({"password": "another horse"}), 200).await;
    world.until(&token, Method::POST, LIST, 401).await;
    login(PASSWORD, 401).await;
    login("another horse", 200).await;
    put("{id}", json!({"password": null}), 200).await;
    login("another horse", 401).await;
    let actions: Vec<_> = world.audit(&uma).await.into_iter().map(|(action, _)| action).collect();
    let expected = ["create", "deactivate", "activate", "update", "activate", "update", "update"];
    assert_eq!(actions, expected.map(|verb| format!("business_user.{verb}")));
}
