use std::time::Duration;

use http::header::CONTENT_ENCODING;
use longshore_domain::job::control;
use longshore_domain::partner::push::Push;
use longshore_domain::partner::setting::{self, LastError};
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::receiver::{Answer, Document};
use longshore_worker::context::WorkerContext;
use longshore_worker::jobs::chunk::run;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fake::{Fake, document};
use super::support::{DUE, gzip, lines, pull, store_setting, world_with_feed};
use crate::job::support::World;

async fn fake() -> Fake {
    Fake::start(|_| Answer::Document(document(lines(3)))).await
}

async fn last_error(world: &World) -> Option<LastError> {
    let setting = setting::of_eshop(&world.services, world.tenant.eshop).await.unwrap();
    setting.unwrap().standing.last_error
}

/// Pulls while the partner always gives this answer; returns the state and the error of the job.
async fn pull_of(options: &PgConnectOptions, answer: Answer) -> (World, JobId, String, String) {
    let fake = Fake::start(move |_| answer.clone()).await;
    let world = world_with_feed(options, &fake, json!({})).await;
    let job = pull(&world).await;
    world.drain().await;
    let shown = world.job(job).await;
    let text = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
    let (state, error) = (text("state"), text("error"));
    (world, job, state, error)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_setting_that_is_switched_off_or_deleted_cancels_what_waits_for_its_partner(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let cancelled = async |job: JobId, why: &str| {
        let shown = world.job(job).await;
        assert_eq!(
            (shown["state"].as_str(), shown["error"].as_str()),
            (Some("cancelled"), Some(why)),
            "{shown}"
        );
        assert!(last_error(&world).await.is_none(), "nothing went wrong");
    };
    let off = "the integration setting of the e-shop was switched off";

    // one waits for its next attempt
    fake.misbehave((0..3).map(|_| Some(Answer::Status(503))));
    let retrying = pull(&world).await;
    world.drain().await;
    assert_eq!(world.job(retrying).await["state"], "retrying");
    let calls = fake.receipts().len();
    store_setting(&world, &fake.url(), json!({"active": false})).await;
    cancelled(retrying, off).await;
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(fake.receipts().len(), calls, "nobody calls an inactive partner");
    cancelled(retrying, off).await;

    // one is accepted while the setting is being switched off
    store_setting(&world, &fake.url(), json!({"active": true})).await;
    let late = pull(&world).await;
    world.execute("UPDATE integration_setting SET active = false").await;
    world.drain().await;
    cancelled(late, off).await;

    // rows that were fetched are stored without the partner
    store_setting(&world, &fake.url(), json!({"active": true})).await;
    let fetched = pull(&world).await;
    run(world.worker.clone(), format!("{fetched}:0")).await;
    store_setting(&world, &fake.url(), json!({"active": false})).await;
    world.drain().await;
    assert_eq!(world.outcome(fetched).await, ("succeeded".to_owned(), [3, 0, 0]));

    store_setting(&world, &fake.url(), json!({"active": true})).await;
    let orphan = pull(&world).await;
    setting::store::delete(&world.services, &world.context, world.tenant.eshop).await.unwrap();
    let shown = world.job(orphan).await;
    assert_eq!(shown["error"], "the integration setting of the e-shop was deleted", "{shown}");
    assert_eq!(shown["state"], "cancelled");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_that_a_person_cancels_keeps_its_last_error(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave((0..3).map(|_| Some(Answer::Status(503))));
    let job = pull(&world).await;
    world.drain().await;
    control::cancel(&world.services, &world.context, job).await.unwrap();
    let shown = world.job(job).await;
    assert_eq!(
        (&shown["state"], &shown["error"]),
        (&json!("cancelled"), &json!("the feed answers HTTP 503"))
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_brief_failure_is_retried_at_once(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(Answer::Status(502)), Some(Answer::Cut)]);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert_eq!(fake.receipts().len(), 3);
    assert_eq!(world.job(job).await["attempts"], 1, "within one execution of the chunk");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lasting_failure_is_retried_by_the_job_which_shows_the_reason(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave((0..3).map(|_| Some(Answer::Status(503))));
    let job = pull(&world).await;
    world.drain().await;
    let shown = world.job(job).await;
    assert_eq!((&shown["state"], &shown["error"]), (&json!("retrying"), &json!("the feed answers HTTP 503")));
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert_eq!(world.job(job).await["attempts"], 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_endless_failure_fails_the_job_and_a_retry_continues_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(Answer::Status(503)), Some(Answer::Status(503)), Some(Answer::Status(503))]);
    let job = pull(&world).await;
    world.execute("UPDATE job_chunk SET attempts = 9").await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("failed".to_owned(), [0, 0, 0]));
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_partner_that_asks_for_a_pause_gets_one(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(Answer::RetryAfter(429, 600))]);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(fake.receipts().len(), 1);
    let waits = "SELECT count(*) FROM job_chunk WHERE next_attempt_at > now() + interval '500 seconds'";
    assert_eq!(world.count(waits).await, 1);
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await.0, "succeeded");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_that_waits_for_its_partner_lets_others_pass_and_its_rows_come_after_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let whole = lines(1_500);
    let mut cut = document(whole.clone());
    cut.cut_after = Some(whole.len() * 9 / 10);
    fake.misbehave([Some(Answer::Document(cut)), Some(Answer::RetryAfter(503, 600))]);
    fake.misbehave([Some(Answer::Document(document(whole)))]);
    let waiting = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(waiting).await, ("retrying".to_owned(), [1_000, 0, 0]));
    let push = world.sync(Push::Products, [json!({"productSku": "push", "name": "Push"}).to_string()]).await;
    world.drain().await;
    assert_eq!(world.outcome(push).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.waits_for(waiting).await, Some(("partner".to_owned(), None)));
    // it is due again, but another sync is in the line before its rows
    let next = world.sync(Push::Products, [json!({"productSku": "next", "name": "Next"}).to_string()]).await;
    world.execute(DUE).await;
    run(world.worker.clone(), format!("{waiting}:0")).await;
    run(world.worker.clone(), format!("{waiting}:2")).await;
    assert_eq!(world.outcome(waiting).await, ("running".to_owned(), [1_000, 0, 0]));
    assert_eq!(world.waits_for(waiting).await, Some(("earlier_job".to_owned(), Some(next))));
    let number = async |job| world.job(job).await["acceptance"].as_i64().unwrap();
    assert!(number(waiting).await > number(next).await);
    world.drain().await;
    assert_eq!(world.outcome(next).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.outcome(waiting).await, ("succeeded".to_owned(), [1_500, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_partner_that_hangs_is_retried_later(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = Fake::start(|_| Answer::Hang).await;
    let mut world = world_with_feed(&options, &fake, json!({})).await;
    world.worker.partners.patience = Duration::from_millis(50);
    let job = pull(&world).await;
    world.drain().await;
    let shown = world.job(job).await;
    assert_eq!(shown["state"], "retrying");
    assert!(shown["error"].as_str().unwrap().contains("no complete response within 0.05 s"), "{shown}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn credentials_revoked_during_a_fetch_fail_the_job_which_keeps_the_received_rows(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|_| Answer::Status(401)).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let whole = lines(2_500);
    let mut cut = document(whole.clone());
    cut.cut_after = Some(whole.len() * 6 / 10);
    fake.misbehave([Some(Answer::Document(cut))]);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("failed".to_owned(), [1_000, 0, 0]));
    let error = world.job(job).await["error"].as_str().unwrap().to_owned();
    assert_eq!(
        error,
        "the feed refuses the credentials (HTTP 401): store new ones in the integration setting"
    );
    let shown = last_error(&world).await.unwrap();
    assert_eq!((shown.job, shown.kind.as_str(), shown.message), (job, "product.sync", error));
    // the operator does so
    let healthy = Fake::start(move |_| Answer::Document(document(whole.clone()))).await;
    store_setting(&world, &healthy.url(), json!({})).await;
    assert_eq!(last_error(&world).await, None, "that was another setting");
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_500, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_error_of_a_setting_remains_until_a_success(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(Answer::Status(404))]);
    pull(&world).await;
    world.drain().await;
    assert!(last_error(&world).await.unwrap().message.contains("HTTP 404"));
    pull(&world).await;
    assert!(last_error(&world).await.is_some());
    world.drain().await;
    assert_eq!(last_error(&world).await, None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_redirect_is_not_followed(_: PgPoolOptions, options: PgConnectOptions) {
    let (_, _, state, error) = pull_of(&options, Answer::Redirect("http://127.0.0.1:1/".to_owned())).await;
    assert_eq!(state, "failed");
    assert!(error.contains("redirect (HTTP 307)") && error.contains("baseUrl"), "{error}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_page_of_html_and_a_broken_document_are_reported(_: PgPoolOptions, options: PgConnectOptions) {
    for (body, says) in [
        ("<html><body>Sign in</body></html>", "HTML"),
        ("[{\"productSku\":\"A\",\"name\":\"Mug\"} {", "comma"),
        ("[{\"productSku\":\"A\",\"name\":\"Mug\"},", "ends before"),
        ("PK\u{3}\u{4}", "Excel"),
    ] {
        let (_, _, state, error) = pull_of(&options, Answer::Document(document(body))).await;
        assert_eq!(state, "failed", "{body}");
        assert!(error.contains(says), "{error}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_in_utf_16_or_a_coding_that_is_not_known_fails(_: PgPoolOptions, options: PgConnectOptions) {
    let utf_16: Vec<u8> = lines(2).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&[0xff, 0xfe][..], &utf_16].concat();
    let coded = |coding: &str| Document {
        headers: vec![(CONTENT_ENCODING, coding.to_owned())],
        ..document("x\u{9c}")
    };
    for (feed, says) in [
        (document(utf_16), "it looks like UTF-16; serve it in UTF-8"),
        (document(gzip(&marked)), "it looks like UTF-16; serve it in UTF-8"),
        (coded("deflate"), "Content-Encoding: deflate, which cannot be read"),
        (coded("gzip, br"), "Content-Encoding: br, which cannot be read"),
    ] {
        let (world, _, state, error) = pull_of(&options, Answer::Document(feed)).await;
        assert_eq!(state, "failed", "{says}");
        assert!(error.contains(says), "{error}");
        assert_eq!(world.count("SELECT count(*) FROM job_item_error").await, 0);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_damaged_archive_and_a_bomb_are_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let mut damaged = gzip(lines(100).as_bytes());
    let middle = damaged.len() / 2;
    damaged.truncate(middle);
    let bomb = gzip(&vec![b'\n'; 100 * 1024 * 1024]);
    for (body, says) in [(damaged, "gzip"), (bomb, "300 times its size")] {
        let (_, _, state, error) = pull_of(&options, Answer::Document(document(body))).await;
        assert_eq!(state, "failed");
        assert!(error.contains(says), "{error}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_line_of_64_mib_is_refused_by_itself(_: PgPoolOptions, options: PgConnectOptions) {
    let long = format!("{{\"productSku\":\"long\",\"name\":\"{}\"}}\n", "x".repeat(64 * 1024 * 1024));
    let body = format!("{}{long}{}", lines(1), json!({"productSku": "last", "name": "The last"}));
    let (world, job, state, _) = pull_of(&options, Answer::Document(document(body))).await;
    assert_eq!(state, "succeeded");
    assert_eq!(world.outcome(job).await.1, [2, 0, 1]);
    assert_eq!(world.errors(job).await, ["1 malformed_row"]);
    assert_eq!(world.count("SELECT max(length(payload))::bigint FROM job_item_error").await, 1024);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_address_inside_is_not_called(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake().await;
    let mut world = world_with_feed(&options, &fake, json!({})).await;
    let mut services = world.services.clone();
    services.outbound.webhook_allow_subnets.clear();
    world.worker = WorkerContext::new(services).unwrap();
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await.0, "failed");
    let error = world.job(job).await["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("the feed has a private address"), "{error}");
    assert_eq!(fake.receipts().len(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_that_repeats_itself_endlessly_is_stopped(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, job, state, error) =
        pull_of(&options, Answer::Document(document(lines(1_000).repeat(40)))).await;
    assert_eq!(state, "failed");
    assert!(error.contains("the partner repeats itself"), "{error}");
    assert_eq!(world.outcome(job).await.1, [1_000, 0, 10_000]);
}
