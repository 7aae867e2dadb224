//! Repairing in the console: the integration of an e-shop, and webhooks.

use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, audited, world};
use crate::support::{Api, Reply};

/// Opens the form of a page, and sends it with further fields.
pub(super) async fn send(browser: &Browser<'_>, path: &str, fields: &[(&str, &str)]) -> Reply {
    let opened = open(browser, path).await;
    send_opened(browser, path, &opened, fields).await
}

/// The hidden fields of the form on a page: the token of the session, a version, a one-time key.
pub(super) async fn open(browser: &Browser<'_>, path: &str) -> Vec<(String, String)> {
    fields_of(&browser.open(path).await.expect(200).text)
}

/// The same of a page that is open.
pub(super) fn fields_of(page: &str) -> Vec<(String, String)> {
    let form = page.split("class=\"editor\"").nth(1).unwrap().split("</form>").next().unwrap();
    let mut opened = Vec::new();
    for hidden in form.split("<input type=\"hidden\" name=\"").skip(1) {
        let (name, rest) = hidden.split_once('"').unwrap();
        let value = rest
            .split('>')
            .next()
            .unwrap()
            .split("value=\"")
            .nth(1)
            .map_or("", |v| v.split('"').next().unwrap());
        opened.push((name.to_owned(), value.to_owned()));
    }
    opened
}

/// Sends a form that was opened before, with further fields.
pub(super) async fn send_opened(
    browser: &Browser<'_>,
    path: &str,
    opened: &[(String, String)],
    fields: &[(&str, &str)],
) -> Reply {
    let opened = opened.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let sent: Vec<_> = opened.chain(fields.iter().copied()).collect();
    browser.send_bare(path, &sent).await
}

