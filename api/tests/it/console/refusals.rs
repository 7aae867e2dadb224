//! Forms that are refused: they come back with what was typed, for whatever reason.

use longshore_http::app::App;
use longshore_kernel::access::Role;
use longshore_kernel::database::Database;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::repair::{fields_of, open, send, send_opened};
use super::{Browser, MIGRATIONS, hidden, webhook, world};
use crate::attention::{FAILS, execute};
use crate::product::World;

/// Lets Postgres refuse every change that is audited, as it does when its disk is full.
async fn fill_disk(world: &World) {
    sqlx::raw_sql(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''53100''; END';
         CREATE TRIGGER fail BEFORE INSERT ON audit EXECUTE FUNCTION fail();",
    )
    .execute(&world.owner)
    .await
    .unwrap();
}

async fn free_disk(world: &World) {
    sqlx::raw_sql("DROP TRIGGER fail ON audit").execute(&world.owner).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_form_keeps_what_was_typed_when_nothing_is_wrong_with_its_fields(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let body = json!({"name": "Gulls", "code": 1, "organisations": [api.tenant.organisation]});
    let carrier: Value = api.post(&api.superadmin, "/api/carrier", body).await.expect(201).json();
    let carrier = carrier["id"].as_str().unwrap();
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let browser = Browser::new(api, &admin);
    let address = |text: &str| format!("value=\"{text}\"");
    let hook_fields = [
        ("event", "*"),
        ("destination", "https://shop.example/in"),
        ("maxInFlight", "4"),
        ("ordered", "true"),
    ];
    let hook_kept = [address("https://shop.example/in"), address("4"), "value=\"true\" checked".to_owned()];
    let partner = [
        ("integrationType", "feed"),
        ("baseUrl", "https://feed.example/v1"),
        ("inventories", "main, spare"),
        ("credentials.type", "basic"),
        ("credentials.username", "gull"),
        ("credentials.password", "hush"),
        ("stockSync.reserve", "7"),
    ];
    let wms = [("baseUrl", "https://wms.example/api"), ("maxInFlight", "3"), ("paused", "true")];
    let token = [("name", "label printer"), ("role", "viewer")];
    let preference = [("carrier", carrier), ("position", "7"), ("conditions.countries", "CZ, SK")];
    let organisation = api.tenant.organisation.to_string();
    let forms = [
        (format!("/console/eshop/{}/webhook", api.tenant.eshop), &hook_fields[..], hook_kept.to_vec()),
        (format!("/console/webhook/{hook}/edit"), &hook_fields[..], hook_kept.to_vec()),
        (
            format!("/console/eshop/{}/setting", api.tenant.eshop),
            &partner[..],
            ["https://feed.example/v1", "main, spare", "gull", "7"].map(address).to_vec(),
        ),
        (
            format!("/console/wms/{}/edit", api.tenant.wms),
            &wms[..],
            vec![address("https://wms.example/api"), address("3"), "value=\"true\" checked".to_owned()],
        ),
        (
            "/console/preference/new".to_owned(),
            &preference[..],
            vec![
                format!("value=\"{carrier}\" selected"),
                address("7"),
                address("CZ, SK"),
                address(&organisation),
            ],
        ),
    ];
    fill_disk(&world).await;
    for (path, fields, kept) in &forms {
        let opened = open(&browser, path).await;
        let reply = send_opened(&browser, path, &opened, fields).await.expect(503);
        assert!(reply.header("retry-after").is_some(), "{path}");
        let page = reply.text;
        assert!(
            page.contains("role=\"alert\"") && page.contains("The database is not available"),
            "{path}: {page}"
        );
        for kept in kept {
            assert!(page.contains(kept.as_str()), "{path}: {kept}: {page}");
        }
        // nothing is lost but the secret, which the page says
        let has_secret = fields.iter().any(|(name, _)| name.ends_with("password"));
        assert_eq!(page.contains("Type the password, token or code again"), has_secret, "{path}: {page}");
        assert!(!page.contains("hush"), "{path}: {page}");
        // the same form, which acts once
        assert_eq!(fields_of(&page), opened, "{path}");
    }
    let superadmin = Browser::new(api, &api.superadmin);
    let new = "/console/token/new";
    let page = send(&superadmin, new, &token).await.expect(503).text;
    for kept in ["value=\"label printer\"", "value=\"viewer\" selected"] {
        assert!(page.contains(kept), "{kept}: {page}");
    }
    free_disk(&world).await;
    // what is sent again is stored
    for (path, fields, _) in &forms {
        let status = send(&browser, path, fields).await.status.as_u16();
        assert!(matches!(status, 200 | 303), "{path}: {status}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_confirmation_keeps_what_was_typed_and_marks_what_is_wrong(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    execute(&world, FAILS, hook).await;
    let browser = Browser::new(api, &api.superadmin);
    let listed = api.get(&api.superadmin, "/api/attention").await.expect(200).json();
    let lines = listed["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["kind"] == "destination").unwrap()["id"].as_str().unwrap();
    let mute = format!("/console/attention/{line}/mute");
    // a field that is missing, beside one that is kept
    let page = browser.act(&mute, &[("for", "7d")]).await.expect(400).text;
    for said in ["id=\"wrong-reason\"", "value=\"7d\" selected", "data-question"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    // a number that cannot be asked for can be corrected
    let concurrency = "/console/queue/chunk/concurrency";
    let page = browser.open(&format!("{concurrency}?to=4097")).await.expect(400).text;
    for said in ["name=\"to\" value=\"4097\"", "id=\"wrong-to\"", "Must be between 1 and 4096."] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let page = send_opened(&browser, concurrency, &hidden(&page), &[("to", "0")]).await.expect(400).text;
    assert!(page.contains("name=\"to\" value=\"0\"") && page.contains("id=\"wrong-to\""), "{page}");

    fill_disk(&world).await;
    let acknowledge = format!("/console/attention/{line}/acknowledge");
    for (path, name, text) in [
        ("/console/queue/lane/pause", "reason", "a repair"),
        (mute.as_str(), "reason", "they know"),
        (acknowledge.as_str(), "note", "they move"),
    ] {
        let page = browser.act(path, &[(name, text)]).await.text;
        assert!(page.contains(&format!("name=\"{name}\" value=\"{text}\"")), "{path}: {page}");
    }
    let page = browser.act("/console/queue/lane/pause", &[]).await.expect(503).text;
    assert!(page.contains("data-question") && page.contains("The database is not available"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_form_that_another_one_overtook_shows_what_is_stored_and_can_be_sent_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let browser = Browser::new(api, &api.superadmin);
    let edit = format!("/console/webhook/{hook}/edit");
    let fields = |destination: &'static str, calls: &'static str| {
        [("event", "product_change"), ("destination", destination), ("maxInFlight", calls)]
    };
    let stored = async || {
        let path = format!("/api/eshop-webhook/{hook}");
        let shown: Value = api.get(&api.user, &path).await.expect(200).json();
        (shown["destination"].as_str().unwrap().to_owned(), shown["maxInFlight"].as_i64().unwrap())
    };
    let opened = open(&browser, &edit).await;
    send(&browser, &edit, &fields("https://shop.example/hook", "8")).await.expect(303);
    let late = fields("https://shop.example/v2", "16");
    let page = send_opened(&browser, &edit, &opened, &late).await.expect(412).text;
    assert_eq!(stored().await, ("https://shop.example/hook".to_owned(), 8));
    for said in [
        "The webhook was changed since this form was opened",
        "Stored now: destination is https://shop.example/hook.",
        "Stored now: maxInFlight is 8.",
        "name=\"destination\" value=\"https://shop.example/v2\"",
        "name=\"maxInFlight\" value=\"16\"",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("Stored now: event"), "{page}");
    send_opened(&browser, &edit, &fields_of(&page), &late).await.expect(303);
    assert_eq!(stored().await, ("https://shop.example/v2".to_owned(), 16));
    send(&browser, &edit, &fields("https://shop.example/v2", "8")).await.expect(303);
    assert_eq!(stored().await, ("https://shop.example/v2".to_owned(), 8));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_form_of_an_earlier_login_is_shown_again_with_the_token_of_this_one(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let edit = format!("/console/webhook/{hook}/edit");
    let opened = open(&Browser::new(api, &api.user), &edit).await;
    let browser = Browser::new(api, &api.superadmin);
    let fields = [("event", "*"), ("destination", "https://shop.example/v2"), ("maxInFlight", "8")];
    let page = send_opened(&browser, &edit, &opened, &fields).await.expect(403).text;
    assert!(
        page.contains("The form belongs to another session")
            && page.contains("value=\"https://shop.example/v2\""),
        "{page}"
    );
    send_opened(&browser, &edit, &fields_of(&page), &fields).await.expect(303);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_form_whose_page_cannot_be_read_is_on_the_page_of_the_error(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = world(&options).await;
    let hook = webhook(&world.api, "https://shop.example/hook").await;
    let edit = format!("/console/webhook/{hook}/edit");
    let opened = open(&Browser::new(&world.api, &world.api.superadmin), &edit).await;
    let mut services = world.api.services.clone();
    let away = options.clone().database("not-there");
    services.db = Database::from_options(&away, &services::database_settings().unwrap());
    world.api.serve(App::new(services));
    let browser = Browser::new(&world.api, &world.api.superadmin);
    let fields = [("event", "*"), ("destination", "https://shop.example/<b>")];
    let page = send_opened(&browser, &edit, &opened, &fields).await.expect(503).text;
    for said in [
        "<dt>destination</dt><dd>https://shop.example/&lt;b&gt;</dd>".to_owned(),
        format!("action=\"{edit}\""),
        "name=\"destination\" value=\"https://shop.example/&lt;b&gt;\"".to_owned(),
        "Send it again".to_owned(),
    ] {
        assert!(page.contains(&said), "{said}: {page}");
    }
    // with a secret, it cannot be sent from there
    let fields = [("destination", "https://shop.example/v2"), ("authentication.token", "hush")];
    let page = send_opened(&browser, &edit, &opened, &fields).await.expect(503).text;
    assert!(page.contains("<dd>https://shop.example/v2</dd>") && !page.contains("Send it again"), "{page}");
    assert!(!page.contains("hush"), "{page}");
}
