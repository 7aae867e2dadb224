//! Pulls in the line of their e-shop: their rows get a place when they arrive, and waiting for the partner
//! delays nothing.

use std::time::Duration;

use longshore_domain::job::chunk::{self as claims, Claimed};
use longshore_domain::job::suspicion::{self, Verdict};
use longshore_domain::job::{control, dispatch};
use longshore_domain::partner::push::Push;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::queue::Queue;
use longshore_testkit::receiver::{Answer, Document, Gate};
use longshore_worker::jobs::chunk::run;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::task::JoinHandle;

use super::fake::{Fake, document};
use super::support::{DUE, lines, pull, world_with_feed};
use crate::job::support::World;

const PAGES: &str = "SELECT coalesce(sum(pages), 0) FROM partner_fetch";
const LAPSE: &str = "UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE state = 'running'";

/// A feed with this many rows.
async fn fake(rows: usize) -> Fake {
    Fake::start(move |_| Answer::Document(document(lines(rows)))).await
}

/// A push of a product of the feed with another name.
async fn push(world: &World, name: &str) -> JobId {
    world.sync(Push::Products, [json!({"productSku": "F0", "name": name}).to_string()]).await
}

async fn due(world: &World) -> Vec<String> {
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    due.into_iter().filter(|(queue, _)| *queue == Queue::Chunk).map(|(_, name)| name).collect()
}

fn earlier(job: JobId) -> (String, Option<JobId>) {
    ("earlier_job".to_owned(), Some(job))
}

