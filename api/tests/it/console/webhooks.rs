//! Webhooks by health, and the actions on one of them.

mod forms;

use std::time::Duration;

use longshore_domain::webhook::health;
use longshore_domain::webhook::lane::backlog;
use longshore_kernel::ids::{DeliveryId, WebhookId};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{Browser, MIGRATIONS, audited, webhook, world};
use crate::attention::execute;
use crate::product::World;
use crate::support::send_again;

/// Inserts deliveries of a webhook that ended in a state, each of its own event.
pub(super) async fn ended(world: &World, hook: WebhookId, state: &str, count: usize) -> Vec<DeliveryId> {
    sqlx::query_scalar(
        "WITH happened AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
             SELECT uuid_v7(), 'product_change', $2, 'product', uuid_v7(), '{\"productSku\": \"MUG-1\"}' FROM generate_series(1, $5)
             RETURNING id, entity_id
         )
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7(), $1, $3, $2, id, 'product_change', entity_id, $4, 1,
                '[{\"number\": 1, \"at\": \"2026-01-01T00:00:00Z\", \"durationMs\": 41, \"status\": 503, \"error\": \"no\",
                   \"response\": \"upstream unavailable\"}]', now(), now()
         FROM happened RETURNING id",
    )
    .bind(hook)
    .bind(world.api.tenant.organisation)
    .bind(world.api.tenant.eshop)
    .bind(state)
    .bind(i32::try_from(count).unwrap())
    .fetch_all(&world.owner)
    .await
    .unwrap()
}

/// The page of the job that an action starts, after a worker has executed it.
pub(super) async fn followed(world: &World, browser: &Browser<'_>, location: &str) -> String {
    let (path, said) = location.split_once('?').unwrap();
    assert!(said.starts_with("done=re"), "{location}");
    let job = path.strip_prefix("/console/job/").unwrap().parse().unwrap();
    browser.open(location).await.expect(200);
    send_again(&world.api.services, job).await;
    browser.open(location).await.expect(200).text
}

