//! Chunks that kill their process are distinguished from those whose process was killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use longshore_domain::job::chunk::{self as claims, Claimed};
use longshore_domain::job::dispatch;
use longshore_domain::job::kind::JobKind;
use longshore_domain::job::kind::JobKind::ProductDeactivate;
use longshore_domain::job::payload;
use longshore_domain::partner::push::Push::Products;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::context::WorkerContext;
use longshore_worker::isolation::{Ended, Isolation};
use longshore_worker::jobs::chunk;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const LAPSE: &str = "UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE state = 'running'";
const NOW: &str = "UPDATE job_chunk SET next_attempt_at = now() WHERE state = 'queued'";

/// Simulates separate processes that die if an item is in their chunk, and counts them.
fn dying_of(
    context: &WorkerContext,
    poison: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
) -> (Isolation, Arc<AtomicUsize>) {
    let (context, poison, started) = (context.clone(), Arc::new(poison), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&started);
    let isolation = Isolation::by(move |claim| {
        let (context, poison) = (context.clone(), Arc::clone(&poison));
        count.fetch_add(1, Relaxed);
        async move {
            let items: Vec<Vec<u8>> = if claim.has_rows() {
                payload::unpack_rows(&claim.payload).unwrap().iter().map(|row| row.to_vec()).collect()
            } else {
                payload::unpack_ids::<uuid::Uuid>(&claim.payload)
                    .unwrap()
                    .iter()
                    .map(|id| id.as_bytes().to_vec())
                    .collect()
            };
            if items.iter().any(|item| poison(item)) {
                return Ended::Died("signal 6".to_owned());
            }
            chunk::run_alone(&context, claim.held()).await.unwrap();
            Ended::Recorded
        }
    });
    (isolation, started)
}

/// As if the process that runs the first chunk of a job were killed.
async fn killed_from_outside(world: &World, job: JobId) {
    let claimed = claims::claim(&world.services.db.main, job, 0, true).await.unwrap();
    assert!(matches!(claimed, Claimed::Now(_)));
    world.execute(LAPSE).await;
}

