//! Attempts and the consequences of their answers.

use std::time::Duration;

use bytes::Bytes;
use longshore_domain::standing::backlog;
use longshore_domain::webhook::delivery::search;
use longshore_domain::webhook::health::{self, exhausted};
use longshore_kernel::access::Scope;
use longshore_kernel::ids::EventId;
use longshore_testkit::receiver::{Answer, Document, Receiver};
use longshore_worker::lanes::{self, Ran};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Hook, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// Seconds until the one live delivery is due.
const WAIT: &str =
    "SELECT to_jsonb(extract(epoch FROM next_attempt_at - now())) FROM delivery WHERE webhook_id = $1";
/// Its attempts so far.
const ATTEMPTS: &str = "SELECT attempts FROM delivery WHERE webhook_id = $1";
/// The attempts of the one ended delivery.
const ENDED_ATTEMPTS: &str = "SELECT attempts FROM delivery_history WHERE webhook_id = $1";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_trace_of_a_caller_continues_to_the_destination(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 2).await;
    sqlx::query("UPDATE event SET traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'")
        .execute(&world.pool)
        .await
        .unwrap();

    world.drain(&hook).await;

    let receipts = world.receiver.receipts();
    let traces: Vec<_> = receipts.iter().map(|receipt| receipt.header("traceparent").unwrap()).collect();
    assert_eq!(traces.len(), 2);
    for trace in &traces {
        // not sampled by the caller, and so not sampled here
        assert!(
            trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && trace.ends_with("-00"),
            "{trace}"
        );
        assert!(!trace.contains("b7ad6b7169203331"), "each call is a span of its own: {trace}");
    }
    assert_ne!(traces[0], traces[1]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_console_shows_a_delivery_exactly_as_it_was_sent(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 2).await;
    // one event has values that JSON and times can represent in several ways, and a status
    sqlx::query(
        r#"UPDATE event SET type = 'stock_advice_status_change', at = '2026-03-01 12:00:00Z',
               data = '{"z": 1.50, "id": "x", "orderNumber": "A/1", "changedFields": ["status"],
                        "fields": {"status": "clösed <\u0026> \"", "a": 1e3}}'
           WHERE id = (SELECT min(id::text)::uuid FROM event)"#,
    )
    .execute(&world.pool)
    .await
    .unwrap();

    world.drain(&hook).await;

    let receipts = world.receiver.receipts();
    assert_eq!(receipts.len(), 2);
    for receipt in &receipts {
        hook.verifier.verify(receipt).unwrap();
        let event: EventId = receipt.header("webhook-id").unwrap().parse().unwrap();
        let delivery = sqlx::query_scalar("SELECT id FROM delivery_history WHERE event_id = $1")
            .bind(event)
            .fetch_one(&world.pool)
            .await
            .unwrap();
        let shown =
            search::find(&world.services.db, world.context().scope(), delivery).await.unwrap().unwrap();
        assert_eq!(shown.body().unwrap(), receipt.body);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_event_is_delivered_once_signed_and_complete(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let authentication = json!({"type": "header", "header": "X-Api-Key", "token": "k1"});
    let hook = world.hook("/hook", json!({"authentication": authentication})).await;
    let events = world.events(&hook, 1).await;

    world.drain(&hook).await;

    let receipts = world.receiver.receipts();
    assert_eq!(receipts.len(), 1);
    let receipt = &receipts[0];
    hook.verifier.verify(receipt).unwrap();
    let metrics = backlog::metrics(&world.services).await.unwrap();
    assert!(metrics.contains("longshore_webhook_attempts_total{outcome=\"delivered\"} 1"), "{metrics}");
    assert_eq!(receipt.method, "POST");
    assert_eq!(receipt.header("webhook-id"), Some(events[0].to_string().as_str()));
    assert_eq!(receipt.header("content-type"), Some("application/json"));
    assert_eq!(receipt.header("user-agent"), Some(concat!("longshore/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(receipt.header("x-api-key"), Some("k1"));
    let trace: Vec<_> = receipt.header("traceparent").unwrap().split('-').map(str::to_owned).collect();
    assert_eq!((trace[0].as_str(), trace[1].len(), trace[2].len(), trace[3].as_str()), ("00", 32, 16, "01"));
    let body = receipt.json().unwrap();
    let mut names: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["data", "id", "timestamp", "type"]);
    assert_eq!(body["type"], "product_change");
    assert_eq!(body["data"]["id"], body["id"]);
    assert_eq!(body["data"]["fields"]["name"], "no 1");
    assert_eq!((world.live(&hook).await, world.ended(&hook, "delivered").await), (0, 1));
    let attempts = world.value(ENDED_ATTEMPTS, &hook).await;
    assert_eq!(
        (&attempts[0]["number"], &attempts[0]["status"], &attempts[0]["error"]),
        (&json!(1), &json!(204), &Value::Null)
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_failure_is_retried_by_the_schedule_and_finally_exhausted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.receiver.answer("/hook", Answer::Body(500, Bytes::from_static(b"no\0pe")));
    world.events(&hook, 1).await;
    for (n, step) in
        [5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0].iter().enumerate()
    {
        world.make_due(&hook).await;
        world.drain(&hook).await;
        let wait = world.value(WAIT, &hook).await.as_f64().unwrap();
        assert!((step * 0.8 - 5.0..=step * 1.2).contains(&wait), "after attempt {}: {wait}", n + 1);
        // not due yet, so nothing is sent
        world.drain(&hook).await;
        assert_eq!(world.receiver.requests(), n as u64 + 1);
    }
    assert_eq!(
        world.value("SELECT to_jsonb(failures) FROM webhook_lane WHERE webhook_id = $1", &hook).await,
        9
    );
    world.make_due(&hook).await;
    world.drain(&hook).await;

    assert_eq!((world.live(&hook).await, world.ended(&hook, "exhausted").await), (0, 1));
    let attempts = world.value(ENDED_ATTEMPTS, &hook).await;
    let numbers: Vec<_> =
        attempts.as_array().unwrap().iter().map(|a| a["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
    assert_eq!(attempts[9]["error"], "answered 500");
    assert_eq!(attempts[9]["response"], "no\u{fffd}pe");
    let ids = world.receiver.counts_by("webhook-id");
    assert_eq!(ids.into_values().collect::<Vec<_>>(), [10]);
    // what needs attention knows it at once: it does not depend on counts that the worker has still to store
    let missed = exhausted::read(&world.services.db, &Scope::Everything, 10).await.unwrap();
    assert_eq!(
        missed.iter().map(|missed| (missed.id, missed.deliveries)).collect::<Vec<_>>(),
        [(hook.id, 1)]
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn retry_after_is_honoured_up_to_the_next_step(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    for (asked, expected) in [(60, 60.0), (100_000, 300.0)] {
        let hook = world.hook(&format!("/after/{asked}"), json!({})).await;
        world.receiver.answer(&hook.path, Answer::RetryAfter(503, asked));
        world.events(&hook, 1).await;
        world.drain(&hook).await;
        let wait = world.value(WAIT, &hook).await.as_f64().unwrap();
        assert!((expected - 5.0..=expected).contains(&wait), "asked {asked}: {wait}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_redirect_is_a_failure_and_is_not_followed(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/moved", json!({})).await;
    world.receiver.answer("/moved", Answer::Redirect(world.receiver.url("/elsewhere")));
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    assert_eq!(world.receiver.receipts_at("/elsewhere").len(), 0);
    let attempts = world.value(ATTEMPTS, &hook).await;
    assert_eq!(
        (&attempts[0]["status"], &attempts[0]["error"]),
        (&json!(307), &json!("redirects are not followed"))
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_destination_that_hangs_or_drips_is_cut_off_at_the_deadline(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    assert_eq!(world.worker.deadline, Duration::from_secs(15), "docs/reference/deliveries.md#attempts");
    world.worker.deadline = Duration::from_millis(500);
    for (path, answer, status, attempts) in
        [("/hang", Answer::Hang, Value::Null, ATTEMPTS), ("/drip", Answer::Drip, json!(200), ENDED_ATTEMPTS)]
    {
        let hook = world.hook(path, json!({})).await;
        world.receiver.answer(path, answer);
        world.events(&hook, 1).await;
        world.drain(&hook).await;
        let attempts = world.value(attempts, &hook).await;
        assert_eq!(attempts[0]["error"], "no complete response within 0.5 s", "{path}");
        assert_eq!(attempts[0]["status"], status, "{path}");
        assert!(attempts[0]["durationMs"].as_u64().unwrap() >= 500, "{path}: {attempts}");
        assert_eq!(world.receiver.receipts_at(path).len(), 1, "once an attempt");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn at_most_sixteen_kibibytes_of_an_answer_are_read(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/flood", json!({})).await;
    world.receiver.answer("/flood", Answer::Flood);
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    // its status arrived, and more of its body than is kept
    assert_eq!(world.ended(&hook, "delivered").await, 1);
    let attempts = world.value(ENDED_ATTEMPTS, &hook).await;
    assert_eq!(attempts[0]["response"].as_str().unwrap().len(), 2_048);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_headers_of_an_answer_are_kept_if_it_is_a_failure(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let answers = vec![Answer::RetryAfter(503, 1), Answer::Status(204)];
    world.receiver.answer("/hook", Answer::Sequence(answers));
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    assert_eq!(world.value(ATTEMPTS, &hook).await[0]["headers"]["retry-after"], "1");
    sqlx::query("UPDATE webhook_lane SET held_until = NULL").execute(&world.pool).await.unwrap();
    world.make_due(&hook).await;
    world.drain(&hook).await;
    let attempts = world.value(ENDED_ATTEMPTS, &hook).await;
    assert_eq!((&attempts[1]["status"], attempts[1].get("headers")), (&json!(204), None), "{attempts}");
    assert_eq!(attempts[0]["headers"]["retry-after"], "1", "{attempts}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_success_that_cannot_be_read_to_its_end_is_delivered_with_a_remark(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    world.worker.deadline = Duration::from_millis(500);
    let beginning = Document { body: "{}".into(), cut_after: Some(1), hangs: true, ..Document::default() };
    for (path, answer) in
        [("/short", Answer::Short), ("/drip", Answer::Drip), ("/hangs", Answer::Document(beginning))]
    {
        let hook = world.hook(path, json!({})).await;
        world.receiver.answer(path, answer);
        world.events(&hook, 1).await;
        world.drain(&hook).await;
        assert_eq!(world.ended(&hook, "delivered").await, 1, "{path}");
        let attempts = world.value(ENDED_ATTEMPTS, &hook).await;
        assert!(attempts[0]["error"].is_string(), "{path}: {attempts}");
        assert_eq!((&attempts[0]["status"], attempts[0].get("headers")), (&json!(200), None), "{path}");
        assert_eq!(world.receiver.receipts_at(path).len(), 1, "{path}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_kept_connection_that_the_destination_closed_costs_no_attempt(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    let answers = vec![Answer::Status(204), Answer::Cut, Answer::Status(204)];
    world.receiver.answer("/hook", Answer::Sequence(answers));
    world.events(&hook, 2).await;
    world.drain(&hook).await;
    assert_eq!((world.live(&hook).await, world.ended(&hook, "delivered").await), (0, 2));
    let ids: Vec<_> =
        world.receiver.receipts().iter().map(|r| r.header("webhook-id").map(str::to_owned)).collect();
    assert_eq!((ids.len(), &ids[1]), (3, &ids[2]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_connection_that_is_cut_and_a_port_without_a_listener_are_failures(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let gone = Receiver::start().await.unwrap();
    let url = gone.url("/");
    drop(gone);
    let refused = world.hook_at(&url, "/", json!({})).await;
    for hook in [world.hook("/cut", json!({})).await, refused] {
        world.receiver.answer("/cut", Answer::Cut);
        world.events(&hook, 1).await;
        world.drain(&hook).await;
        let attempts = world.value(ATTEMPTS, &hook).await;
        assert!(attempts[0]["error"].is_string(), "{}: {attempts}", hook.path);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_name_that_resolves_to_an_internal_address_is_not_called(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut services = longshore_testkit::services::for_test(&options).unwrap();
    services.outbound.webhook_allow_subnets.clear();
    let world = World::over(services, &options, Receiver::start().await.unwrap()).await;
    let url = format!("http://localhost:{}/hook", world.receiver.address().port());
    let hook = world.hook_at(&url, "/hook", json!({})).await;
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    assert_eq!(world.receiver.requests(), 0);
    let attempts = world.value(ATTEMPTS, &hook).await;
    assert_eq!(attempts[0]["error"], "the destination has a private address, which must not be called");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_destination_that_is_gone_disables_its_webhook_which_keeps_its_due_deliveries(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/gone", json!({"maxInFlight": 1})).await;
    world.receiver.answer("/gone", Answer::Status(410));
    world.events(&hook, 3).await;
    world.drain(&hook).await;

    assert_eq!(world.receiver.requests(), 1);
    assert_eq!(world.live(&hook).await, 3);
    let disabled = "SELECT to_jsonb(w) FROM webhook w WHERE id = $1";
    let row = world.value(disabled, &hook).await;
    assert_eq!(
        (&row["active"], &row["disabled_reason"]),
        (&json!(false), &json!("the destination answered 410 Gone"))
    );
    assert!(row["disabled_at"].is_string());
    let audit = "SELECT changes FROM audit WHERE entity_id = $1 AND action = 'webhook.disable'";
    assert_eq!(world.value(audit, &hook).await["active"], json!([true, false]));
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_whose_event_has_expired_is_cancelled(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 1).await;
    sqlx::query("DELETE FROM event").execute(&world.pool).await.unwrap();
    world.drain(&hook).await;
    assert_eq!((world.live(&hook).await, world.ended(&hook, "cancelled").await), (0, 1));
    assert_eq!(world.receiver.requests(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_success_of_a_webhook_is_that_of_its_attempts_whether_or_not_their_deliveries_have_ended(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let flapping = world.hook("/flapping", json!({})).await;
    let one_in_three = [500, 200, 200].map(Answer::Status);
    world.receiver.answer("/flapping", Answer::Sequence(one_in_three.into_iter().cycle().take(30).collect()));
    let dead = world.hook("/dead", json!({})).await;
    world.receiver.answer("/dead", Answer::Status(500));
    let db = &world.services.db;
    let counted = async |hook: &Hook| {
        world.services.metrics.activity().write(&db.main).await.unwrap();
        let record = health::record(db, hook.id, 0).await.unwrap();
        (record.delivered, record.calls)
    };
    assert_eq!(counted(&flapping).await, (0, 0));

    world.events(&flapping, 20).await;
    world.drain(&flapping).await;
    // deliveries that failed have not ended, but their attempts count
    assert_eq!((counted(&flapping).await, world.ended(&flapping, "delivered").await), ((13, 20), 13));
    while world.live(&flapping).await > 0 {
        world.make_due(&flapping).await;
        world.drain(&flapping).await;
    }
    // two of three attempts, in any order
    assert_eq!(counted(&flapping).await, (20, 30));

    world.events(&dead, 3).await;
    world.drain(&dead).await;
    let (delivered, calls) = counted(&dead).await;
    assert_eq!((delivered, usize::try_from(calls).unwrap()), (0, world.receiver.receipts_at("/dead").len()));
    assert!(calls > 0);
    // activity beyond its retention does not count, and is removed
    sqlx::query("UPDATE webhook_activity SET minute = minute - interval '9 days' WHERE webhook_id = $1")
        .bind(dead.id)
        .execute(&world.pool)
        .await
        .unwrap();
    assert_eq!(counted(&dead).await, (0, 0));
    assert_eq!(backlog::sample(&world.services).await.unwrap(), 1);
}
