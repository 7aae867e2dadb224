//! Warehouses in the console: how the system of each wms is called, and its setting.

use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::repair::send;
use super::{Browser, MIGRATIONS, audited, world};
use crate::product::World;

const HERE: &str = "/console/wms";

fn path(world: &World) -> String {
    format!("/api/partner-integration/wms-setting/{}", world.api.tenant.wms)
}

async fn setting(world: &World) -> Value {
    world.api.get(&world.api.superadmin, &path(world)).await.expect(200).json()
}

async fn execute(world: &World, sql: &'static str) {
    sqlx::raw_sql(sql).execute(&world.owner).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wms_is_connected_changed_paused_tested_rotated_and_disconnected(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let browser = Browser::new(api, &admin);
    let wms = api.tenant.wms;
    let page = format!("{HERE}/{wms}");
    let edit = format!("{page}/edit");
    let shown = browser.open(&page).await.expect(200).text;
    assert!(shown.contains("orders go on by hand") && shown.contains(">Connect<"), "{shown}");

    // a wrong field is marked, and the others are kept
    let wrong =
        [("baseUrl", "nowhere"), ("maxInFlight", "many"), ("credentials.type", "basic"), ("paused", "true")];
    let refused = send(&browser, &edit, &wrong).await.expect(400).text;
    for said in [
        "id=\"wrong-baseUrl\"",
        "id=\"wrong-maxInFlight\"",
        "id=\"wrong-credentials.username\"",
        "value=\"nowhere\"",
        "value=\"many\"",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    let fields = [
        ("baseUrl", "https://wms.example/api"),
        ("maxInFlight", "4"),
        ("active", "true"),
        ("since", "2026-03-01T14:30"),
        ("credentials.type", "bearer"),
        ("credentials.token", "hush-1"),
    ];
    let made = send(&browser, &edit, &fields).await.expect(200).text;
    let secret = made.split("data-copy=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(secret.starts_with("whsec_"), "{made}");
    assert_eq!(audited(&world, wms).await.unwrap(), ("wms_setting.create".into(), "admin of a test".into()));

    // neither the secret nor the credentials are shown again, and empty fields keep them
    let shown = browser.open(&page).await.expect(200).text;
    let form = browser.open(&edit).await.expect(200).text;
    for text in [&shown, &form] {
        assert!(!text.contains(&secret) && !text.contains("hush-1"), "{text}");
    }
    assert!(shown.contains("https://wms.example/api") && shown.contains(">healthy<"), "{shown}");
    assert_eq!(setting(&world).await["since"], "2026-03-01T14:30:00.000000+00:00");
    assert!(form.contains("value=\"2026-03-01T14:30:00\""), "{form}");
    // an empty time is none
    let fields = [("baseUrl", "https://wms.example/v2"), ("maxInFlight", "9"), ("active", "true")];
    send(&browser, &edit, &fields).await.expect(303);
    let stored = setting(&world).await;
    assert_eq!(stored["since"], json!(null));
    assert_eq!((&stored["baseUrl"], &stored["maxInFlight"]), (&json!("https://wms.example/v2"), &json!(9)));
    assert_eq!(stored["credentials"], json!({"type": "bearer", "token": "***"}));
    // credentials are not meant for another host
    let moved = [("baseUrl", "https://other.example/"), ("maxInFlight", "9"), ("active", "true")];
    let refused = send(&browser, &edit, &moved).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-credentials.token\""), "{refused}");
    // a form that was opened before a change of another does not undo it
    let token = form.split("name=\"form_token\" value=\"").nth(2).unwrap().split('"').next().unwrap();
    let old: Vec<_> = fields.into_iter().chain([("version", "1"), ("form_token", token)]).collect();
    browser.send_bare(&edit, &old).await.expect(412);

    browser.act(&format!("{page}/pause"), &[]).await.expect(303);
    let paused = setting(&world).await;
    assert_eq!(
        (&paused["paused"], &paused["active"], &paused["maxInFlight"]),
        (&json!(true), &json!(true), &json!(9))
    );
    assert!(browser.open(&page).await.expect(200).text.contains("calls are paused"));
    browser.act(&format!("{page}/resume"), &[]).await.expect(303);
    assert_eq!(setting(&world).await["paused"], false);
    assert_eq!(audited(&world, wms).await.unwrap().0, "wms_setting.update");

    let rotated = browser.act(&format!("{page}/rotate"), &[]).await.expect(200).text;
    let fresh = rotated.split("data-copy=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(fresh.starts_with("whsec_") && fresh != secret, "{rotated}");
    assert_eq!(audited(&world, wms).await.unwrap().0, "wms_setting.rotate_secret");
    let shown = browser.open(&page).await.expect(200).text;
    assert!(shown.contains("1 former secret still signs, until <time"), "{shown}");

    let removed = browser.act(&format!("{page}/delete"), &[]).await.expect(303);
    assert!(removed.header("location").unwrap().contains("done=wms-deleted"));
    api.get(&api.superadmin, &path(&world)).await.expect(410);
    assert!(browser.open(&page).await.expect(200).text.contains(">Connect<"));
    assert_eq!(audited(&world, wms).await.unwrap().0, "wms_setting.delete");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_of_a_connection_is_started_and_its_result_is_shown(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let browser = Browser::new(api, &admin);
    let of_eshop = format!("/api/partner-integration/eshop-setting/{}", api.tenant.eshop);
    api.post(&admin, &of_eshop, json!({"integrationType": "feed", "baseUrl": "https://feed.example/"}))
        .await
        .expect(200);
    api.post(&admin, &path(&world), json!({"baseUrl": "https://wms.example/"})).await.expect(200);
    for (page, kind) in [
        (format!("{HERE}/{}", api.tenant.wms), "wms.test"),
        (format!("/console/eshop/{}", api.tenant.eshop), "integration.test"),
    ] {
        assert!(browser.open(&page).await.expect(200).text.contains("was not tested yet"));
        let begun = browser.act(&format!("{page}/test"), &[]).await.expect(303);
        assert!(begun.header("location").unwrap().contains("done=connection-tested"), "{:?}", begun.headers);
        let waiting = browser.open(&page).await.expect(200).text;
        assert!(waiting.contains("A worker tests it") && waiting.contains("data-live"), "{waiting}");
        let job: uuid::Uuid =
            sqlx::query_scalar("SELECT id FROM job WHERE kind = $1 AND actor_name = 'admin of a test'")
                .bind(kind)
                .fetch_one(&world.owner)
                .await
                .unwrap();
        // as a worker ends it
        for sql in [
            "UPDATE job_chunk SET state = 'succeeded', failed = 1 WHERE job_id = $1",
            "UPDATE job SET state = 'succeeded', chunks_open = 0, done = 1, failed = 1, finished_at = now(), connection_works = false,
                 connection_message = 'the feed <refuses> the credentials (HTTP 401)', connection_ms = 34 WHERE id = $1",
        ] {
            sqlx::query(sql).bind(job).execute(&world.owner).await.unwrap();
        }
        let ended = browser.open(&page).await.expect(200).text;
        for said in [
            ">does not work<",
            "The feed &lt;refuses&gt; the credentials (HTTP 401)",
            "34 ms",
            "admin of a test",
        ] {
            assert!(ended.contains(said), "{said}: {ended}");
        }
        let shown = browser.open(&format!("/console/job/{job}")).await.expect(200).text;
        assert!(
            shown.contains("The connection does not work") && !shown.contains("Retry refused items"),
            "{shown}"
        );
        let record = api.get(&admin, &format!("/api/job/{job}")).await.expect(200).json();
        let message = "the feed <refuses> the credentials (HTTP 401)";
        assert_eq!(record["connection"], json!({"works": false, "message": message, "durationMs": 34}));
        assert_eq!(record["outcome"], "nothing");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn wms_are_found_by_their_state_with_what_is_wrong(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.viewer);
    let page = format!("{HERE}/{}", api.tenant.wms);
    let is_listed = async |state: &str| {
        let list = browser.open(&format!("{HERE}?state={state}")).await.expect(200).text;
        list.contains(&format!("href=\"{page}\""))
    };
    let store = async |body: Value| {
        api.post(&api.superadmin, &path(&world), body).await.expect(200);
    };
    assert!(is_listed("by_hand").await && !is_listed("healthy").await);
    store(json!({"baseUrl": "https://wms.example/"})).await;
    assert!(is_listed("healthy").await && !is_listed("by_hand").await);
    store(json!({"baseUrl": "https://wms.example/", "paused": true})).await;
    assert!(is_listed("paused").await && !is_listed("healthy").await);
    store(json!({"baseUrl": "https://wms.example/", "active": false})).await;
    assert!(is_listed("inactive").await && !is_listed("paused").await);
    store(json!({"baseUrl": "https://wms.example/"})).await;
    execute(
        &world,
        "UPDATE wms_lane SET failures = 7, failing_since = now() - interval '2 hours', probe_at = now() + interval '9 minutes',
             probes = 3, error = 'answered <503>', error_at = now()",
    )
    .await;
    assert!(is_listed("failing").await && !is_listed("healthy").await);
    for query in ["?text=WMS.EXAMPLE", "?text=nowhere", "?text=%25"] {
        let list = browser.open(&format!("{HERE}{query}")).await.expect(200).text;
        assert_eq!(list.contains(&format!("href=\"{page}\"")), query.contains("EXAMPLE"), "{query}");
    }
    browser.open(&format!("{HERE}?state=well")).await.expect(400);
    let shown = browser.open(&page).await.expect(200).text;
    for said in [
        "Its system fails.",
        "answered &lt;503&gt;",
        "7 failures in a row",
        "one probe at a time",
        ">failing<",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    // what is wrong leads there
    let overview = browser.overview().await;
    assert!(overview.contains(&format!("href=\"{page}\"")), "{overview}");
    let attention = browser.open("/console/order/attention").await.expect(200).text;
    assert!(attention.contains(&format!("href=\"{page}\"")), "{attention}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn neither_a_viewer_nor_a_user_nor_a_stranger_changes_a_setting(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    api.post(&api.superadmin, &path(&world), json!({"baseUrl": "https://wms.example/"})).await.expect(200);
    let page = format!("{HERE}/{}", api.tenant.wms);
    let viewer = Browser::new(api, &api.viewer);
    let shown = viewer.open(&page).await.expect(200).text;
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &token);
    assert!(!stranger.open(HERE).await.expect(200).text.contains(&page));
    stranger.open(&page).await.expect(404);
    let user = Browser::new(api, &api.user);
    user.open(HERE).await.expect(403);
    user.open(&page).await.expect(403);
    for step in ["edit", "rotate", "pause", "resume", "test", "delete"] {
        let path = format!("{page}/{step}");
        assert!(!shown.contains(&path), "{path}: {shown}");
        for other in [&viewer, &user] {
            other.open(&path).await.expect(403);
            other.send_bare(&path, &[]).await.expect(403);
        }
        stranger.open(&path).await.expect(404);
        // without the token of the session
        stranger.send_bare(&path, &[]).await.expect(403);
    }
}