async fn succeeded(world: &World, jobs: &[JobId]) {
    for job in jobs {
        assert_eq!(world.outcome(*job).await.0, "succeeded");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_pull_whose_partner_hangs_delays_no_push_of_its_eshop_and_comes_after_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = fake(1).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let gate = Gate::closed();
    fake.misbehave([Some(Answer::Gated(gate.clone(), Box::new(Answer::Document(document(lines(1))))))]);
    let hanging = pull(&world).await;
    let before = push(&world, "Before").await;
    let fetching = tokio::spawn(run(world.worker.clone(), format!("{hanging}:0")));
    fake.receiver().wait_for(1, Duration::from_secs(30)).await.unwrap();
    assert_eq!(world.waits_for(hanging).await, None, "it runs");
    let meanwhile = push(&world, "Meanwhile").await;
    // no other sync waits for it, whether accepted before or after it
    world.drain().await;
    succeeded(&world, &[before, meanwhile]).await;
    assert_eq!(world.job(hanging).await["state"], "running");
    gate.open();
    fetching.await.unwrap();
    world.drain().await;
    succeeded(&world, &[hanging]).await;
    assert_eq!(
        world.count("SELECT count(*) FROM product WHERE product_sku = 'F0' AND name = 'Thing no 0'").await,
        1
    );
}

/// Pulls a feed of 1,500 rows, whose first page arrives and then nothing.
async fn first_page(world: &World, fake: &Fake) -> (JobId, JoinHandle<()>) {
    let whole = lines(1_500);
    let cut_after = Some(whole.len() * 9 / 10);
    fake.misbehave([Some(Answer::Document(Document { cut_after, hangs: true, ..document(whole) }))]);
    let pulled = pull(world).await;
    let fetching = tokio::spawn(run(world.worker.clone(), format!("{pulled}:0")));
    world.until(PAGES, 1).await;
    (pulled, fetching)
}

/// Makes the second page arrive.
async fn second_page(world: &World, pulled: JobId, fetching: JoinHandle<()>) {
    fetching.abort();
    let _ = fetching.await;
    world.execute(LAPSE).await;
    run(world.worker.clone(), format!("{pulled}:0")).await;
    assert_eq!(world.count(PAGES).await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_page_of_a_pull_has_its_place_from_its_arrival(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake(1_500).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let (pulled, fetching) = first_page(&world, &fake).await;
    let first = push(&world, "After the first page").await;
    assert_eq!(due(&world).await, [format!("{pulled}:1")]);
    run(world.worker.clone(), format!("{first}:0")).await;
    assert_eq!(
        (world.job(first).await["state"].as_str(), world.waits_for(first).await),
        (Some("queued"), Some(earlier(pulled)))
    );
    // the second page arrives while it waits
    second_page(&world, pulled, fetching).await;
    run(world.worker.clone(), format!("{pulled}:2")).await;
    assert_eq!(world.outcome(pulled).await.1, [0, 0, 0], "the second page waits for the push");
    let last = push(&world, "After the second page").await;
    assert_eq!(due(&world).await, [format!("{pulled}:1")]);
    run(world.worker.clone(), format!("{pulled}:1")).await;
    // each one that ends lets the next one run
    assert_eq!(due(&world).await, [format!("{first}:0")]);
    assert_eq!(
        (world.waits_for(pulled).await, world.waits_for(last).await),
        (Some(earlier(first)), Some(earlier(first)))
    );
    run(world.worker.clone(), format!("{first}:0")).await;
    assert_eq!(due(&world).await, [format!("{pulled}:2")]);
    assert_eq!(world.waits_for(last).await, Some(earlier(pulled)));
    world.drain().await;
    succeeded(&world, &[pulled, first, last]).await;
    let name = "SELECT count(*) FROM product WHERE product_sku = 'F0' AND name = 'After the second page'";
    assert_eq!(world.count(name).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn both_halves_of_a_page_keep_its_place(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake(1_500).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let (pulled, fetching) = first_page(&world, &fake).await;
    let between = push(&world, "Between the pages").await;
    second_page(&world, pulled, fetching).await;
    let claimed = claims::claim(&world.services.db.main, pulled, 1, false).await.unwrap();
    let Claimed::Now(page) = claimed else { panic!("{claimed:?}") };
    let verdict = suspicion::died_alone(&world.services, &page, true, "signal 6").await.unwrap();
    assert_eq!(verdict, Verdict::Halved);
    run(world.worker.clone(), format!("{pulled}:1")).await;
    assert_eq!(world.waits_for(between).await, Some(earlier(pulled)), "the other half is before it");
    assert_eq!(due(&world).await, [format!("{pulled}:-1")]);
    world.drain().await;
    succeeded(&world, &[pulled, between]).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn at_the_limit_of_unfinished_jobs_an_equal_pull_returns_the_waiting_one(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = fake(1).await;
    let mut world = world_with_feed(&options, &fake, json!({})).await;
    world.services.unfinished_jobs = 1;
    let waiting = pull(&world).await;
    assert_eq!(pull(&world).await, waiting);
    assert_eq!(world.count("SELECT count(*) FROM job").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_pull_waits_only_for_one_of_the_same_source(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake(1).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    fake.misbehave([Some(Answer::RetryAfter(503, 600))]);
    let first = pull(&world).await;
    run(world.worker.clone(), format!("{first}:0")).await;
    assert_eq!(world.waits_for(first).await, Some(("partner".to_owned(), None)));
    let follower = pull(&world).await;
    assert_ne!(follower, first);
    assert_eq!(world.waits_for(follower).await, Some(earlier(first)));
    world.drain().await;
    run(world.worker.clone(), format!("{follower}:0")).await;
    assert_eq!(world.job(follower).await["state"], "queued");
    // a pull from another source runs
    let body = json!({"eshop": world.tenant.eshop, "inventoryId": "other"});
    let other =
        longshore_domain::partner::pull::accept(&world.services, &world.context, Push::Products, body);
    let other = other.await.unwrap().job.unwrap();
    world.drain().await;
    succeeded(&world, &[other]).await;
    assert_eq!(world.job(follower).await["state"], "queued");
    world.execute(DUE).await;
    world.drain().await;
    succeeded(&world, &[first, follower]).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_retried_pull_has_its_place_from_the_retry(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake(1).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let body = format!("{}{}\n", lines(1), json!({"productSku": "late"}));
    fake.misbehave([Some(Answer::Document(document(body)))]);
    let pulled = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(pulled).await, ("succeeded".to_owned(), [1, 0, 1]), "a new product has a name");
    let named =
        world.sync(Push::Products, [json!({"productSku": "late", "name": "Named"}).to_string()]).await;
    control::retry(&world.services, &world.context, pulled).await.unwrap();
    assert_eq!((world.waits_for(named).await, world.waits_for(pulled).await), (None, Some(earlier(named))));
    run(world.worker.clone(), format!("{pulled}:2")).await;
    assert_eq!(world.job(pulled).await["state"], "queued");
    world.drain().await;
    assert_eq!(world.outcome(pulled).await, ("succeeded".to_owned(), [1, 1, 0]));
    // a retry of the failed call alone is not in the line
    fake.misbehave([Some(Answer::Status(404))]);
    let failing = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(failing).await.0, "failed");
    fake.misbehave([Some(Answer::RetryAfter(503, 600))]);
    control::retry(&world.services, &world.context, failing).await.unwrap();
    let push = push(&world, "Push").await;
    world.drain().await;
    succeeded(&world, &[push]).await;
    assert_eq!(world.outcome(failing).await.0, "retrying");
    control::cancel(&world.services, &world.context, failing).await.unwrap();
    assert_eq!(world.waits_for(failing).await, None);
}