pub(super) async fn waiting(world: &World) -> i64 {
    world.count("SELECT count(*) FROM delivery").await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn webhooks_are_found_by_their_health(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let [healthy, failing, disabled, inactive] =
        ["https://a.example/", "https://b.example/", "https://c.example/", "https://d.example/"];
    let hooks = [
        webhook(api, healthy).await,
        webhook(api, failing).await,
        webhook(api, disabled).await,
        webhook(api, inactive).await,
    ];
    for statement in [
        "WITH waits AS (
             INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count)
             SELECT uuid_v7(), id, eshop_id, uuid_v7(), now() + interval '1 hour', 1 FROM webhook WHERE id = $1
         )
         UPDATE webhook_lane SET failures = 7, failing_since = now(), probe_at = now(), probes = 2 WHERE webhook_id = $1",
        "UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = 'gone for good' WHERE id = $1",
        // it failed until it was deactivated
        "WITH off AS (UPDATE webhook SET active = false WHERE id = $1)
         UPDATE webhook_lane SET failures = 7, failing_since = now(), probe_at = now() WHERE webhook_id = $1",
    ]
    .iter()
    .zip(&hooks[1..])
    {
        sqlx::query(*statement.0).bind(statement.1).execute(&world.owner).await.unwrap();
    }
    let browser = Browser::new(api, &api.viewer);
    for (query, expected) in [
        ("", &[healthy, failing, disabled, inactive][..]),
        ("health=healthy", &[healthy]),
        ("health=inactive", &[inactive]),
        ("health=failing", &[failing]),
        ("health=disabled", &[disabled]),
        ("text=B.EXAMPLE", &[failing]),
        ("text=nowhere", &[]),
    ] {
        let page = browser.open(&format!("/console/webhook?{query}")).await.expect(200).text;
        for destination in [healthy, failing, disabled, inactive] {
            let shown = page.contains(&format!(">{destination}</a>"));
            assert_eq!(shown, expected.contains(&destination), "{query}: {destination}");
        }
    }
    browser.open("/console/webhook?health=well").await.expect(400);
    let page = browser.open(&format!("/console/webhook/{}", hooks[1])).await.expect(200).text;
    assert!(page.contains("one probe at a time") && page.contains("2 failed"), "{page}");
    let page = browser.open(&format!("/console/webhook/{}", hooks[2])).await.expect(200).text;
    assert!(page.contains("gone for good"), "{page}");
    let overview = browser.overview().await;
    assert!(overview.contains("1 webhook is disabled.") && overview.contains("b.example ("));
    // the metric agrees
    let unwell = backlog::unwell(&api.services.db).await.unwrap();
    assert_eq!((unwell.failing, unwell.disabled), (1, 1));
    let list = browser.open("/console/webhook").await.expect(200).text;
    assert!(list.contains("Failing 1<") && list.contains("Disabled 1<"), "{list}");
    assert_eq!(list.matches("resets when it is activated").count(), 1, "{list}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_probe_is_shown_if_there_will_be_one_and_waiting_deliveries_show_their_reason(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let browser = Browser::new(api, &api.viewer);
    let open = async || {
        let page = browser.open(&format!("/console/webhook/{hook}")).await.expect(200).text;
        let list = browser.open("/console/webhook").await.expect(200).text;
        (page, list)
    };
    execute(&world, "UPDATE webhook_lane SET failures = 7, failing_since = now(), probe_at = now() + interval '1 hour', probes = 2
         WHERE webhook_id = $1", hook).await;
    let (page, list) = open().await;
    assert!(page.contains("next at the next event") && page.contains("at rest"), "{page}");
    assert!(list.contains("next probe when a delivery is due"), "{list}");

    let hold = "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), id, eshop_id, uuid_v7(), now() + interval '1 day' FROM webhook WHERE id = $1";
    execute(&world, hold, hook).await;
    assert!(open().await.0.contains("next when a delivery is due"));

    execute(
        &world,
        "UPDATE delivery SET next_attempt_at = now() - interval '1 minute' WHERE webhook_id = $1",
        hook,
    )
    .await;
    let (page, list) = open().await;
    assert!(page.contains("by the breaker") && !page.contains("for a worker"), "{page}");
    assert!(page.contains("next <time") && list.contains("next probe <time"), "{page}{list}");

    execute(
        &world,
        "UPDATE webhook_lane SET probe_at = now() - interval '1 minute' WHERE webhook_id = $1",
        hook,
    )
    .await;
    assert!(open().await.0.contains("for a worker"));

    execute(&world, "UPDATE webhook SET active = false WHERE id = $1", hook).await;
    let (page, list) = open().await;
    for text in [&page, &list] {
        assert!(text.contains("resets when it is activated") && !text.contains("robe at a time"), "{text}");
        assert!(!text.contains("next probe"), "{text}");
    }
    assert!(page.contains("until it is activated") && !page.contains("for a worker"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_pause_that_the_destination_asked_for_is_no_missing_worker(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let due: Uuid = sqlx::query_scalar(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), id, eshop_id, uuid_v7(), now() - interval '1 minute' FROM webhook WHERE id = $1 RETURNING id",
    )
    .bind(hook)
    .fetch_one(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.viewer);
    let delivery = format!("/console/delivery/{due}");
    let pages = ["/console/webhook".to_owned(), format!("/console/webhook/{hook}"), delivery];
    let asked = ", as the destination asked";
    execute(
        &world,
        "UPDATE webhook_lane SET held_until = now() + interval '4 minutes' WHERE webhook_id = $1",
        hook,
    )
    .await;
    for page in &pages {
        let text = browser.open(page).await.expect(200).text;
        assert!(text.contains(asked) && !text.contains("for a worker"), "{page}: {text}");
    }
    // the pause includes probes
    execute(&world, "UPDATE webhook_lane SET failures = 7, failing_since = now(), probe_at = now() + interval '5 seconds' WHERE webhook_id = $1", hook).await;
    let text = browser.open(&pages[1]).await.expect(200).text;
    let next = text.split("next <time").nth(1).and_then(|rest| rest.split("</time>").next());
    assert!(text.contains(asked) && next.is_some_and(|next| next.contains(" min")), "{text}");
    execute(
        &world,
        "UPDATE webhook_lane SET held_until = now() - interval '1 second' WHERE webhook_id = $1",
        hook,
    )
    .await;
    for page in &pages {
        assert!(!browser.open(page).await.expect(200).text.contains(asked), "{page}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_shows_its_health_and_a_delivery_its_request_and_answers(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let browser = Browser::new(api, &api.viewer);
    let page = browser.open(&format!("/console/webhook/{hook}")).await.expect(200).text;
    assert!(
        page.contains("No ended deliveries yet.") && !page.contains("No ended delivery matches."),
        "{page}"
    );
    let page = browser.open(&format!("/console/webhook/{hook}?state=exhausted")).await.expect(200).text;
    assert!(page.contains("No ended delivery matches."), "{page}");
    ended(&world, hook.into(), "delivered", 2).await;
    let exhausted = ended(&world, hook.into(), "exhausted", 1).await[0];
    let page = browser.open(&format!("/console/webhook/{hook}")).await.expect(200).text;
    assert!(page.contains("41 ms") && page.contains("No attempts in the last 24 hours."), "{page}");
    let activity = api.services.metrics.activity();
    for delivered in [true, true, false] {
        activity.note_call(hook.into(), delivered, Duration::from_millis(40));
    }
    let dead = webhook(api, "https://dead.example/hook").await;
    activity.note_call(dead.into(), false, Duration::from_secs(5));
    activity.write(&api.services.db.main).await.unwrap();
    let page = browser.open(&format!("/console/webhook/{hook}")).await.expect(200).text;
    assert!(page.contains("66.66 %") && page.contains("2 of 3 attempts in the last 24 hours"), "{page}");
    let page = browser.open(&format!("/console/webhook/{dead}")).await.expect(200).text;
    assert!(page.contains("0.00 %") && page.contains("0 of 1 attempt in the last 24 hours"), "{page}");
    let list = browser.open("/console/webhook").await.expect(200).text;
    assert!(list.contains("66.66 %") && list.contains(">0.00 %"), "{list}");
    // of one that fails now, what it did earlier in the day says nothing
    sqlx::query("UPDATE webhook_lane SET failures = 26, failing_since = now() - interval '7 minutes' WHERE webhook_id = $1")
        .bind(hook)
        .execute(&world.owner)
        .await
        .unwrap();
    for page in [format!("/console/webhook/{hook}"), "/console/webhook".to_owned()] {
        let page = browser.open(&page).await.expect(200).text;
        assert!(page.contains("0 of the last 26") && !page.contains("66.66 %"), "{page}");
    }
    sqlx::query("UPDATE webhook_lane SET failures = 1 WHERE webhook_id = $1")
        .bind(hook)
        .execute(&world.owner)
        .await
        .unwrap();
    for page in [format!("/console/webhook/{hook}"), "/console/webhook".to_owned()] {
        let page = browser.open(&page).await.expect(200).text;
        assert!(page.contains("1 failure in a row"), "{page}");
    }
    sqlx::query("UPDATE webhook_lane SET failures = 0, failing_since = NULL WHERE webhook_id = $1")
        .bind(hook)
        .execute(&world.owner)
        .await
        .unwrap();
    let narrowed = browser.open(&format!("/console/webhook/{hook}?state=exhausted")).await.expect(200).text;
    assert_eq!(narrowed.matches("<a href=\"/console/delivery/").count(), 1 + 3, "the attempts, and the one");
    let page = browser.open(&format!("/console/delivery/{exhausted}")).await.expect(200).text;
    for part in ["MUG-1", "product_change", "503", "upstream unavailable", "https://shop.example/hook"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // the body as it is sent: with its id first, and the time in the format for destinations
    let entity: Uuid = sqlx::query_scalar("SELECT entity_id FROM delivery_history WHERE id = $1")
        .bind(exhausted)
        .fetch_one(&world.owner)
        .await
        .unwrap();
    let body = format!(
        "{{&quot;id&quot;:&quot;{entity}&quot;,&quot;type&quot;:&quot;product_change&quot;,&quot;timestamp&quot;:"
    );
    assert!(page.contains(&body) && page.contains("+00:00&quot;,&quot;data&quot;:"), "{page}");
    assert!(page.contains("webhook-timestamp <code>1767225600</code>"), "{page}");
    browser.open(&format!("/console/delivery/{}", Uuid::nil())).await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_shows_headers_and_can_be_made_by_hand(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let body = serde_json::json!({
        "eshop": api.tenant.eshop, "event": "product_change", "destination": "https://shop.example/hook?a='b'",
        "authentication": {"type": "bearer", "token": "hush"},
    });
    let hook: serde_json::Value = api.post(&api.user, "/api/eshop-webhook", body).await.expect(201).json();
    let hook: Uuid = hook["id"].as_str().unwrap().parse().unwrap();
    let delivery = ended(&world, hook.into(), "exhausted", 1).await[0];
    sqlx::query(
        "UPDATE delivery_history SET attempts = jsonb_set(attempts, '{0,headers}', '{\"retry-after\": \"<b>120</b>\"}') WHERE id = $1",
    )
    .bind(delivery)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.viewer);
    let page = browser.open(&format!("/console/delivery/{delivery}")).await.expect(200).text;
    let event: Uuid = sqlx::query_scalar("SELECT event_id FROM delivery_history WHERE id = $1")
        .bind(delivery)
        .fetch_one(&world.owner)
        .await
        .unwrap();
    for part in [
        "Bearer ***".to_owned(),
        format!("-H 'webhook-id: {event}'"),
        r"curl -i 'https://shop.example/hook?a='\''b'\''' --data-binary".to_owned(),
        "<code>retry-after</code></dt><dd>&lt;b&gt;120&lt;/b&gt;".to_owned(),
        "<summary>Formatted</summary>".to_owned(),
        "data-copy-of=\".tree\" hidden".to_owned(),
    ] {
        assert!(page.contains(&part), "{part}: {page}");
    }
    assert!(!page.contains("hush"), "{page}");
    // a deleted webhook has no destination to call
    api.delete(&api.user, &format!("/api/eshop-webhook/{hook}")).await.expect(204);
    let page = browser.open(&format!("/console/delivery/{delivery}")).await.expect(200).text;
    assert!(!page.contains("curl -i") && !page.contains("Bearer ***"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_last_attempts_do_not_depend_on_the_age_of_their_deliveries(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    // created last: one attempted an hour ago, and one never
    let many = "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, created_at, attempt_count, attempts)
         SELECT uuid_v7(), $1, $2, uuid_v7(), now(), now(), $3::smallint,
                CASE WHEN $3::smallint > 0 THEN jsonb_build_array(
                    jsonb_build_object('number', 1, 'at', now() - interval '1 hour', 'status', 500)) ELSE '[]' END
         FROM generate_series(1, 30)";
    for attempts in [0_i16, 1] {
        sqlx::query(many)
            .bind(hook)
            .bind(api.tenant.eshop)
            .bind(attempts)
            .execute(&world.owner)
            .await
            .unwrap();
    }
    // created a day ago, and attempted again just now
    let waiting: DeliveryId = sqlx::query_scalar(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, created_at, attempt_count, attempts)
         SELECT uuid_v7(), $1, $2, uuid_v7(), now(), now() - interval '1 day', 2, jsonb_build_array(
             jsonb_build_object('number', 1, 'at', now() - interval '1 day', 'status', 501),
             jsonb_build_object('number', 2, 'at', now() - interval '1 minute', 'status', 502))
         RETURNING id",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .fetch_one(&world.owner)
    .await
    .unwrap();
    // failed for good a minute earlier
    let exhausted = ended(&world, hook.into(), "exhausted", 1).await[0];
    sqlx::query(
        "UPDATE delivery_history SET attempts = jsonb_build_array(
             jsonb_build_object('number', 1, 'at', now() - interval '3 minutes', 'status', 503),
             jsonb_build_object('number', 2, 'at', now() - interval '2 minutes', 'status', 504))",
    )
    .execute(&world.owner)
    .await
    .unwrap();
    // the deliveries of a batch have one call
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, batch_id, attempt_count, attempts)
         SELECT uuid_v7(), $1, $2, uuid_v7(), now(), '01921111-2222-7333-8444-555566667777', 1, jsonb_build_array(
             jsonb_build_object('number', 1, 'at', now() - interval '2 hours', 'status', 505))
         FROM generate_series(1, 3)",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    let last_calls =
        async |count| health::record(&api.services.db, hook.into(), count).await.unwrap().last_calls;
    let calls = last_calls(4).await;
    let attempts: Vec<_> =
        calls.iter().map(|call| (call.delivery, call.attempt["status"].as_i64().unwrap())).collect();
    assert_eq!(attempts[..3], [(waiting, 502), (exhausted, 504), (exhausted, 503)]);
    assert_eq!(attempts[3].1, 500);
    assert_eq!(last_calls(100).await.len(), 30 + 2 + 2 + 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_selected_and_all_matching_deliveries_are_sent_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let exhausted = ended(&world, hook.into(), "exhausted", 5).await;
    ended(&world, hook.into(), "delivered", 3).await;
    let browser = Browser::new(api, &api.superadmin);
    let page = format!("/console/webhook/{hook}");
    let reply = browser.act(&format!("/console/delivery/{}/redeliver", exhausted[0]), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some(format!("{page}?done=redelivered&count=1").as_str()));
    assert_eq!(waiting(&world).await, 1);
    assert_eq!(audited(&world, exhausted[0].get()).await.unwrap().0, "delivery.redeliver");

    let chosen = format!("{page}/redeliver?id={}&id={}", exhausted[1], exhausted[2]);
    let reply = browser.act(&chosen, &[]).await.expect(303);
    let result = followed(&world, &browser, reply.header("location").unwrap()).await;
    assert!(result.contains("2 deliveries resent."), "{result}");
    assert_eq!(waiting(&world).await, 3);

    let question = browser.open(&format!("{page}/redeliver-all?state=exhausted")).await.expect(200).text;
    assert!(question.contains("Redeliver 5 deliveries?"), "{question}");
    let reply = browser.act(&format!("{page}/redeliver-all?state=exhausted"), &[]).await.expect(303);
    let result = followed(&world, &browser, reply.header("location").unwrap()).await;
    assert!(result.contains("5 deliveries resent."), "{result}");
    assert_eq!(waiting(&world).await, 8);

    let many = (0..=200).map(|n| format!("id={}", Uuid::from_u128(n))).collect::<Vec<_>>().join("&");
    for (path, status) in [
        (format!("{page}/redeliver"), 400),
        (format!("{page}/redeliver?id=x"), 400),
        (format!("{page}/redeliver?{many}"), 400),
        (format!("{page}/redeliver-all?state=cancelled"), 400),
        (format!("{page}/redeliver-all?state=broken"), 400),
    ] {
        browser.open(&path).await.expect(status);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_is_deactivated_and_enabled(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let browser = Browser::new(api, &api.superadmin);
    let page = format!("/console/webhook/{hook}");
    for (action, said) in [("deactivate", "done=deactivated"), ("activate", "done=activated")] {
        let reply = browser.act(&format!("{page}/{action}"), &[]).await.expect(303);
        assert_eq!(reply.header("location"), Some(format!("{page}?{said}").as_str()));
        assert_eq!(audited(&world, hook).await.unwrap().0, format!("webhook.{action}"));
        browser.open(reply.header("location").unwrap()).await.expect(200);
    }
}

/// Tests a webhook; returns the page of the delivery, and what is said there.
async fn test(browser: &Browser<'_>, hook: Uuid, fields: &[(&str, &str)]) -> (String, String) {
    let reply = browser.act(&format!("/console/webhook/{hook}/test"), fields).await.expect(303);
    let (page, said) = reply.header("location").unwrap().split_once("?done=").unwrap();
    assert!(page.starts_with("/console/delivery/"), "{page}");
    (page.to_owned(), said.to_owned())
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_with_any_event_leads_to_its_delivery_which_is_an_example(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    let other = webhook(api, "https://shop.example/other").await;
    ended(&world, hook.into(), "exhausted", 2).await;
    let browser = Browser::new(api, &api.superadmin);
    let form = format!("/console/webhook/{hook}/test");
    let asked = browser.open(&form).await.expect(200).text;
    assert!(
        asked.contains("value=\"test\" selected") && asked.contains("value=\"sync_finished\">"),
        "{asked}"
    );
    let chosen = browser.open(&format!("{form}?event=product_change")).await.expect(200).text;
    assert!(chosen.contains("value=\"product_change\" selected"), "{chosen}");
    let refused = browser.act(&form, &[("event", "weather_change")]).await.expect(400).text;
    for said in ["id=\"wrong-event\"", "aria-invalid=\"true\"", "data-question", "value=\"product_change\""] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    assert_eq!(waiting(&world).await, 0);

    let label = "<span class=\"badge quiet\">example</span>";
    let (page, said) = test(&browser, hook, &[("event", "product_change")]).await;
    assert_eq!((said.as_str(), waiting(&world).await), ("tested", 1));
    assert_eq!(audited(&world, hook).await.unwrap().0, "webhook.test");
    let shown = browser.open(&format!("{page}?done=tested")).await.expect(200).text;
    for part in [label, "&quot;test&quot;:true", &format!("href=\"/console/webhook/{hook}\"")] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains(&format!("data-live=\"{page}/live\"")), "its answer appears: {shown}");
    // a delivery of a change is no example, nor is one of type `test`
    let (plain, _) = test(&browser, other, &[]).await;
    assert!(!browser.open(&plain).await.expect(200).text.contains(label));
    for (list, examples) in [
        (format!("/console/webhook/{hook}"), 1),
        (format!("/console/webhook/{other}"), 0),
        ("/console/delivery".to_owned(), 1),
    ] {
        let shown = browser.open(&list).await.expect(200).text;
        assert_eq!(shown.matches(label).count(), examples, "{list}: {shown}");
        // the SKU in the example is that of no product
        assert!(!shown.contains("8590000000017"), "{shown}");
    }
    let end = "WITH gone AS (DELETE FROM delivery RETURNING *)
        INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
            attempt_count, attempts, created_at, finished_at)
        SELECT g.id, g.webhook_id, g.eshop_id, e.organisation_id, e.id, e.type, e.entity_id, 'delivered', 1, '[]', g.created_at, now()
        FROM gone g JOIN event e ON e.id = g.event_id";
    sqlx::query(end).execute(&world.owner).await.unwrap();
    for list in [format!("/console/webhook/{hook}"), "/console/delivery".to_owned()] {
        let shown = browser.open(&list).await.expect(200).text;
        assert_eq!(shown.matches(label).count(), 1, "{list}: {shown}");
        assert!(!shown.contains("8590000000017"), "{shown}");
    }
    let ended = browser.open(&page).await.expect(200).text;
    assert!(ended.contains(label) && !ended.contains("data-live"), "{ended}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_that_is_not_sent_now_shows_why(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let hook = webhook(&world.api, "https://shop.example/hook").await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    for (statement, expected) in [
        ("UPDATE webhook SET ordered = true WHERE id = $1", "tested"),
        (
            "UPDATE webhook_lane SET failures = 5, failing_since = now(), probe_at = now() WHERE webhook_id = $1",
            "test-held",
        ),
        ("UPDATE webhook SET active = false WHERE id = $1", "test-kept"),
    ] {
        execute(&world, statement, hook).await;
        let (page, said) = test(&browser, hook, &[]).await;
        assert_eq!(said, expected);
        browser.open(&format!("{page}?done={said}")).await.expect(200);
    }
}
