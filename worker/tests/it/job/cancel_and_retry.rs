use longshore_domain::job::chunk::{self, Claimed, Count};
use longshore_domain::job::kind::JobKind::ProductDeactivate;
use longshore_domain::job::{control, execution, failing};
use longshore_domain::partner::push::Push::Stocks;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk::run;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cancelled_job_keeps_its_changes_and_makes_no_more(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(1_001).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    run(world.worker.clone(), format!("{job}:1")).await;
    control::cancel(&world.services, &world.context, job).await.unwrap();
    assert_eq!(world.drain().await, 0);
    assert_eq!(world.outcome(job).await, ("cancelled".to_owned(), [1, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE NOT active").await, 1);
    let again = control::cancel(&world.services, &world.context, job).await.unwrap_err();
    assert_eq!(again.kind().status, 409);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_of_another_organisation_cannot_be_cancelled_or_retried(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    let other = longshore_testkit::world::Tenant::create(&world.services, "Other").await.unwrap();
    let stranger = super::support::context_of(&other);
    assert_eq!(control::cancel(&world.services, &stranger, job).await.unwrap_err().kind().status, 404);
    assert_eq!(control::retry(&world.services, &stranger, job).await.unwrap_err().kind().status, 404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_retry_does_the_refused_items_and_only_those(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(3).await;
    let rows = [
        r#"{"productSku":"P0","quantity":5}"#.to_owned(),
        r#"{"productSku":"NEW","quantity":7}"#.to_owned(),
        r#"{"productSku":"P1","quantity":2000000000}"#.to_owned(),
        r#"{"productSku":"P0","quantity":9}"#.to_owned(),
    ];
    let job = world.sync(Stocks, rows).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 3]));
    assert_eq!(world.errors(job).await, ["1 NEW unknown_product", "2 P1 out_of_range", "3 P0 duplicate"]);

    // after the product exists, its refused row succeeds; the others are refused again, at their old
    // positions
    world.execute("UPDATE product SET product_sku = 'NEW' WHERE product_sku = 'P2'").await;
    let before = world.job(job).await["acceptance"].as_i64().unwrap();
    control::retry(&world.services, &world.context, job).await.unwrap();
    assert!(world.job(job).await["acceptance"].as_i64().unwrap() > before, "a retry is a new acceptance");
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 2]));
    assert_eq!(world.errors(job).await, ["2 P1 out_of_range", "3 P0 duplicate"]);
    assert_eq!(world.count("SELECT sum(quantity)::bigint FROM product_stock").await, 12);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_retry_runs_a_chunk_that_failed_permanently(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(2).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    let Claimed::Now(claim) = chunk::claim(&world.services.db.main, job, 0, true).await.unwrap() else {
        panic!("it is due");
    };
    let _ = failing::give_up(&world.services, &claim, "broken").await.unwrap();
    assert_eq!(world.outcome(job).await, ("failed".to_owned(), [0, 0, 2]));
    assert_eq!(world.errors(job).await, [0, 1].map(|n| format!("{n} {} chunk_failed", ids[n])));
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!(world.errors(job).await, [""; 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_that_failed_permanently_lists_its_rows_and_holds_up_no_later_job(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.products(3).await;
    let row = |sku: &str, quantity: u32| format!(r#"{{"productSku":"{sku}","quantity":{quantity}}}"#);
    let job = world.sync(Stocks, [row("P0", 5), "no row".to_owned(), row("P1", 6)]).await;
    let next = world.sync(Stocks, [row("P2", 7)]).await;
    let Claimed::Now(claim) = chunk::claim(&world.services.db.main, job, 0, true).await.unwrap() else {
        panic!("it is due");
    };
    let _ = failing::give_up(&world.services, &claim, "broken").await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(next).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.outcome(job).await, ("failed".to_owned(), [0, 0, 3]));
    assert_eq!(world.errors(job).await, ["0 P0 chunk_failed", "1 chunk_failed", "2 P1 chunk_failed"]);
    assert!(world.error_lines(job).await.iter().all(Option::is_some));
    // each row is executed once, and has the error that it deserves
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 1]));
    assert_eq!(world.errors(job).await, ["1 malformed_row"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_the_item_that_ends_in_an_internal_error_fails_of_a_thousand(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1_000).await;
    world
        .execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'made to'; END $$;
             CREATE TRIGGER fail BEFORE UPDATE ON product FOR EACH ROW WHEN (OLD.product_sku = 'P637')
             EXECUTE FUNCTION fail()",
        )
        .await;
    let job = world.switch(ProductDeactivate, &ids).await;
    loop {
        world.execute("UPDATE job_chunk SET next_attempt_at = now() WHERE state = 'queued'").await;
        if world.drain().await == 0 {
            break;
        }
    }
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [999, 0, 1]));
    assert_eq!(world.errors(job).await, [format!("637 {} internal", ids[637])]);
    world.execute("DROP TRIGGER fail ON product").await;
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1_000, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_without_failures_or_without_an_end_cannot_be_retried(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    assert_eq!(control::retry(&world.services, &world.context, job).await.unwrap_err().kind().status, 409);
    world.drain().await;
    assert_eq!(control::retry(&world.services, &world.context, job).await.unwrap_err().kind().status, 409);
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]), "the refusal changed nothing");
    let unknown = control::retry(&world.services, &world.context, JobId::new()).await.unwrap_err();
    assert_eq!(unknown.kind().status, 404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_eshop_gets_an_event_for_a_cancelled_sync_but_not_for_a_switch(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook("sync_finished").await;
    let ids = world.products(1).await;
    let switch = world.switch(ProductDeactivate, &ids).await;
    control::cancel(&world.services, &world.context, switch).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM event").await, 0);
    let sync = world.sync(Stocks, [r#"{"productSku":"P0","quantity":1}"#.to_owned()]).await;
    control::cancel(&world.services, &world.context, sync).await.unwrap();
    let events = "SELECT count(*) FROM event e JOIN delivery d ON d.event_id = e.id
         WHERE e.type = 'sync_finished' AND e.data->'fields'->>'state' = 'cancelled'";
    assert_eq!(world.count(events).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn cancelling_does_not_wait_for_running_chunks_and_none_of_them_changes_anything(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(2_500).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    // the first chunk waits for a row; the second has finished, and is about to be counted
    let mut holder = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product WHERE id = $1 FOR UPDATE")
        .bind(ids[0])
        .execute(&mut *holder)
        .await
        .unwrap();
    let waiting = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    world.until_locked().await;
    let Claimed::Now(claim) = chunk::claim(&world.services.db.main, job, 1, true).await.unwrap() else {
        panic!("it is due")
    };
    let mut ending = Change::begin(&world.services).await.unwrap();
    let count = Count { changed: 1_000, ..Count::default() };
    assert_eq!(chunk::end(ending.connection(), &claim, count).await.unwrap(), Hold::Kept);
    let cancelled = tokio::time::timeout(
        std::time::Duration::from_secs(5),
        control::cancel(&world.services, &world.context, job),
    );
    cancelled.await.expect("it does not wait").unwrap();
    drop(ending);
    let mut ending = Change::begin(&world.services).await.unwrap();
    assert_eq!(execution::complete(&mut ending, &claim, count, &[]).await.unwrap(), Hold::Lost);
    drop(ending);
    holder.rollback().await.unwrap();
    waiting.await.unwrap();
    assert_eq!(world.outcome(job).await, ("cancelled".to_owned(), [0, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE NOT active").await, 0);
    // chunks that were locked meanwhile are taken back later
    control::take_back_left(&world.services.db.main).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM job_chunk WHERE state <> 'cancelled'").await, 0);
}