/// Runs chunks until nothing is left, without waiting for retries; returns the number of runs.
async fn drain(world: &World) -> usize {
    let mut runs = 0;
    loop {
        world.execute(NOW).await;
        let more = world.drain().await;
        runs += more;
        if more == 0 {
            return runs;
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_the_item_that_kills_its_process_fails_of_a_thousand(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let ids = world.products(1_000).await;
    let poison = ids[637];
    let (isolation, started) = dying_of(&world.worker, move |item| item == poison.get().as_bytes());
    world.worker.isolation = Some(isolation);
    let job = world.switch(ProductDeactivate, &ids).await;
    killed_from_outside(&world, job).await;
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [999, 0, 1]));
    assert_eq!(world.errors(job).await, [format!("637 {poison} process_died")]);
    assert!(started.load(Relaxed) < 30, "{started:?} processes");
    assert_eq!(world.count("SELECT count(*) FROM product WHERE active").await, 1);
    // a retry runs only that item again
    world.worker.isolation = None;
    longshore_domain::job::control::retry(&world.services, &world.context, job).await.unwrap();
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1_000, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn halves_keep_the_positions_the_lines_and_the_duplicates_of_their_rows(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let row = |sku: &str| format!(r#"{{"productSku":"{sku}","name":"Mug"}}"#);
    let rows = [row("A"), row("B"), "no row".to_owned(), row("KILLS"), row("C"), row("A"), row("D")];
    let (isolation, _) = dying_of(&world.worker, |item| item.windows(5).any(|part| part == b"KILLS"));
    world.worker.isolation = Some(isolation);
    let job = world.sync(Products, rows).await;
    killed_from_outside(&world, job).await;
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [4, 0, 3]));
    assert_eq!(world.errors(job).await, ["2 malformed_row", "3 process_died", "5 A duplicate"]);
    assert_eq!(world.error_lines(job).await, [Some(7), Some(9), Some(13)]);
    let named =
        "SELECT count(*) FROM job_item_error WHERE message = 'the row in line 3 has the same productSku'";
    assert_eq!(world.count(named).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn halves_of_a_job_in_order_are_executed_before_all_that_follows(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let worker = world.worker.clone();
    world.worker.isolation = Some(Isolation::by(move |claim| {
        let worker = worker.clone();
        async move {
            if claim.item_count > 250 {
                return Ended::Died("signal 6".to_owned());
            }
            chunk::run_alone(&worker, claim.held()).await.unwrap();
            Ended::Recorded
        }
    }));
    let job = world.switch(ProductDeactivate, &world.products(1_002).await).await;
    world.execute("UPDATE job SET in_order = true").await;
    killed_from_outside(&world, job).await;
    let mut order = Vec::new();
    while let Some((_, name)) = dispatch::due(&world.services.db.main).await.unwrap().pop() {
        let first = "SELECT first_index, item_count FROM job_chunk WHERE job_id || ':' || number = $1";
        let first: (i32, i32) = sqlx::query_as(first).bind(&name).fetch_one(&world.owner).await.unwrap();
        order.push(first);
        chunk::run(world.worker.clone(), name).await;
    }
    let halves = [(0, 1_000), (0, 500), (0, 250), (250, 250), (500, 500), (500, 250), (750, 250), (1_000, 2)];
    assert_eq!(order, halves);
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1_002, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_single_item_waits_between_its_deaths_and_succeeds_if_its_process_survives(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let ids = world.products(1).await;
    let deaths = Arc::new(AtomicUsize::new(0));
    let died = Arc::clone(&deaths);
    let (isolation, _) = dying_of(&world.worker, move |_| died.fetch_add(1, Relaxed) < 2);
    world.worker.isolation = Some(isolation);
    let job = world.switch(ProductDeactivate, &ids).await;
    killed_from_outside(&world, job).await;
    assert_eq!(world.drain().await, 1, "then it waits");
    assert_eq!(world.job(job).await["state"], "retrying");
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(deaths.load(Relaxed), 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_that_is_killed_from_outside_repeatedly_runs_alone_and_succeeds(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let ids = world.products(10).await;
    let (isolation, started) = dying_of(&world.worker, |_| false);
    world.worker.isolation = Some(isolation);
    let job = world.switch(ProductDeactivate, &ids).await;
    for _ in 0..20 {
        killed_from_outside(&world, job).await;
    }
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [10, 0, 0]));
    assert_eq!(started.load(Relaxed), 1);
    assert_eq!(world.count("SELECT count(*) FROM job_chunk").await, 1, "nothing was halved");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn kills_from_outside_spend_no_attempt(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    for _ in 0..20 {
        killed_from_outside(&world, job).await;
    }
    let fail = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'made to'; END $$;
                CREATE TRIGGER fail BEFORE UPDATE ON product EXECUTE FUNCTION fail()";
    world.execute(fail).await;
    chunk::run(world.worker.clone(), format!("{job}:0")).await;
    let row = world.job(job).await;
    assert_eq!((row["state"].as_str(), row["attempts"].as_i64()), (Some("retrying"), Some(1)), "{row}");
    world.execute("DROP TRIGGER fail ON product").await;
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.job(job).await["attempts"], 2);
    assert_eq!(world.count("SELECT crashes::bigint FROM job_chunk").await, 20);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_suspect_whose_process_fails_does_not_run_in_the_worker(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let arguments = vec!["-c".into(), "exit 1".into()];
    world.worker.isolation = Some(Isolation::program("/bin/sh".into(), arguments));
    let ids = world.products(1).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    killed_from_outside(&world, job).await;
    chunk::run(world.worker.clone(), format!("{job}:0")).await;
    let waits = "SELECT count(*) FROM job_chunk WHERE state = 'queued' AND attempts = 0 AND crashes = 1
                     AND next_attempt_at <= now() + interval '1 second'";
    assert_eq!(world.count(waits).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM product WHERE active").await, 1, "nothing was executed");
    // when it has waited for long, the job says why
    world
        .execute("UPDATE job_chunk SET waits_since = now() - interval '10 minutes', next_attempt_at = now()")
        .await;
    chunk::run(world.worker.clone(), format!("{job}:0")).await;
    let row = world.job(job).await;
    assert_eq!(row["state"], "retrying");
    let reason = "its separate process did not record what became of it (exit status: 1)";
    assert_eq!(row["error"], reason);
    world.worker.isolation = None;
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_program_executes_a_claim_and_without_it_the_chunk_runs_in_the_worker(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let ids = world.products(3).await;
    world.worker.isolation = Some(Isolation::program("/nowhere/at/all".into(), Vec::new()));
    let job = world.switch(ProductDeactivate, &ids).await;
    killed_from_outside(&world, job).await;
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));

    let url = sqlx::ConnectOptions::to_url_lossy(&options);
    let settings = [
        format!("--database-url={url}"),
        format!("--encryption-key=test:{}", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="),
    ];
    let program = env!("CARGO_BIN_EXE_longshore-worker");
    world.worker.isolation =
        Some(Isolation::program(program.into(), settings.into_iter().map(Into::into).collect()));
    let job = world.switch(JobKind::ProductActivate, &ids).await;
    killed_from_outside(&world, job).await;
    drain(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert_eq!(world.count("SELECT max(crashes)::bigint FROM job_chunk").await, 1);
}