async fn setting(api: &Api) -> Value {
    let path = format!("/api/partner-integration/eshop-setting/{}", api.tenant.eshop);
    api.get(&api.superadmin, &path).await.expect(200).json()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_integration_is_connected_corrected_paused_and_run_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.user);
    let page = format!("/console/eshop/{}", api.tenant.eshop);
    let edit = format!("{page}/setting");
    // a wrong field is marked, and the others are kept
    let refused = send(
        &browser,
        &edit,
        &[
            ("integrationType", "feed"),
            ("productSync.intervalMinutes", "often"),
            ("inventories", "main, spare"),
        ],
    )
    .await
    .expect(400)
    .text;
    for said in [
        "id=\"wrong-baseUrl\"",
        "id=\"wrong-productSync.intervalMinutes\"",
        "value=\"often\"",
        "value=\"main, spare\"",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    send(
        &browser,
        &edit,
        &[
            ("integrationType", "feed"),
            ("active", "true"),
            ("baseUrl", "https://feed.example/v1"),
            ("inventories", "main, spare"),
            ("credentials.type", "bearer"),
            ("credentials.token", "first-secret"),
            ("productSync.enabled", "true"),
            ("productSync.intervalMinutes", "30"),
        ],
    )
    .await
    .expect(303);
    let stored = setting(api).await;
    assert_eq!(stored["baseUrl"], "https://feed.example/v1");
    assert_eq!(stored["inventories"], json!([{"inventoryId": "main"}, {"inventoryId": "spare"}]));
    assert_eq!((&stored["active"], &stored["productSync"]["intervalMinutes"]), (&json!(true), &json!(30)));
    let id = stored["id"].as_str().unwrap().parse().unwrap();
    let (action, actor) = audited(&world, id).await.unwrap();
    assert_eq!((action.as_str(), actor.as_str()), ("integration_setting.create", "user of a test"));

    // secrets are not shown, and empty fields keep them
    let sealed = async || {
        sqlx::query_scalar::<_, Vec<u8>>("SELECT credentials FROM integration_setting")
            .fetch_one(&world.owner)
            .await
            .unwrap()
    };
    let form = browser.open(&edit).await.expect(200).text;
    assert!(!form.contains("first-secret") && form.contains("value=\"https://feed.example/v1\""), "{form}");
    let fields = [
        ("integrationType", "feed"),
        ("active", "true"),
        ("baseUrl", "https://feed.example/v2"),
        ("inventories", "main"),
    ];
    send(&browser, &edit, &fields).await.expect(303);
    let stored = setting(api).await;
    assert_eq!(
        (&stored["baseUrl"], &stored["credentials"]["type"]),
        (&json!("https://feed.example/v2"), &json!("bearer"))
    );
    // a form that was opened before a change of another does not undo it
    let old: Vec<(&str, &str)> = fields.iter().copied().chain([("version", "1")]).collect();
    let page_before = browser.open(&edit).await.expect(200).text;
    let token = page_before.split("name=\"form_token\" value=\"").nth(2).unwrap().split('"').next().unwrap();
    let old: Vec<_> = old.into_iter().chain([("form_token", token)]).collect();
    browser.send_bare(&edit, &old).await.expect(412);

    // at once: one job for the inventory, with the caller as its actor
    let before = sealed().await;
    let reply = browser.act(&format!("{page}/sync"), &[]).await.expect(303);
    assert!(reply.header("location").unwrap().contains("done=syncing&count=1"), "{:?}", reply.headers);
    let (jobs, actor): (i64, String) = sqlx::query_as(
        "SELECT count(*), min(actor_name) FROM job WHERE kind = 'product.sync' AND source = 'main'",
    )
    .fetch_one(&world.owner)
    .await
    .unwrap();
    assert_eq!((jobs, actor.as_str()), (1, "user of a test"));

    browser.act(&format!("{page}/pause"), &[]).await.expect(303);
    let paused = setting(api).await;
    assert_eq!((&paused["active"], &paused["credentials"]["type"]), (&json!(false), &json!("bearer")));
    assert_eq!(paused["inventories"], json!([{"inventoryId": "main"}]));
    let shown = browser.open(&page).await.expect(200).text;
    assert!(shown.contains("is paused.") && !shown.contains(&format!("{page}/sync\"")), "{shown}");
    browser.act(&format!("{page}/sync"), &[]).await.expect(400);
    browser.act(&format!("{page}/resume"), &[]).await.expect(303);
    assert_eq!(setting(api).await["active"], true);
    assert_eq!(audited(&world, id).await.unwrap().0, "integration_setting.update");
    assert!(!before.is_empty() && !sealed().await.is_empty());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_is_created_changed_and_rotated_and_its_secret_is_shown_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.user);
    let new = format!("/console/eshop/{}/webhook", api.tenant.eshop);
    let refused = send(
        &browser,
        &new,
        &[("event", "product_change"), ("destination", "nowhere"), ("maxInFlight", "0")],
    )
    .await
    .expect(400)
    .text;
    for said in ["id=\"wrong-destination\"", "id=\"wrong-maxInFlight\"", "value=\"nowhere\""] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    let fields = [
        ("event", "product_change"),
        ("destination", "https://shop.example/in"),
        ("maxInFlight", "4"),
        ("ordered", "true"),
    ];
    let made = send(&browser, &new, &fields).await.expect(200).text;
    let secret = made.split("data-copy=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(secret.starts_with("whsec_"), "{made}");
    let id: uuid::Uuid = made.split("/console/webhook/").nth(1).unwrap()[..36].parse().unwrap();
    assert_eq!(audited(&world, id).await.unwrap().0, "webhook.create");
    let page = format!("/console/webhook/{id}");
    assert!(!browser.open(&page).await.expect(200).text.contains(&secret));

    let edit = format!("{page}/edit");
    assert!(browser.open(&edit).await.expect(200).text.contains("value=\"https://shop.example/in\""));
    send(
        &browser,
        &edit,
        &[("event", "*"), ("destination", "https://shop.example/v2"), ("maxInFlight", "8")],
    )
    .await
    .expect(303);
    let stored: Value = api.get(&api.user, &format!("/api/eshop-webhook/{id}")).await.expect(200).json();
    assert_eq!((&stored["event"], &stored["destination"]), (&json!("*"), &json!("https://shop.example/v2")));
    assert_eq!((&stored["maxInFlight"], &stored["ordered"]), (&json!(8), &json!(false)));
    let wrong = send(&browser, &edit, &[("event", "sale"), ("destination", "x"), ("maxInFlight", "8")])
        .await
        .expect(400)
        .text;
    assert!(wrong.contains("id=\"wrong-event\"") && wrong.contains("id=\"wrong-destination\""), "{wrong}");

    let rotated = browser.act(&format!("{page}/rotate"), &[]).await.expect(200).text;
    let fresh = rotated.split("data-copy=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(fresh.starts_with("whsec_") && fresh != secret, "{rotated}");
    assert_eq!(audited(&world, id).await.unwrap().0, "webhook.rotate_secret");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_page_of_a_webhook_says_how_many_former_secrets_still_sign(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.user);
    let page = format!("/console/webhook/{}", super::webhook(api, "https://shop.example/in").await);
    let shown = async || browser.open(&page).await.expect(200).text;
    assert!(!shown().await.contains("still sign"));
    for said in ["1 former secret still signs, until <time", "2 former secrets still sign, until <time"] {
        browser.act(&format!("{page}/rotate"), &[]).await.expect(200);
        let shown = shown().await;
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let end = "UPDATE webhook_former_secret SET signs_until = signs_until - interval '2 days'";
    sqlx::query(end).execute(&world.owner).await.unwrap();
    assert!(!shown().await.contains("still sign"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn neither_a_viewer_nor_a_stranger_repairs_anything(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let eshop = format!("/console/eshop/{}", api.tenant.eshop);
    let hook = super::webhook(api, "https://shop.example/").await;
    let hook = format!("/console/webhook/{hook}");
    let viewer = Browser::new(api, &api.viewer);
    let page = viewer.open(&eshop).await.expect(200).text;
    for action in ["/setting\"", "/pause\"", "/sync\"", "/webhook\""] {
        assert!(!page.contains(&format!("{eshop}{action}")), "{action}: {page}");
    }
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &token);
    let paths = ["setting", "pause", "resume", "sync", "webhook"].map(|step| format!("{eshop}/{step}"));
    let paths: Vec<_> =
        paths.into_iter().chain(["edit", "rotate"].map(|step| format!("{hook}/{step}"))).collect();
    for path in &paths {
        viewer.open(path).await.expect(403);
        viewer.send_bare(path, &[]).await.expect(403);
        stranger.open(path).await.expect(404);
        // without the token of the session
        stranger.send_bare(path, &[]).await.expect(403);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_access_token_is_created_shown_once_and_deleted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    let new = "/console/token/new";
    let organisation = api.tenant.organisation.to_string();
    let refused =
        send(&browser, new, &[("role", "user"), ("expiresAt", "2001-01-01T00:00")]).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-name\"") && refused.contains("id=\"wrong-expiresAt\""), "{refused}");
    let refused =
        send(&browser, new, &[("name", "x"), ("role", "user"), ("expiresAt", "soon")]).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-expiresAt\"") && refused.contains("value=\"soon\""), "{refused}");
    let fields = [("name", "label printer"), ("role", "viewer")];
    let made = send(&browser, new, &fields).await.expect(200).text;
    let token = made.split("data-copy=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(token.starts_with("lsh_"), "{made}");
    Browser::new(api, &token).open("/console").await.expect(200);
    let page = browser.open("/console/token").await.expect(200).text;
    assert!(page.contains("label printer") && !page.contains(&token), "{page}");
    let of_organisation =
        browser.open(&format!("/console/token?organisation={organisation}")).await.expect(200).text;
    assert!(
        !of_organisation.contains("label printer") && of_organisation.contains("user of a test"),
        "{of_organisation}"
    );
    // page after page, the newest first
    for n in 0..60 {
        let body = json!({"name": format!("till {n:02}"), "role": "user", "organisation": organisation});
        api.post(&api.superadmin, "/api/access-token", body).await.expect(201);
    }
    let first = browser.open("/console/token").await.expect(200).text;
    assert!(first.contains("till 59") && first.contains("till 10") && !first.contains("till 09"), "{first}");
    let next = first.split("rel=\"next\"").next().unwrap().rsplit("href=\"").next().unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    let second = browser.open(&next).await.expect(200).text;
    assert!(
        second.contains("till 09") && second.contains("label printer") && !second.contains("till 10"),
        "{second}"
    );
    let id = sqlx::query_scalar::<_, uuid::Uuid>("SELECT id FROM access_token WHERE name = 'label printer'")
        .fetch_one(&world.owner)
        .await
        .unwrap();
    assert_eq!(audited(&world, id).await.unwrap().0, "access_token.create");
    // an admin of another organisation neither sees nor deletes it
    let (stranger, _) = world.stranger().await;
    let admin = stranger.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &admin);
    let theirs = stranger.open("/console/token").await.expect(200).text;
    assert!(!theirs.contains("label printer") && !theirs.contains("user of a test"), "{theirs}");
    stranger.open(&format!("/console/token/{id}/delete")).await.expect(404);
    browser.act(&format!("/console/token/{id}/delete"), &[]).await.expect(303);
    assert_eq!(audited(&world, id).await.unwrap().0, "access_token.delete");
    // neither a user nor a viewer manages tokens
    for token in [&api.user, &api.viewer] {
        Browser::new(api, token).open("/console/token").await.expect(403);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn typed_credentials_are_of_the_stored_kind_unless_another_is_chosen(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.user);
    let edit = format!("/console/eshop/{}/setting", api.tenant.eshop);
    let store = async |credentials: &[(&'static str, &'static str)]| {
        let feed = [("integrationType", "feed"), ("active", "true"), ("baseUrl", "https://feed.example/v1")];
        let fields: Vec<_> = feed.iter().chain(credentials).copied().collect();
        send(&browser, &edit, &fields).await
    };
    // audited changes of credentials, the creation among them
    let changes = async || world.count("SELECT count(*) FROM audit WHERE changes ? 'credentials'").await;

    store(&[("credentials.type", "bearer"), ("credentials.token", "first-secret")]).await.expect(303);
    store(&[("credentials.token", "second-secret")]).await.expect(303);
    assert_eq!(setting(api).await["credentials"], json!({"type": "bearer", "token": "***"}));
    assert_eq!(changes().await, 2);
    // what is left empty stays
    let basic =
        [("credentials.type", "basic"), ("credentials.username", "shop"), ("credentials.password", "one")];
    store(&basic).await.expect(303);
    store(&[("credentials.password", "two")]).await.expect(303);
    assert_eq!(setting(api).await["credentials"]["type"], "basic");
    assert_eq!(changes().await, 4);
    // what that kind does not have is marked, and no secret is on the page
    let refused = store(&[("credentials.token", "third-secret")]).await.expect(400).text;
    assert!(
        refused.contains("id=\"wrong-credentials.token\"") && !refused.contains("third-secret"),
        "{refused}"
    );
    // where none are stored, the kind must be chosen
    store(&[("credentials.type", "none")]).await.expect(303);
    let refused = store(&[("credentials.token", "third-secret")]).await.expect(400).text;
    assert!(
        refused.contains("id=\"wrong-credentials.type\"") && !refused.contains("third-secret"),
        "{refused}"
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_form_that_is_sent_again_makes_no_second_webhook_and_no_second_token(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    let new = format!("/console/eshop/{}/webhook", api.tenant.eshop);
    let fields = [("event", "*"), ("destination", "https://shop.example/in"), ("maxInFlight", "4")];
    let opened = open(&browser, &new).await;
    // a refusal does not use the key up
    send_opened(&browser, &new, &opened, &[("event", "*"), ("destination", "nowhere")]).await.expect(400);
    let made = send_opened(&browser, &new, &opened, &fields).await.expect(200).text;
    assert!(made.contains("data-copy=\"whsec_"), "{made}");
    let again = send_opened(&browser, &new, &opened, &fields).await.expect(200).text;
    assert!(again.contains("created already") && !again.contains("whsec_"), "{again}");
    let other = [("event", "*"), ("destination", "https://shop.example/other"), ("maxInFlight", "4")];
    let used = send_opened(&browser, &new, &opened, &other).await.expect(422).text;
    assert!(used.contains("This form was sent before with other values"), "{used}");
    assert!(used.contains("value=\"https://shop.example/other\""), "{used}");
    assert_eq!(world.count("SELECT count(*) FROM webhook").await, 1);
    // sent again from there, it makes another
    send_opened(&browser, &new, &fields_of(&used), &other).await.expect(200);
    assert_eq!(world.count("SELECT count(*) FROM webhook").await, 2);

    let new = "/console/token/new";
    let fields = [("name", "label printer"), ("role", "viewer")];
    let opened = open(&browser, new).await;
    let made = send_opened(&browser, new, &opened, &fields).await.expect(200).text;
    assert!(made.contains("data-copy=\"lsh_"), "{made}");
    let again = send_opened(&browser, new, &opened, &fields).await.expect(200).text;
    assert!(again.contains("created already") && !again.contains("lsh_"), "{again}");
    assert_eq!(world.count("SELECT count(*) FROM access_token WHERE name = 'label printer'").await, 1);
}

/// The name of a token, and the ids of its organisation, e-shop and wms.
type Made = (String, Option<uuid::Uuid>, Option<uuid::Uuid>, Option<uuid::Uuid>);

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_is_created_by_the_names_of_its_organisation_eshop_and_wms(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let (other, _) = world.stranger().await;
    for (table, id, name) in [
        ("organisation", api.tenant.organisation.get(), "Nordic Living"),
        ("organisation", other.organisation.get(), "Nordic Sports"),
        ("eshop", api.tenant.eshop.get(), "Harbour shop"),
        ("eshop", other.eshop.get(), "Harbour shop"),
        ("wms", api.tenant.wms, "Annex & Sons"),
    ] {
        let named = format!("UPDATE {table} SET name = $2 WHERE id = $1");
        sqlx::query(sqlx::AssertSqlSafe(named)).bind(id).bind(name).execute(&world.owner).await.unwrap();
    }
    let browser = Browser::new(api, &api.superadmin);
    let new = "/console/token/new";
    let form = browser.open(new).await.expect(200).text;
    for part in [
        "list=\"names-organisation\"",
        "<datalist id=\"names-organisation\">",
        "<option value=\"Nordic Living\">",
        "<option value=\"Harbour shop\">",
        "<option value=\"Annex &amp; Sons\">",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    // what may mean several is refused, with what it may mean, and nothing that was typed is lost
    let fields =
        [("name", "printer"), ("role", "connector"), ("organisation", "nordic"), ("eshop", "harbour")];
    let refused = send(&browser, new, &fields).await.expect(400).text;
    for part in [
        "id=\"wrong-organisation\"",
        "Names several: Nordic Living",
        "Nordic Sports",
        "value=\"nordic\"",
        "value=\"harbour\"",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let fields =
        [("name", "printer"), ("role", "connector"), ("organisation", "nordic liv"), ("eshop", "shed")];
    let refused = send(&browser, new, &fields).await.expect(400).text;
    assert!(refused.contains("Is the name of no e-shop."), "{refused}");
    // of two e-shops with the name, the one of the organisation
    let fields =
        [("name", "printer"), ("role", "connector"), ("organisation", "nordic liv"), ("eshop", "harbour")];
    send(&browser, new, &fields).await.expect(200);
    let fields = [("name", "scanner"), ("role", "warehouse"), ("wms", "annex")];
    send(&browser, new, &fields).await.expect(200);
    let made: Vec<Made> = sqlx::query_as(
        "SELECT name, organisation_id, eshop_id, wms_id FROM access_token WHERE name IN ('printer', 'scanner') ORDER BY name",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let organisation = Some(api.tenant.organisation.get());
    assert_eq!(
        made,
        [
            ("printer".to_owned(), organisation, Some(api.tenant.eshop.get()), None),
            ("scanner".to_owned(), organisation, None, Some(api.tenant.wms)),
        ]
    );
    // an admin is suggested nothing of others
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let form = Browser::new(api, &admin).open(new).await.expect(200).text;
    assert!(form.contains("Nordic Living") && !form.contains("Nordic Sports"), "{form}");
}
