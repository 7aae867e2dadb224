//! Login and logout.

use axum::body::Body;
use http::Request;
use longshore_domain::account::admin::{self, NewAdmin};
use longshore_kernel::access::Role;
use longshore_kernel::context::Origin;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use url::form_urlencoded;

use super::theme::form_token;
use super::{Browser, MIGRATIONS, repair, world};
use crate::support::{Api, Reply};

const EMAIL: &str = "ann@ops.example";
const PASSWORD: &str = "correct horse battery";

async fn add_admin(api: &Api, role: Role) {
    let new = NewAdmin {
        email: EMAIL.to_owned(),
        first_name: "Ann".to_owned(),
        last_name: "Ops".to_owned(),
        role,
        password: PASSWORD.to_owned().into(),
        organisations: Vec::new(),
    };
    admin::create_first(&api.services.db, &Origin::command_line(), new).await.unwrap();
}

async fn log_in(api: &Api, origin: &str, password: &str, next: &str) -> Reply {
    let fields = [("login", EMAIL), ("password", password), ("next", next)];
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = Request::builder()
        .method("POST")
        .uri("/console/login")
        .header("host", "ops.example")
        .header("origin", origin)
        .header("content-type", "application/x-www-form-urlencoded");
    api.send(request.body(Body::from(body)).unwrap()).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_sets_a_cookie_that_scripts_and_other_sites_cannot_use(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    add_admin(&world.api, Role::Viewer).await;
    for (origin, secure) in [("http://ops.example", false), ("https://ops.example", true)] {
        let reply = log_in(&world.api, origin, PASSWORD, "/console/job?state=failed").await.expect(303);
        assert_eq!(reply.header("location"), Some("/console/job?state=failed"));
        let cookie = reply.header("set-cookie").unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        // over https, with a name that other hosts of the domain cannot set
        let (name, path) = if secure {
            ("__Host-longshore_console=", "Path=/;")
        } else {
            ("longshore_console=", "Path=/console;")
        };
        let token = pair.strip_prefix(name).unwrap();
        assert!(token.starts_with("lsh_"));
        for attribute in [path, "HttpOnly", "SameSite=Strict", "Max-Age="] {
            assert!(attributes.contains(attribute), "{cookie}");
        }
        assert_eq!(attributes.contains("Secure"), secure, "{cookie}");
        let page = Browser::new(&world.api, token).open("/console").await.expect(200);
        assert!(page.text.contains("Ann Ops") && page.text.contains("viewer"), "{}", page.text);
    }
    // no redirect to other sites
    let reply =
        log_in(&world.api, "http://ops.example", PASSWORD, "//evil.example/console").await.expect(303);
    assert_eq!(reply.header("location"), Some("/console"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wrong_login_is_shown_on_the_page_and_one_from_another_site_is_refused(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    add_admin(&world.api, Role::Superadmin).await;
    for password in ["wrong", ""] {
        let reply = log_in(&world.api, "http://ops.example", password, "").await;
        assert!(matches!(reply.status.as_u16(), 400 | 401), "{}", reply.text);
        assert!(reply.text.contains("Wrong e-mail address or password."), "{}", reply.text);
        assert!(!reply.text.contains("value=\"wrong\"") && reply.header("set-cookie").is_none());
    }
    let reply = log_in(&world.api, "https://evil.example", PASSWORD, "").await.expect(403);
    assert!(reply.header("set-cookie").is_none());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn logging_out_revokes_the_token_and_removes_the_cookie(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    add_admin(&world.api, Role::Superadmin).await;
    let reply = log_in(&world.api, "http://ops.example", PASSWORD, "").await.expect(303);
    let cookie = reply.header("set-cookie").unwrap();
    let token = cookie.split(['=', ';']).nth(1).unwrap();
    let browser = Browser::new(&world.api, token);
    let page = browser.overview().await;
    let form_token = form_token(&page);
    browser.send_bare("/console/logout", &[("form_token", "wrong")]).await.expect(403);
    let reply =
        browser.send_bare("/console/logout", &[("form_token", form_token.as_str())]).await.expect(303);
    assert!(reply.header("set-cookie").unwrap().contains("Max-Age=0"));
    let revoked = "SELECT count(*) FROM access_token WHERE revoked_at IS NOT NULL";
    assert_eq!(world.count(revoked).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_login_page_asks_for_the_code_of_a_second_factor_and_opens_a_session(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    add_admin(api, Role::Superadmin).await;
    let body = serde_json::json!({"login": EMAIL, "password": PASSWORD});
    let opened = api.post("", "/api/login/admin", body).await.expect(200).json();
    let token = opened["token"].as_str().unwrap();
    let path = "/api/account/totp";
    let shown = api.post(token, path, serde_json::Value::Null).await.expect(200).json();
    let secret = totp_rs::Secret::try_from_base32(shown["secret"].as_str().unwrap()).unwrap();
    let totp = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    let now = u64::try_from(api.services.clock.now().timestamp()).unwrap();
    let code = serde_json::json!({"code": totp.generate(now).to_string()});
    let codes = api.put(token, path, code).await.expect(200).json();
    let page = api.get("", "/console/login").await.expect(200);
    assert!(page.text.contains("name=\"code\""), "{}", page.text);
    let asked = log_in(api, "http://ops.example", PASSWORD, "").await.expect(401);
    assert!(
        asked.text.contains("has a second factor") && asked.header("set-cookie").is_none(),
        "{}",
        asked.text
    );
    let recovery = codes["recoveryCodes"][0].as_str().unwrap();
    let fields = [("login", EMAIL), ("password", PASSWORD), ("code", recovery)];
    let reply = Browser::new(api, "none").send_bare("/console/login", &fields).await.expect(303);
    let cookie = reply.header("set-cookie").unwrap().split(['=', ';']).nth(1).unwrap().to_owned();
    let browser = Browser::new(api, &cookie);
    browser.open("/console").await.expect(200);
    // it is in the list of sessions, and ends there
    let sort = serde_json::json!({"sort": [{"field": "createdAt", "order": "DESC"}], "limit": 9});
    let sessions = api.post(token, "/api/session/list", sort).await.expect(200).json();
    assert_eq!(sessions["paging"]["total"], 2);
    let id = sessions["results"][0]["id"].as_str().unwrap();
    api.delete(token, &format!("/api/session/{id}")).await.expect(204);
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while browser.open("/console").await.status != 303 {
        assert!(std::time::Instant::now() < deadline, "the console stays open");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// The token of a login as an admin.
async fn session(api: &Api, password: &str) -> String {
    let reply = log_in(api, "http://ops.example", password, "/console").await.expect(303);
    let cookie = reply.header("set-cookie").unwrap();
    cookie.strip_prefix("longshore_console=").unwrap().split(';').next().unwrap().to_owned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_account_changes_its_password_sets_up_a_second_factor_and_ends_a_session(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    add_admin(api, Role::Superadmin).await;
    let first = session(api, PASSWORD).await;
    session(api, PASSWORD).await;
    let browser = Browser::new(api, &first);
    let page = browser.open("/console/account").await.expect(200).text;
    assert!(page.contains("this one") && page.contains("Set up a second factor"), "{page}");
    let token = form_token(&page);
    let send = async |path: &str, fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields.iter().copied().chain([("form_token", token.as_str())]).collect();
        browser.send_bare(&format!("/console/account/{path}"), &fields).await
    };
    // the other session ends, and its pages with it
    let end = page.split("/console/account/session/").nth(1).unwrap().split('"').next().unwrap();
    browser.act(&format!("/console/account/session/{end}"), &[]).await.expect(303);
    assert_eq!(world.count("SELECT count(*) FROM session WHERE ended_at IS NOT NULL").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'session.end'").await, 1);

    let refused = send("password", &[("password", "wrong"), ("newPassword", "x")]).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-newPassword\""), "{refused}");
    let fresh = "another horse battery";
    let refused = send("password", &[("password", "wrong"), ("newPassword", fresh)]).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-password\"") && !refused.contains(fresh), "{refused}");
    send("password", &[("password", PASSWORD), ("newPassword", fresh)]).await.expect(303);
    log_in(api, "http://ops.example", PASSWORD, "/console").await.expect(401);

    let shown = send("totp", &[]).await.expect(200).text;
    assert!(shown.contains("otpauth://totp/"), "{shown}");
    let refused = send("totp/on", &[("code", "000000")]).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-code\""), "{refused}");
    // without the token of the session, nothing is done
    browser.send_bare("/console/account/totp", &[]).await.expect(403);
    // a program has no account
    let program = Browser::new(api, &api.superadmin);
    let page = program.open("/console/account").await.expect(200).text;
    assert!(page.contains("This is an access token") && !page.contains("newPassword"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_second_factor_is_set_up_with_the_password_long_after_the_login(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    add_admin(api, Role::Superadmin).await;
    let browser = Browser::new(api, &session(api, PASSWORD).await);
    let path = "/console/account/totp";
    let asked = browser.open(path).await.expect(200).text;
    assert!(!asked.contains("name=\"password\""), "{asked}");
    let shown = browser.act(path, &[]).await.expect(200).text;
    assert!(shown.contains("otpauth://totp/"), "{shown}");
    world.execute("UPDATE session SET created_at = now() - interval '16 minutes'").await;
    let asked = browser.open(path).await.expect(200).text;
    assert!(asked.contains("name=\"password\""), "{asked}");
    for fields in [&[][..], &[("password", "wrong horse battery")]] {
        let refused = browser.act(path, fields).await.expect(400).text;
        assert!(refused.contains("id=\"wrong-password\"") && !refused.contains("otpauth:"), "{refused}");
        assert!(!refused.contains("wrong horse"), "{refused}");
    }
    let shown = browser.act(path, &[("password", PASSWORD)]).await.expect(200).text;
    assert!(shown.contains("otpauth://totp/"), "{shown}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_is_made_with_the_password_long_after_the_login_and_a_change_of_it_names_and_ends_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    add_admin(api, Role::Superadmin).await;
    let browser = Browser::new(api, &session(api, PASSWORD).await);
    let path = "/console/token/new";
    let asked = browser.open(path).await.expect(200).text;
    assert!(!asked.contains("name=\"password\""), "{asked}");
    world.execute("UPDATE session SET created_at = now() - interval '16 minutes'").await;
    let asked = browser.open(path).await.expect(200).text;
    assert!(asked.contains("name=\"password\"") && asked.contains("name=\"code\""), "{asked}");
    let fields = [("name", "printer"), ("role", "viewer")];
    for wrong in [&[][..], &[("password", "wrong horse battery")]] {
        let fields: Vec<_> = fields.iter().chain(wrong).copied().collect();
        let refused = repair::send(&browser, path, &fields).await.expect(400).text;
        assert!(refused.contains("id=\"wrong-password\"") && refused.contains("printer"), "{refused}");
        assert!(!refused.contains("wrong horse"), "{refused}");
    }
    let fields: Vec<_> = fields.into_iter().chain([("password", PASSWORD)]).collect();
    let shown = repair::send(&browser, path, &fields).await.expect(200).text;
    assert!(shown.contains("lsh_"), "{shown}");

    let page = browser.open("/console/account").await.expect(200).text;
    assert!(page.contains("name=\"tokens\""), "{page}");
    let change = async |old: &str, new: &str, tokens: &[(&str, &str)]| {
        let token = form_token(&browser.open("/console/account").await.expect(200).text);
        let fields = [("password", old), ("newPassword", new), ("form_token", token.as_str())];
        let fields: Vec<_> = fields.iter().chain(tokens).copied().collect();
        browser.send_bare("/console/account/password", &fields).await
    };
    let changed = change(PASSWORD, "another horse battery", &[]).await.expect(200).text;
    assert!(changed.contains("1 access token") && changed.contains("printer"), "{changed}");
    change("another horse battery", PASSWORD, &[("tokens", "true")]).await.expect(303);
    // it is revoked, and stays listed
    let revoked = "SELECT count(*) FROM access_token WHERE name = 'printer' AND revoked_at IS NOT NULL";
    assert_eq!(world.count(revoked).await, 1);
    let valid = "SELECT count(*) FROM access_token WHERE name = 'printer' AND revoked_at IS NULL";
    assert_eq!(world.count(valid).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn over_https_only_the_cookie_that_is_bound_to_the_host_counts(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    add_admin(api, Role::Superadmin).await;
    let token = session(api, PASSWORD).await;
    let (plain, bound) = (format!("longshore_console={token}"), format!("__Host-longshore_console={token}"));
    let open = async |cookie: &str, over: Option<&str>| {
        let mut request =
            Request::builder().uri("/console").header("host", "ops.example").header("cookie", cookie);
        if let Some(over) = over {
            request = request.header("x-forwarded-proto", over);
        }
        api.send(request.body(Body::empty()).unwrap()).await.status.as_u16()
    };
    for over in [None, Some("http")] {
        assert_eq!(open(&plain, over).await, 200, "{over:?}");
    }
    assert_eq!(open(&plain, Some("https")).await, 303, "another host of the domain may have set it");
    for over in [None, Some("https")] {
        assert_eq!(open(&bound, over).await, 200, "{over:?}");
    }
    // a form names its origin, also behind a proxy that says nothing
    let page = Browser::new(api, &token).overview().await;
    let form_token = form_token(&page);
    let log_out = async |cookie: &str| {
        let request = Request::post("/console/logout")
            .header("host", "ops.example")
            .header("origin", "https://ops.example")
            .header("cookie", cookie)
            .header("content-type", "application/x-www-form-urlencoded");
        let body = Body::from(format!("form_token={form_token}"));
        api.send(request.body(body).unwrap()).await.expect(303)
    };
    let ended = "SELECT count(*) FROM session WHERE ended_at IS NOT NULL";
    assert!(log_out(&plain).await.header("location").unwrap().starts_with("/console/login"));
    assert_eq!(world.count(ended).await, 0);
    // neither cookie is left
    let reply = log_out(&bound).await;
    assert_eq!(world.count(ended).await, 1);
    let removed: Vec<&str> =
        reply.headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap()).collect();
    let begins =
        |cookie: &&str, name: &str| cookie.starts_with(&format!("{name}=;")) && cookie.contains("Max-Age=0;");
    assert!(removed.iter().any(|cookie| begins(cookie, "__Host-longshore_console")), "{removed:?}");
    assert!(removed.iter().any(|cookie| begins(cookie, "longshore_console")), "{removed:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_ends_the_session_that_it_takes_the_place_of(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    add_admin(api, Role::Superadmin).await;
    let (first, other) = (session(api, PASSWORD).await, session(api, PASSWORD).await);
    let fields = |password: &'static str| [("login", EMAIL), ("password", password)];
    let ended = "SELECT count(*) FROM session WHERE ended_at IS NOT NULL";
    // not one that fails
    Browser::new(api, &first).send_bare("/console/login", &fields("wrong")).await.expect(401);
    assert_eq!(world.count(ended).await, 0);
    let reply = Browser::new(api, &first).send_bare("/console/login", &fields(PASSWORD)).await.expect(303);
    assert_eq!(world.count(ended).await, 1);
    let refresh = async |token: &str| api.post(token, "/api/refresh-token", serde_json::Value::Null).await;
    refresh(&first).await.expect(401);
    let second = reply.header("set-cookie").unwrap().split(['=', ';']).nth(1).unwrap();
    for kept in [second, other.as_str()] {
        refresh(kept).await.expect(200);
    }
    // the token of a program is no session: it stays valid
    Browser::new(api, &api.superadmin).send_bare("/console/login", &fields(PASSWORD)).await.expect(303);
    assert_eq!(world.count(ended).await, 1);
    api.post(&api.superadmin, "/api/product/list", serde_json::Value::Null).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_form_that_is_sent_after_the_session_ended_leads_back_to_its_page(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    add_admin(api, Role::Superadmin).await;
    let nobody = Browser::new(api, "lsh_nobody");
    let expired = async |path: &str, referer: Option<&str>| {
        let mut request = nobody
            .request("POST", path)
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded");
        if let Some(referer) = referer {
            request = request.header("referer", referer);
        }
        let reply = api.send(request.body(Body::from("form_token=0&reason=x")).unwrap()).await.expect(303);
        reply.header("location").unwrap().to_owned()
    };
    let login = |next: &str| {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
        format!("/console/login?{query}&lost=true")
    };
    let pause = "/console/queue/lane/pause";
    for (path, referer, next) in [
        (pause, None, pause),
        (pause, Some("https://ops.example/console/queue?refresh=5"), "/console/queue?refresh=5"),
        (pause, Some("https://evil.example/console/queue"), pause),
        (pause, Some("https://ops.example/api/queue"), pause),
        (pause, Some("https://ops.example//evil.example/console"), pause),
        ("/console/account/password", None, "/console/account"),
    ] {
        assert_eq!(expired(path, referer).await, login(next), "{referer:?}");
    }
    // nothing was to be changed but the session
    assert_eq!(expired("/console/logout", None).await, "/console/login");

    let page = nobody.open(&login(pause)).await.expect(200).text;
    for said in [
        "and the change was not made",
        "name=\"lost\" value=\"true\"",
        &format!("name=\"next\" value=\"{pause}\""),
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let fields = |password: &'static str, next: &'static str| {
        [("login", EMAIL), ("password", password), ("next", next), ("lost", "true")]
    };
    // a wrong password forgets neither
    let wrong = nobody.send_bare("/console/login", &fields("wrong", pause)).await.expect(401).text;
    assert!(wrong.contains("the change was not made") && wrong.contains(pause), "{wrong}");
    for (next, location) in [
        (pause, "/console/queue/lane/pause?done=not-done"),
        ("/console/queue?refresh=5&done=paused", "/console/queue?refresh=5&done=not-done"),
        ("//evil.example/console", "/console?done=not-done"),
    ] {
        let reply = nobody.send_bare("/console/login", &fields(PASSWORD, next)).await.expect(303);
        assert_eq!(reply.header("location"), Some(location));
        let cookie = reply.header("set-cookie").unwrap();
        let token = cookie.strip_prefix("longshore_console=").unwrap().split(';').next().unwrap();
        let page = Browser::new(api, token).open(location).await.expect(200).text;
        assert!(page.contains("Your session had ended, so nothing was changed."), "{page}");
    }
    assert_eq!(world.count("SELECT count(*) FROM queue WHERE paused").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_login_that_fails_keeps_the_address(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    add_admin(&world.api, Role::Superadmin).await;
    let fails = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''53100''; END';
         CREATE TRIGGER fail BEFORE INSERT ON access_token EXECUTE FUNCTION fail();";
    sqlx::raw_sql(fails).execute(&world.owner).await.unwrap();
    let reply = log_in(&world.api, "http://ops.example", PASSWORD, "/console/job").await.expect(503);
    assert!(reply.header("retry-after").is_some());
    for said in
        [format!("value=\"{EMAIL}\"").as_str(), "value=\"/console/job\"", "The database is not available"]
    {
        assert!(reply.text.contains(said), "{said}: {}", reply.text);
    }
}
