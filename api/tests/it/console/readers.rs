//! Readers of events in the console.

use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::repair::{open, send, send_opened};
use super::{Browser, MIGRATIONS, audited, world};
use crate::support::Api;

const LIST: &str = "/console/reader";

/// Creates a reader of the tenant's organisation; returns its id.
async fn reader(api: &Api, name: &str) -> Uuid {
    let body = json!({"organisation": api.tenant.organisation, "name": name});
    let made: Value = api.post(&api.user, "/api/event-reader", body).await.expect(201).json();
    made["id"].as_str().unwrap().parse().unwrap()
}

fn link(to: &str) -> String {
    format!("href=\"{to}\"")
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_reader_is_created_listed_changed_and_deleted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.user);
    let shown = async |path: &str| browser.open(path).await.expect(200).text;
    let eshop = format!("/console/eshop/{}", api.tenant.eshop);
    let new = format!("{eshop}/reader");
    assert!(shown("/console/webhook").await.contains(&link(LIST)));
    assert!(shown(LIST).await.contains("No reader."));
    assert!(shown(&eshop).await.contains(&link(&new)));
    let fields = |name: &'static str, criteria: &'static str| {
        [("name", name), ("event", "product_change"), ("criteria", criteria), ("select", "weight, active")]
    };
    let criteria = r#"{"data.fields.weight": {"lte": 5}}"#;
    let refused = send(&browser, &new, &fields("", "light ones")).await.expect(400).text;
    for said in ["id=\"wrong-name\"", "id=\"wrong-criteria\"", "value=\"light ones\""] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    // it is tried first, as what a webhook would be told of
    let fields_to_try: Vec<_> = fields("ERP", criteria).into_iter().chain([("try", "1")]).collect();
    let tried = send(&browser, &new, &fields_to_try).await.expect(200).text;
    assert!(
        tried.contains("No such event is among the newest") && tried.contains("value=\"ERP\""),
        "{tried}"
    );
    assert_eq!(world.count("SELECT count(*) FROM event_reader").await, 0);

    let made = send(&browser, &new, &fields("ERP", criteria)).await.expect(303);
    let address = made.header("location").unwrap();
    let page = address.strip_suffix("?done=reader-stored").unwrap();
    let id: Uuid = page.strip_prefix("/console/reader/").unwrap().parse().unwrap();
    assert_eq!(audited(&world, id).await.unwrap().0, "event_reader.create");
    let after = shown(address).await;
    for said in [
        "The reader is stored.",
        "never read",
        "data.fields.weight",
        "ids and business keys, <code>weight</code>, <code>active</code>",
        &link(&eshop),
        &link(&format!("{page}/edit")),
        &link(&format!("{page}/delete")),
    ] {
        assert!(after.contains(said), "{said}: {after}");
    }
    for list in [LIST, &eshop] {
        assert!(shown(list).await.contains(&format!("{}>ERP</a>", link(page))), "{list}");
    }
    api.get(&api.user, &format!("/api/event-reader/{id}/events")).await.expect(200);
    let read = shown(page).await;
    assert!(!read.contains("never read") && read.contains("events/s"), "{read}");

    let edit = format!("{page}/edit");
    let opened = open(&browser, &edit).await;
    let form = shown(&edit).await;
    assert!(form.contains("value=\"ERP\"") && form.contains("value=\"weight, active\""), "{form}");
    let refused = send(&browser, &edit, &fields("ERP", r#"{"data.fields.weigth": {"lte": 5}}"#)).await;
    let refused = refused.expect(400).text;
    assert!(refused.contains("did you mean data.fields.weight?"), "{refused}");
    send(&browser, &edit, &[("name", "shop system"), ("event", "*")]).await.expect(303);
    let stored = api.get(&api.user, &format!("/api/event-reader/{id}")).await.expect(200).json();
    let stored = ["name", "event", "criteria", "select"].map(|name| stored[name].clone());
    assert_eq!(stored, [json!("shop system"), json!("*"), Value::Null, Value::Null]);
    let late = send_opened(&browser, &edit, &opened, &fields("ERP", criteria)).await.expect(412).text;
    assert!(late.contains("The reader was changed since this form was opened"), "{late}");

    let deleted = browser.act(&format!("{page}/delete"), &[]).await.expect(303);
    assert_eq!(deleted.header("location"), Some("/console/reader?done=reader-deleted"));
    assert_eq!(audited(&world, id).await.unwrap().0, "event_reader.delete");
    assert!(!shown(LIST).await.contains("shop system"));
    browser.open(page).await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_reader_of_all_eshops_is_listed_with_its_organisation(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.user);
    let organisation = format!("/console/organisation/{}", api.tenant.organisation);
    let eshop = format!("/console/eshop/{}", api.tenant.eshop);
    let several = [("name", "ledger"), ("events", "product_change"), ("events", "expedition_change")];
    send(&browser, &format!("{organisation}/reader"), &several).await.expect(303);
    let shown = browser.open(LIST).await.expect(200).text;
    for said in ["product_change", "expedition_change", &link(&organisation)] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    assert!(browser.open(&organisation).await.expect(200).text.contains(">ledger</a>"));
    assert!(!browser.open(&eshop).await.expect(200).text.contains("ledger"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn neither_a_viewer_nor_a_stranger_changes_a_reader(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let eshop = format!("/console/eshop/{}", api.tenant.eshop);
    let organisation = format!("/console/organisation/{}", api.tenant.organisation);
    let page = format!("{LIST}/{}", reader(api, "ledger").await);
    let actions = [&eshop, &organisation]
        .map(|of| format!("{of}/reader"))
        .into_iter()
        .chain(["edit", "delete"].map(|deed| format!("{page}/{deed}")));
    let actions: Vec<_> = actions.collect();
    let viewer = Browser::new(api, &api.viewer);
    for shows in [LIST, &page, &organisation] {
        let shown = viewer.open(shows).await.expect(200).text;
        assert!(shown.contains("ledger"), "{shows}: {shown}");
        for action in &actions {
            assert!(!shown.contains(&link(action)), "{action}: {shown}");
        }
    }
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let admin = Browser::new(api, &token);
    assert!(!admin.open(LIST).await.expect(200).text.contains("ledger"));
    admin.open(&page).await.expect(404);
    let opened = open(&admin, &format!("/console/eshop/{}/reader", stranger.eshop)).await;
    for action in &actions {
        viewer.open(action).await.expect(403);
        viewer.send_bare(action, &[]).await.expect(403);
        admin.open(action).await.expect(404);
        send_opened(&admin, action, &opened, &[("name", "theirs"), ("event", "*")]).await.expect(404);
    }
    assert_eq!(world.count("SELECT count(*) FROM event_reader WHERE name = 'ledger'").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_connector_has_readers_without_what_webhooks_were_told_of(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let new = format!("/console/eshop/{}/reader", api.tenant.eshop);
    let connector = Browser::new(api, &api.connector);
    assert!(!connector.open(&new).await.expect(200).text.contains("name=\"try\""));
    let fields = [("name", "ERP"), ("event", "*"), ("try", "1")];
    send(&connector, &new, &fields).await.expect(403);
    send(&connector, &new, &fields[..2]).await.expect(303);
    // one of an e-shop sees its own
    let bound = Browser::new(api, &api.tenant.eshop_token(&api.services).await.unwrap());
    let page = bound.open(&format!("/console/eshop/{}", api.tenant.eshop)).await.expect(200).text;
    assert!(page.contains("readers-title"), "{page}");
    assert!(bound.open(LIST).await.expect(200).text.contains("No reader."));
    send(&bound, &new, &fields[..2]).await.expect(303);
    assert!(!bound.open(LIST).await.expect(200).text.contains("No reader."));
}
