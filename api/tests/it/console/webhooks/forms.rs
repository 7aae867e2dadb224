//! The forms of a webhook: a secret that is rotated, a token that is typed.

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::console::repair::{send, send_opened};
use crate::console::{Browser, MIGRATIONS, hidden, webhook, world};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_secret_is_rotated_once_however_often_the_form_is_sent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let browser = Browser::new(api, &api.superadmin);
    let rotate = format!("/console/webhook/{hook}/rotate");
    let rotations =
        async || world.count("SELECT count(*) FROM audit WHERE action = 'webhook.rotate_secret'").await;
    let question = hidden(&browser.open(&rotate).await.expect(200).text);
    let rotated = send_opened(&browser, &rotate, &question, &[]).await.expect(200).text;
    assert!(rotated.contains("data-copy=\"whsec_"), "{rotated}");
    let again = send_opened(&browser, &rotate, &question, &[]).await.expect(200).text;
    let link = format!("href=\"/console/webhook/{hook}\"");
    assert!(again.contains("rotated already") && again.contains(&link), "{again}");
    assert!(!again.contains("whsec_"), "{again}");
    assert_eq!(rotations().await, 1);
    // opened again, it rotates again
    let rotated = browser.act(&rotate, &[]).await.expect(200).text;
    assert!(rotated.contains("data-copy=\"whsec_"), "{rotated}");
    assert_eq!(rotations().await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_typed_token_of_a_webhook_is_stored_with_the_kind_left_as_it_is(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let body = serde_json::json!({
        "eshop": api.tenant.eshop, "event": "product_change", "destination": "https://shop.example/hook",
        "authentication": {"type": "bearer", "token": "hush-1"},
    });
    let hook: serde_json::Value = api.post(&api.user, "/api/eshop-webhook", body).await.expect(201).json();
    let edit = format!("/console/webhook/{}/edit", hook["id"].as_str().unwrap());
    let browser = Browser::new(api, &api.superadmin);
    let fields = [
        ("event", "product_change"),
        ("destination", "https://shop.example/hook"),
        ("maxInFlight", "16"),
        ("authentication.token", "hush-2"),
    ];
    send(&browser, &edit, &fields).await.expect(303);
    let changes = "SELECT count(*) FROM audit WHERE action = 'webhook.update' AND changes ? 'authentication'";
    assert_eq!(world.count(changes).await, 1);
    assert!(!browser.open(&edit).await.expect(200).text.contains("hush"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn batches_are_chosen_by_their_size_and_left_by_none(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let body = serde_json::json!({
        "eshop": api.tenant.eshop, "event": "product_change", "destination": "https://shop.example/hook",
    });
    let hook: serde_json::Value = api.post(&api.user, "/api/eshop-webhook", body).await.expect(201).json();
    let page = format!("/console/webhook/{}", hook["id"].as_str().unwrap());
    let edit = format!("{page}/edit");
    let browser = Browser::new(api, &api.superadmin);
    let fields = |most: &'static str, events: &'static str, wait: &'static str| {
        [
            ("event", "product_change"),
            ("destination", "https://shop.example/hook"),
            ("maxInFlight", most),
            ("batch.maxEvents", events),
            ("batch.maxWaitMs", wait),
        ]
    };
    assert!(browser.open(&page).await.expect(200).text.contains("none: a call for each event"));
    let refused = send(&browser, &edit, &fields("16", "501", "")).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-batch.maxEvents\""));
    let refused = send(&browser, &edit, &fields("16", "100", "")).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-maxInFlight\"") && refused.contains("value=\"100\""));
    let with_rate =
        |rate| fields("4", "100", "1500").into_iter().chain([("maxPerSecond", rate)]).collect::<Vec<_>>();
    for rate in ["0.01", "inf", "NaN", "some"] {
        let refused = send(&browser, &edit, &with_rate(rate)).await.expect(400).text;
        assert!(refused.contains("id=\"wrong-maxPerSecond\""), "{rate}");
    }
    send(&browser, &edit, &with_rate("2.5")).await.expect(303);
    let shown = browser.open(&page).await.expect(200).text;
    for part in [
        "up to 100 events a call, the first waits up to 1.5 s",
        "up to 2.5 calls a second",
        "in 100 calls, in about 40 s",
    ] {
        assert!(shown.contains(part), "{part}");
    }
    let form = browser.open(&edit).await.expect(200).text;
    for value in ["100", "1500", "2.5"] {
        assert!(form.contains(&format!("value=\"{value}\"")), "{value}");
    }
    send(&browser, &edit, &fields("4", "", "")).await.expect(303);
    assert!(browser.open(&page).await.expect(200).text.contains("none: a call for each event"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn criteria_are_tried_before_they_are_stored(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    let new = format!("/console/eshop/{}/webhook", api.tenant.eshop);
    let criteria = r#"{"data.fields.weight": {"lte": 5}}"#;
    let fields = |criteria: &'static str, button: &'static str| {
        [
            ("event", "product_change"),
            ("destination", "https://shop.example/few"),
            ("maxInFlight", "16"),
            ("criteria", criteria),
            ("select", "weight, active"),
            (button, "1"),
        ]
    };
    let hooks = async || world.count("SELECT count(*) FROM webhook WHERE destination LIKE '%few'").await;
    let tried = send(&browser, &new, &fields(criteria, "try")).await.expect(200).text;
    assert!(
        tried.contains("No such event is among the newest") && tried.contains("https://shop.example/few")
    );
    webhook(api, "https://shop.example/all").await;
    for (sku, weight) in [("light", 5), ("heavy", 50)] {
        let product = serde_json::json!({
            "eshops": [api.tenant.eshop], "organisation": api.tenant.organisation, "productSku": sku, "internalSku": sku,
            "name": "Mug", "weight": weight, "imeiCheckRequired": false, "active": true,
        });
        api.post(&api.user, "/api/product", product).await.expect(201);
    }
    let tried = send(&browser, &new, &fields(criteria, "try")).await.expect(200).text;
    assert!(tried.contains("1 of the newest 2 events match") && tried.contains("light"), "{tried}");
    assert!(!tried.contains("heavy"));
    let refused =
        send(&browser, &new, &fields(r#"{"data.fields.weigth": {"lte": 5}}"#, "try")).await.expect(400).text;
    assert!(refused.contains("did you mean data.fields.weight?"), "{refused}");
    assert!(
        send(&browser, &new, &fields("light ones", "try"))
            .await
            .expect(400)
            .text
            .contains("id=\"wrong-criteria\"")
    );
    assert_eq!(hooks().await, 0);
    send(&browser, &new, &fields(criteria, "other")).await.expect(200);
    assert_eq!(hooks().await, 1);
    let id = "SELECT id::text FROM webhook WHERE destination LIKE '%few'";
    let id: String = sqlx::query_scalar(id).fetch_one(&world.owner).await.unwrap();
    let page = browser.open(&format!("/console/webhook/{id}")).await.expect(200).text;
    assert!(page.contains("ids and business keys, <code>weight</code>, <code>active</code>"), "{page}");
    let edit = format!("/console/webhook/{id}/edit");
    let form = browser.open(&edit).await.expect(200).text;
    assert!(form.contains("value=\"weight, active\"") && form.contains("data.fields.weight"), "{form}");
    assert!(
        send(&browser, &edit, &fields(criteria, "try")).await.expect(200).text.contains("1 of the newest")
    );
    send(&browser, &edit, &fields(criteria, "other")).await.expect(303);
}
