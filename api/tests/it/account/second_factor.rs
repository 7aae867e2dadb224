//! Second factors: setting them up, logging in with them, and losing them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use longshore_domain::account::login::limit::{FREE_OF_ACCOUNT, FREE_OF_PAIR};
use longshore_domain::account::session::FRESH;
use longshore_http::app::{App, Surroundings};
use longshore_http::limits::Limits;
use longshore_kernel::clock::Clock;
use longshore_kernel::crypto::Vault;
use longshore_operate::rotation;
use longshore_serve::Peer;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use totp_rs::{Builder, Secret, Totp};

use super::{MIGRATIONS, PASSWORD, World, email};
use crate::support::Reply;

const PATH: &str = "/api/account/totp";
const LIST: &str = "/api/product/list";

/// A world whose clock the test moves in whole seconds.
struct Moved {
    world: World,
    ahead: Arc<AtomicI64>,
}

impl Moved {
    async fn new(options: &PgConnectOptions, requires_second_factor: bool) -> Self {
        let mut world = World::new(options).await;
        let ahead = Arc::new(AtomicI64::new(0));
        let mut services = services::for_test(options).unwrap();
        let (clock, by) = (services.clock.clone(), Arc::clone(&ahead));
        services.clock =
            Clock::from_fn(move || clock.now() + chrono::TimeDelta::seconds(by.load(Ordering::Relaxed)));
        let surroundings = Surroundings { requires_second_factor, ..Surroundings::default() };
        world.api.services = services.clone();
        world.api.serve(App::among(surroundings, services, Limits::default()));
        Self { world, ahead }
    }

    /// Moves the clock by half a minute, to the next time step.
    fn pass(&self) {
        self.ahead.fetch_add(30, Ordering::Relaxed);
    }

    fn code(&self, totp: &Totp) -> String {
        let now = self.world.api.services.clock.now().timestamp();
        totp.generate(u64::try_from(now).unwrap()).to_string()
    }

    /// Logs in with password and code.
    async fn login_with(&self, name: &str, password: &str, code: Value) -> Reply {
        let body = json!({"login": email(name), "password": password, "code": code});
        let request = Request::post("/api/login/admin").body(Body::from(body.to_string()));
        self.world.api.send(request.unwrap()).await
    }

    /// The same from an address, with the right password.
    async fn login_from(&self, address: &str, name: &str, code: Value) -> Reply {
        let body = json!({"login": email(name), "password": PASSWORD, "code": code});
        let mut request = Request::post("/api/login/admin").body(Body::from(body.to_string())).unwrap();
        request.extensions_mut().insert(Peer(address.parse().unwrap()));
        self.world.api.send(request).await
    }

    async fn call(&self, token: &str, method: Method, body: Value) -> Reply {
        self.world.api.call_with(token, method, PATH, body, &[]).await
    }

    /// Sets up a second factor and switches it on; returns it with its recovery codes.
    async fn switch_on(&self, token: &str) -> (Totp, Vec<String>) {
        let shown = self.call(token, Method::POST, Value::Null).await.expect(200).json();
        let totp = totp(&shown);
        let body = json!({"code": self.code(&totp)});
        let codes = self.call(token, Method::PUT, body).await.expect(200).json();
        (totp, serde_json::from_value(codes["recoveryCodes"].clone()).unwrap())
    }
}

fn totp(shown: &Value) -> Totp {
    let secret = Secret::try_from_base32(shown["secret"].as_str().unwrap()).unwrap();
    Builder::new().with_secret(secret).build().unwrap()
}

