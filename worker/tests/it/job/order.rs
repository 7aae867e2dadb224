use longshore_shared::job::dispatch;
use longshore_shared::job::kind::JobKind::ProductDeactivate;
use longshore_shared::job::queue::Queue;
use longshore_shared::partner::push::Push::Stocks;
use longshore_shared::platform::database::MIGRATIONS;
use longshore_worker::jobs::chunk::run;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

fn row(product: usize, quantity: i32) -> String {
    format!(r#"{{"productSku":"P{product}","quantity":{quantity}}}"#)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn syncs_of_one_organisation_run_one_after_the_other(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(1).await;
    let first = world.sync(Stocks, [row(0, 1)]).await;
    let second = world.sync(Stocks, [row(0, 2)]).await;
    assert_eq!(dispatch::due(&world.services.db.main).await.unwrap(), [(Queue::Chunk, format!("{first}:0"))]);
    run(world.worker.clone(), format!("{second}:0")).await;
    assert_eq!(world.job(second).await["state"], "queued", "it waits for the first");
    world.drain().await;
    assert_eq!(world.outcome(first).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.outcome(second).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.count("SELECT quantity::bigint FROM product_stock").await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cancelled_sync_lets_the_next_one_run(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(1).await;
    let first = world.sync(Stocks, [row(0, 1)]).await;
    let second = world.sync(Stocks, [row(0, 2)]).await;
    longshore_shared::job::control::cancel(&world.services, &world.context, first).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(second).await, ("succeeded".to_owned(), [1, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn syncs_of_two_organisations_run_side_by_side(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mut other = World::new(&options).await;
    other.tenant = longshore_bench::world::Tenant::create(&world.services, "Other").await.unwrap();
    other.context = super::support::context_of(&other.tenant);
    world.products(1).await;
    other.products(1).await;
    let first = world.sync(Stocks, [row(0, 1)]).await;
    let second = other.sync(Stocks, [row(0, 2)]).await;
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    assert_eq!(due, [format!("{first}:0"), format!("{second}:0")].map(|name| (Queue::Chunk, name)));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_waits_runs_or_belongs_elsewhere_hides_nothing_that_is_due(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    // five hundred jobs that were accepted earlier: of half of them the only chunk runs, the others call partners
    world
        .execute(
            "WITH made AS (
                 INSERT INTO job (id, kind, state, acceptance, total, chunks_open, actor_type, actor_name)
                 SELECT uuid_v7(), 'stock.send', 'running', -n, 16, 16, 'job', 'clock' FROM generate_series(1, 500) AS n
                 RETURNING id, acceptance % 2 = 0 AS calls
             )
             INSERT INTO job_chunk (job_id, number, state, item_count, first_index, calls_partner, leased_until)
             SELECT id, n, CASE WHEN calls THEN 'queued' ELSE 'running' END, CASE WHEN calls THEN 0 ELSE 1 END, 0, calls,
                    CASE WHEN NOT calls THEN now() + interval '1 hour' END
             FROM made, generate_series(0, 15) AS n",
        )
        .await;
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    assert!(due.contains(&(Queue::Chunk, format!("{job}:0"))));
    assert!(due.iter().filter(|(queue, _)| *queue == Queue::Partner).count() > 3_000);
    assert_eq!(due.iter().filter(|(queue, _)| *queue == Queue::Chunk).count(), 1);
}
