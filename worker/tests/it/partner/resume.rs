use longshore_domain::job::control;
use longshore_domain::job::kind::JobKind;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::receiver::{Answer, Document};
use longshore_worker::jobs::chunk::run;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fake::{Fake, document};
use super::support::{DUE, lines, pull, world_with_feed};
use crate::job::support::World;

const ROWS: usize = 2_500;
const PAGES: &str = "SELECT coalesce(sum(pages), 0) FROM partner_fetch";
const LAPSE: &str = "UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE state = 'running'";

/// A part of the feed that ends after the first or second page.
fn part(hangs: bool) -> Answer {
    let whole = lines(ROWS);
    let cut_after = Some(whole.len() * 6 / 10);
    Answer::Document(Document { cut_after, hangs, ..document(whole) })
}

/// The feed without its first rows.
fn shrunk(by: usize) -> String {
    lines(ROWS).split_inclusive('\n').skip(by).collect()
}

async fn all_is_in(world: &World) {
    assert_eq!(world.count("SELECT count(*) FROM product WHERE product_sku LIKE 'F%'").await, 2_500);
    assert_eq!(world.count("SELECT count(*) FROM job_item_error").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM partner_fetch_key").await, 0, "they are of no use any more");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_fetch_whose_connection_is_cut_continues_at_its_position(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|_| Answer::Document(document(lines(ROWS)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(part(false))]);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_500, 0, 0]));
    assert_eq!(fake.receipts().len(), 2);
    all_is_in(&world).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_recorded_page_resets_the_attempts(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = Fake::start(|_| Answer::Document(document(lines(ROWS)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    // longer than recording the received pages takes
    fake.misbehave([Some(part(false)), Some(Answer::RetryAfter(503, 60))]);
    let job = pull(&world).await;
    world.execute("UPDATE job_chunk SET attempts = 9").await;
    world.drain().await;
    let shown = world.job(job).await;
    assert_eq!((&shown["state"], &shown["error"]), (&json!("retrying"), &json!("the feed answers HTTP 503")));
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_500, 0, 0]));
    // what waited, and the turn that ended it
    let counted: Vec<String> =
        world.counted("partner").await.into_iter().map(|(outcome, _)| outcome).collect();
    assert_eq!(counted, ["failed", "succeeded"]);
    all_is_in(&world).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_that_changed_during_an_interruption_is_read_from_the_start(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let version = |text: &str| vec![(http::header::ETAG, text.to_owned())];
    let second = version("\"two\"");
    let fake =
        Fake::start(move |_| Answer::Document(Document { headers: second.clone(), ..document(lines(ROWS)) }))
            .await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let outdated = lines(ROWS).replace(r#""name":""#, r#""name":"Outdated "#);
    let cut_after = Some(outdated.len() * 6 / 10);
    let first = Document { cut_after, headers: version("\"one\""), ..document(outdated) };
    fake.misbehave([Some(Answer::Document(first))]);
    let job = pull(&world).await;
    run(world.worker.clone(), format!("{job}:0")).await;
    let void = "SELECT count(*) FROM job_chunk WHERE state = 'cancelled' AND payload IS NULL";
    assert!(world.count(void).await > 0, "a page of the first had come");
    // the last chunk first: in any order of execution, no row of the first version comes after the second
    let last = world.count("SELECT max(number)::bigint FROM job_chunk").await;
    for number in (1..=last).rev() {
        run(world.worker.clone(), format!("{job}:{number}")).await;
    }
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_500, 0, 0]));
    assert_eq!(world.count("SELECT total::bigint FROM job").await, 2_500);
    let outdated = "SELECT count(*) FROM product WHERE name LIKE 'Outdated%'";
    assert_eq!(world.count(outdated).await, 0);
    all_is_in(&world).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_without_a_version_that_shrank_during_an_interruption_is_read_from_the_start(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|_| Answer::Document(document(shrunk(1)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(part(false))]);
    let job = pull(&world).await;
    run(world.worker.clone(), format!("{job}:0")).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_499, 0, 0]));
    // at its former place, there is the row behind it
    assert_eq!(world.count("SELECT count(*) FROM product WHERE product_sku = 'F1000'").await, 1);
    assert_eq!(fake.receipts().len(), 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_that_changes_whenever_it_is_read_is_read_to_its_end(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|_| Answer::Document(document(shrunk(8)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let cut = |by: usize| {
        let feed = shrunk(by);
        let cut_after = Some(feed.len() * 6 / 10);
        Some(Answer::Document(Document { cut_after, ..document(feed) }))
    };
    fake.misbehave((1..8).map(cut));
    let job = pull(&world).await;
    run(world.worker.clone(), format!("{job}:0")).await;
    world.execute(DUE).await;
    run(world.worker.clone(), format!("{job}:0")).await;
    // each time it breaks off, it is found changed and read again: thrice
    assert_eq!(fake.receipts().len(), 8);
    world.drain().await;
    // a thousand rows of the last that broke off, and those behind as many of the whole one: between them, one was missed
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_492, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE product_sku = 'F1007'").await, 0);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 2_491, 0]), "the next fetch finds it");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_successor_of_a_dead_worker_continues_at_its_page(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = Fake::start(|_| Answer::Document(document(lines(ROWS)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(part(true))]);
    let job = pull(&world).await;
    let running = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    world.until(PAGES, 1).await;
    running.abort();
    let _ = running.await;
    assert_eq!(world.count("SELECT total::bigint FROM job").await, 1_000);
    // received rows are written while the rest is awaited
    run(world.worker.clone(), format!("{job}:1")).await;
    assert_eq!(world.count("SELECT done::bigint FROM job WHERE state = 'running'").await, 1_000);
    world.execute(LAPSE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_500, 0, 0]));
    assert_eq!(world.count(PAGES).await, 3);
    all_is_in(&world).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_worker_that_was_taken_over_records_no_more_pages(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = Fake::start(|_| Answer::Document(document(lines(ROWS)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let gate = longshore_testkit::receiver::Gate::closed();
    let late = Answer::Gated(gate.clone(), Box::new(Answer::Document(document(lines(ROWS)))));
    fake.misbehave([Some(late)]);
    let job = pull(&world).await;
    let stale = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    fake.receiver().wait_for(1, std::time::Duration::from_secs(30)).await.unwrap();
    world.execute(LAPSE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_500, 0, 0]));
    gate.open();
    stale.await.unwrap();
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_500, 0, 0]));
    assert_eq!(world.count(PAGES).await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cancelled_fetch_stops_and_keeps_its_changes(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = Fake::start(|_| Answer::Document(document(lines(ROWS)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(part(true))]);
    let job = pull(&world).await;
    let keeping = tokio::spawn(world.worker.leases.clone().keep_alive());
    let running = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    world.until(PAGES, 1).await;
    run(world.worker.clone(), format!("{job}:1")).await;
    control::cancel(&world.services, &world.context, job).await.unwrap();
    running.await.unwrap();
    assert_eq!(world.outcome(job).await, ("cancelled".to_owned(), [1_000, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM partner_fetch_key").await, 0);
    assert_eq!(world.drain().await, 0);
    keeping.abort();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_equal_request_returns_the_waiting_job_and_one_follows_a_running_job(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|_| Answer::Document(document(lines(1)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let jobs = futures::future::join_all((0..8).map(|_| pull(&world))).await;
    assert!(jobs.iter().all(|job| *job == jobs[0]), "{jobs:?}");
    fake.misbehave([Some(part(true))]);
    let running = tokio::spawn(run(world.worker.clone(), format!("{}:0", jobs[0])));
    world.until(PAGES, 1).await;
    let followers = futures::future::join_all((0..8).map(|_| pull(&world))).await;
    assert!(followers.iter().all(|job| *job == followers[0] && *job != jobs[0]), "{followers:?}");
    assert_eq!(world.count("SELECT count(*) FROM job").await, 2);
    running.abort();
    let _ = running.await;
    world.execute(LAPSE).await;
    world.drain().await;
    assert_eq!(world.count("SELECT count(*) FROM job WHERE state = 'succeeded'").await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_suspect_that_calls_its_partner_keeps_no_other_chunk_waiting(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|_| Answer::Document(document(lines(1)))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let gate = longshore_testkit::receiver::Gate::closed();
    fake.misbehave([Some(Answer::Gated(gate.clone(), Box::new(Answer::Document(document(lines(1))))))]);
    let fetch = pull(&world).await;
    let ids = world.products(1).await;
    let switch = world.switch(JobKind::ProductDeactivate, &ids).await;
    // their process died while both were running
    world.execute("UPDATE job_chunk SET crashes = 1").await;
    let fetching = tokio::spawn(run(world.worker.clone(), format!("{fetch}:0")));
    fake.receiver().wait_for(1, std::time::Duration::from_secs(30)).await.unwrap();
    run(world.worker.clone(), format!("{switch}:0")).await;
    assert_eq!(world.outcome(switch).await, ("succeeded".to_owned(), [1, 0, 0]));
    gate.open();
    fetching.await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(fetch).await, ("succeeded".to_owned(), [1, 0, 0]));
}