fn token(reply: &Reply) -> String {
    reply.json()["token"].as_str().unwrap().to_owned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_made_long_after_the_login_takes_the_password_or_a_code(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let moved = Moved::new(&options, false).await;
    let api = &moved.world.api;
    moved.world.add_admin("ann", json!({"password": PASSWORD, "role": "superadmin"})).await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    let make = async |caller: &str, given: Value| {
        let mut body = json!({"name": "program", "role": "viewer"});
        body.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        api.post(caller, "/api/access-token", body).await
    };
    // moments after the login, nothing more is asked; what is given must be right
    make(&login, json!({})).await.expect(201);
    assert_eq!(make(&login, json!({"code": "000000"})).await.expect(400).violations(), ["code wrong_code"]);
    let (totp, recovery) = moved.switch_on(&login).await;

    moved.ahead.fetch_add(FRESH.num_seconds() + 60, Ordering::Relaxed);
    let before = moved.world.count("SELECT count(*) FROM access_token WHERE name = 'program'").await;
    for (given, violation) in [
        (json!({}), "password required"),
        (json!({"password": null, "code": null}), "password required"),
        (json!({"password": "wrong horse"}), "password wrong_password"),
        (json!({"password": PASSWORD, "code": "000000"}), "code wrong_code"),
    ] {
        assert_eq!(make(&login, given.clone()).await.expect(400).violations(), [violation], "{given}");
    }
    // a refresh makes the login no newer
    let refreshed = token(&api.post(&login, "/api/refresh-token", Value::Null).await.expect(200));
    assert_eq!(make(&refreshed, json!({})).await.expect(400).violations(), ["password required"]);
    assert_eq!(moved.world.count("SELECT count(*) FROM access_token WHERE name = 'program'").await, before);
    make(&login, json!({"password": PASSWORD})).await.expect(201);
    let code = json!({"code": moved.code(&totp)});
    make(&login, code.clone()).await.expect(201);
    assert_eq!(make(&login, code).await.expect(400).violations(), ["code wrong_code"], "it is used up");
    make(&login, json!({"code": recovery[0]})).await.expect(201);
    // a program proves nothing, and makes tokens as before
    make(&api.superadmin, json!({})).await.expect(201);
    make(&api.superadmin, json!({"password": PASSWORD})).await.expect(403);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_requires_a_code_when_the_second_factor_is_on(_: PgPoolOptions, options: PgConnectOptions) {
    let moved = Moved::new(&options, false).await;
    let ann = moved.world.add_admin("ann", json!({"password": PASSWORD, "role": "superadmin"})).await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    let shown = moved.call(&login, Method::POST, Value::Null).await.expect(200).json();
    let members: Vec<_> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["secret", "uri"]);
    let secret = shown["secret"].as_str().unwrap();
    let uri = shown["uri"].as_str().unwrap();
    assert!(uri.starts_with("otpauth://totp/Longshore:ann%40example.com?") && uri.contains(secret), "{uri}");
    // it is not in effect yet
    moved.login_with("ann", PASSWORD, Value::Null).await.expect(200);
    let refused = moved.call(&login, Method::PUT, json!({"code": "000000x"})).await.expect(400);
    assert_eq!(refused.violations(), ["code wrong_code"]);
    let totp = totp(&shown);
    let body = json!({"code": moved.code(&totp)});
    let codes = moved.call(&login, Method::PUT, body.clone()).await.expect(200).json();
    assert_eq!(codes["recoveryCodes"].as_array().unwrap().len(), 10);
    // switching it on twice is refused
    moved.call(&login, Method::PUT, body).await.expect(409);
    moved.call(&login, Method::POST, Value::Null).await.expect(409);

    let refused = moved.login_with("ann", PASSWORD, Value::Null).await.expect(401);
    assert_eq!(refused.json()["code"], "code_required");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    // the code that switched it on is used up
    let code = moved.code(&totp);
    assert_eq!(
        moved.login_with("ann", PASSWORD, json!(code)).await.expect(401).json()["code"],
        "code_required"
    );
    moved.pass();
    let code = moved.code(&totp);
    let wrong = moved.login_with("ann", "wrong horse", json!(code)).await.expect(401);
    assert_eq!(wrong.json()["code"], "unauthenticated", "without the password, the answer says nothing else");
    let spaced = format!("{} {}", &code[..3], &code[3..]);
    let opened = token(&moved.login_with("ann", PASSWORD, json!(spaced)).await.expect(200));
    moved.world.api.post(&opened, LIST, Value::Null).await.expect(200);
    moved.login_with("ann", PASSWORD, json!(code)).await.expect(401);
    let actions: Vec<_> = moved.world.audit(&ann).await.into_iter().map(|(action, _)| action).collect();
    assert_eq!(actions, ["admin.create", "admin.totp_set_up", "admin.totp_on"]);
    // encrypted, and nowhere in plain text
    let leaks = "SELECT count(*) FROM second_factor WHERE position($1::bytea IN secret) > 0";
    let bytes = totp.secret().as_bytes().to_vec();
    let leaks: i64 = sqlx::query_scalar(leaks).bind(bytes).fetch_one(&moved.world.owner).await.unwrap();
    assert_eq!(leaks, 0);
    let recorded = "SELECT count(*) FROM audit WHERE changes::text LIKE '%' || $1 || '%'";
    let recorded: i64 =
        sqlx::query_scalar(recorded).bind(secret).fetch_one(&moved.world.owner).await.unwrap();
    assert_eq!(recorded, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_code_is_accepted_for_only_one_of_several_concurrent_logins(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let moved = Moved::new(&options, false).await;
    moved.world.add_admin("ann", json!({"password": PASSWORD})).await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    let (totp, recovery) = moved.switch_on(&login).await;
    moved.pass();
    for code in [moved.code(&totp), recovery[0].clone()] {
        let all = (0..4).map(|_| moved.login_with("ann", PASSWORD, json!(code)));
        let mut statuses: Vec<_> =
            futures::future::join_all(all).await.iter().map(|r| r.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 401, 401, 401]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_recovery_code_is_accepted_once(_: PgPoolOptions, options: PgConnectOptions) {
    let moved = Moved::new(&options, false).await;
    let ann = moved.world.add_admin("ann", json!({"password": PASSWORD})).await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    let (_, codes) = moved.switch_on(&login).await;
    let typed = [codes[0].clone(), codes[1].to_uppercase(), codes[2].replace('-', "")];
    for code in &typed {
        moved.login_with("ann", PASSWORD, json!(code)).await.expect(200);
        moved.login_with("ann", PASSWORD, json!(code)).await.expect(401);
    }
    let used: Vec<_> = moved
        .world
        .audit(&ann)
        .await
        .into_iter()
        .filter(|(action, _)| action == "admin.totp_recovery")
        .collect();
    assert_eq!(used[0].1, json!({"recoveryCodes": [10, 9]}));
    assert_eq!(used.len(), 3);
    // a recovery code can remove it, too
    moved.call(&login, Method::DELETE, json!({"code": codes[0]})).await.expect(400);
    moved.call(&login, Method::DELETE, json!({"code": codes[3]})).await.expect(204);
    moved.call(&login, Method::DELETE, json!({"code": codes[4]})).await.expect(404);
    moved.login_with("ann", PASSWORD, Value::Null).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn wrong_codes_count_like_wrong_passwords_and_a_missing_one_does_not(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let moved = Moved::new(&options, false).await;
    moved.world.add_admin("ann", json!({"password": PASSWORD})).await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    moved.switch_on(&login).await;
    for _ in 0..30 {
        moved.login_with("ann", PASSWORD, Value::Null).await.expect(401);
    }
    let mut statuses = Vec::new();
    for _ in 0..40 {
        statuses.push(moved.login_with("ann", PASSWORD, json!("12345")).await.status.as_u16());
        if statuses.last() == Some(&429) {
            break;
        }
    }
    assert_eq!((statuses.first(), statuses.last()), (Some(&401), Some(&429)), "{statuses:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_password_alone_gives_no_guesses_of_the_code_beyond_those_of_the_account(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let moved = Moved::new(&options, false).await;
    moved.world.add_admin("ann", json!({"password": PASSWORD})).await;
    let (home, away) = ("198.51.100.7", |number: u32| format!("192.0.2.{number}"));
    let login = token(&moved.login_from(home, "ann", Value::Null).await.expect(200));
    let (totp, _) = moved.switch_on(&login).await;
    let mut guesses = 0;
    for number in 0..4 * FREE_OF_ACCOUNT {
        // neither makes its address known nor is counted
        let missing = moved.login_from(&away(number), "ann", Value::Null).await;
        assert!(missing.status == 401 || missing.status == 429, "{}", missing.text);
        let guess = moved.login_from(&away(number), "ann", json!("12345")).await;
        assert!(guess.status == 401 || guess.status == 429, "{}", guess.text);
        guesses += u32::from(guess.status == 401);
    }
    // some may have waited long enough meanwhile
    assert!((FREE_OF_ACCOUNT..2 * FREE_OF_ACCOUNT).contains(&guesses), "{guesses}");
    // nor does it push out the addresses of the owner, who has not to wait
    moved.pass();
    moved.login_from(home, "ann", json!(moved.code(&totp))).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_known_addresses_of_an_account_share_their_guesses_of_the_code(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let moved = Moved::new(&options, false).await;
    moved.world.add_admin("ann", json!({"password": PASSWORD})).await;
    let homes: Vec<String> = (0..4).map(|number| format!("198.51.100.{number}")).collect();
    let mut login = String::new();
    for home in &homes {
        login = token(&moved.login_from(home, "ann", Value::Null).await.expect(200));
    }
    let (totp, _) = moved.switch_on(&login).await;
    // right ones do not count
    for home in &homes {
        moved.pass();
        moved.login_from(home, "ann", json!(moved.code(&totp))).await.expect(200);
    }
    let mut guesses = 0;
    for home in &homes {
        for _ in 0..FREE_OF_PAIR {
            let guess = moved.login_from(home, "ann", json!("12345")).await;
            assert!(guess.status == 401 || guess.status == 429, "{}", guess.text);
            guesses += u32::from(guess.status == 401);
        }
    }
    assert!((FREE_OF_ACCOUNT..4 * FREE_OF_PAIR).contains(&guesses), "{guesses}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_session_alone_sets_up_a_second_factor_only_shortly_after_its_login(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let moved = Moved::new(&options, false).await;
    let world = &moved.world;
    let ann = world.add_admin("ann", json!({"password": PASSWORD})).await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    moved.call(&login, Method::POST, Value::Null).await.expect(200);
    let (right, wrong) = (json!({"password": PASSWORD}), json!({"password": "wrong horse"}));
    // a password that is given is the right one
    let refused = moved.call(&login, Method::POST, wrong.clone()).await.expect(400);
    assert_eq!(refused.violations(), ["password wrong_password"]);
    moved.ahead.fetch_add(FRESH.num_seconds() + 60, Ordering::Relaxed);
    for body in [Value::Null, json!({}), json!({"password": null})] {
        let refused = moved.call(&login, Method::POST, body).await.expect(400);
        assert_eq!(refused.violations(), ["password required"]);
    }
    // a refresh is no login
    let reply = world.api.post(&login, "/api/refresh-token", Value::Null).await.expect(200);
    let login = token(&reply);
    let refused = moved.call(&login, Method::POST, Value::Null).await.expect(400);
    assert_eq!(refused.violations(), ["password required"]);
    let set_up = async || {
        let audit = world.audit(&ann).await;
        audit.iter().filter(|(action, _)| action == "admin.totp_set_up").count()
    };
    assert_eq!(set_up().await, 1);
    moved.call(&login, Method::POST, right).await.expect(200);
    assert_eq!(set_up().await, 2);
    // to guess it is limited as logins are
    let mut statuses = Vec::new();
    for _ in 0..40 {
        statuses.push(moved.call(&login, Method::POST, wrong.clone()).await.status.as_u16());
        if statuses.last() == Some(&429) {
            break;
        }
    }
    assert_eq!((statuses.first(), statuses.last()), (Some(&400), Some(&429)), "{statuses:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_a_superadmin_removes_the_second_factor_of_another_account(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let moved = Moved::new(&options, false).await;
    let world = &moved.world;
    let organisations = json!([world.api.tenant.organisation]);
    let ann = world.add_admin("ann", json!({"password": PASSWORD, "organisations": organisations})).await;
    world.add_admin("vic", json!({"password": PASSWORD, "role": "viewer"})).await;
    world.add_user("uma").await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    moved.switch_on(&login).await;
    let path = format!("/api/admin/{ann}/totp");
    for stranger in [&world.admin, &login, &world.api.viewer, &world.api.user, &world.api.connector] {
        world.api.delete(stranger, &path).await.expect(403);
    }
    world.api.delete("", &path).await.expect(401);
    world.api.delete(&world.api.superadmin, &path).await.expect(204);
    world.api.delete(&world.api.superadmin, &path).await.expect(404);
    assert_eq!(world.audit(&ann).await.pop().unwrap().0, "admin.totp_off");
    moved.login_with("ann", PASSWORD, Value::Null).await.expect(200);
    // second factors are for admins and superadmins with a login
    let vic = token(&moved.login_with("vic", PASSWORD, Value::Null).await.expect(200));
    let uma = token(&world.try_login("user", &email("uma"), PASSWORD).await.expect(200));
    let other = &world.api.superadmin;
    for stranger in
        [&vic, &uma, &world.api.viewer, &world.api.user, &world.api.connector, &world.admin, other]
    {
        moved.call(stranger, Method::POST, Value::Null).await.expect(403);
        moved.call(stranger, Method::PUT, json!({"code": "123456"})).await.expect(403);
        moved.call(stranger, Method::DELETE, json!({"code": "123456"})).await.expect(403);
    }
    moved.call("", Method::POST, Value::Null).await.expect(401);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_without_a_required_second_factor_may_only_set_it_up(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let moved = Moved::new(&options, true).await;
    let world = &moved.world;
    world.add_admin("ann", json!({"password": PASSWORD, "role": "superadmin"})).await;
    world.add_admin("vic", json!({"password": PASSWORD, "role": "viewer"})).await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    for refused in [
        world.api.post(&login, LIST, Value::Null).await,
        world.api.post(&login, "/api/access-token", json!({"name": "x", "role": "superadmin"})).await,
        world.api.post(&login, "/api/admin", json!({})).await,
    ] {
        let refused = refused.expect(403).json();
        assert!(refused["detail"].as_str().unwrap().contains("/api/account/totp"), "{refused}");
    }
    // a refresh gives no further permissions
    let reply = world.api.post(&login, "/api/refresh-token", Value::Null).await.expect(200);
    world.api.post(&token(&reply), LIST, Value::Null).await.expect(403);
    let (totp, _) = moved.switch_on(&login).await;
    world.api.post(&login, LIST, Value::Null).await.expect(200);
    moved.pass();
    let opened = token(&moved.login_with("ann", PASSWORD, json!(moved.code(&totp))).await.expect(200));
    world.api.post(&opened, LIST, Value::Null).await.expect(200);
    // programs, viewers and business users are not affected
    world.api.post(&world.api.superadmin, LIST, Value::Null).await.expect(200);
    let vic = token(&moved.login_with("vic", PASSWORD, Value::Null).await.expect(200));
    world.api.post(&vic, LIST, Value::Null).await.expect(200);
    // the holder may see and end own sessions, and log out
    world.add_admin("bea", json!({"password": PASSWORD})).await;
    let bea = token(&moved.login_with("bea", PASSWORD, Value::Null).await.expect(200));
    world.api.post(&bea, "/api/session/list", Value::Null).await.expect(200);
    world.api.post(&bea, "/api/logout", Value::Null).await.expect(204);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_secret_is_rotated_with_the_key_and_recovery_codes_need_no_key(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut moved = Moved::new(&options, false).await;
    moved.world.add_admin("ann", json!({"password": PASSWORD})).await;
    let login = token(&moved.login_with("ann", PASSWORD, Value::Null).await.expect(200));
    let (totp, codes) = moved.switch_on(&login).await;
    let (old, new) =
        (format!("test:{}", STANDARD.encode([7; 32])), format!("new:{}", STANDARD.encode([8; 32])));
    let db = moved.world.api.services.db.clone();
    let both = Vault::new(&format!("{new},{old}").into()).unwrap();
    assert_eq!(rotation::examine(&db, &both).await.unwrap().older, 1);
    assert_eq!(rotation::rotate(&db, &both).await.unwrap().resealed, 1);
    assert_eq!(rotation::rotate(&db, &both).await.unwrap().resealed, 0);
    // the process has only the old key: the authenticator does not work, but a recovery code does
    moved.pass();
    moved.login_with("ann", PASSWORD, json!(moved.code(&totp))).await.expect(401);
    moved.login_with("ann", PASSWORD, json!(codes[0])).await.expect(200);
    let mut services = moved.world.api.services.clone();
    services.vault = Vault::new(&new.into()).unwrap();
    moved.world.api.serve(App::new(services));
    moved.login_with("ann", PASSWORD, json!(moved.code(&totp))).await.expect(200);
}
