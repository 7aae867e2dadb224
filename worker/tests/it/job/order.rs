use longshore_domain::job::dispatch;
use longshore_domain::job::kind::JobKind::ProductDeactivate;
use longshore_domain::partner::push::Push::{Products, Stocks};
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::queue::Queue;
use longshore_worker::jobs::chunk::run;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

fn row(product: usize, quantity: i32) -> String {
    format!(r#"{{"productSku":"P{product}","quantity":{quantity}}}"#)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn syncs_of_one_eshop_run_one_after_another(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    // syncs of products and of stocks share one line: these stocks are of a product that the first sync
    // creates
    let product = r#"{"productSku":"P0","name":"Mug"}"#.to_owned();
    let first = world.sync(Products, [product]).await;
    let second = world.sync(Stocks, [row(0, 1)]).await;
    let third = world.sync(Stocks, [row(0, 2)]).await;
    assert_eq!(dispatch::due(&world.services.db.main).await.unwrap(), [(Queue::Chunk, format!("{first}:0"))]);
    run(world.worker.clone(), format!("{second}:0")).await;
    assert_eq!(world.job(second).await["state"], "queued", "it waits for the first");
    let waits = Some(("earlier_job".to_owned(), Some(first)));
    assert_eq!(world.waits_for(first).await, None);
    assert_eq!((world.waits_for(second).await, world.waits_for(third).await), (waits.clone(), waits));
    run(world.worker.clone(), format!("{first}:0")).await;
    assert_eq!(world.waits_for(third).await, Some(("earlier_job".to_owned(), Some(second))));
    world.drain().await;
    for job in [first, second, third] {
        assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
        assert_eq!(world.waits_for(job).await, None);
    }
    assert_eq!(world.count("SELECT quantity::bigint FROM product_stock").await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn syncs_of_two_eshops_of_one_organisation_run_side_by_side(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let sister = world.sister().await;
    world.products(1).await;
    let first = world.sync(Stocks, [row(0, 1)]).await;
    let second = sister.sync(Stocks, [row(0, 2)]).await;
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    assert_eq!(due, [format!("{first}:0"), format!("{second}:0")].map(|name| (Queue::Chunk, name)));
    assert_eq!(world.waits_for(second).await, None);
    run(world.worker.clone(), format!("{second}:0")).await;
    assert_eq!(world.outcome(second).await, ("succeeded".to_owned(), [1, 0, 0]));
    world.drain().await;
    assert_eq!(
        world.outcome(first).await,
        ("succeeded".to_owned(), [0, 1, 0]),
        "the second has counted since"
    );
    assert_eq!(world.count("SELECT quantity::bigint FROM product_stock").await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn syncs_accepted_in_the_line_of_their_organisation_succeed_beside_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let sister = world.sister().await;
    world.products(1).await;
    let old = [world.sync(Stocks, [row(0, 1)]).await, sister.sync(Stocks, [row(0, 2)]).await];
    world.execute("UPDATE job SET sequence = organisation_id").await;
    let new = world.sync(Stocks, [row(0, 3)]).await;
    assert_eq!(world.waits_for(old[1]).await, Some(("earlier_job".to_owned(), Some(old[0]))));
    run(world.worker.clone(), format!("{new}:0")).await;
    world.drain().await;
    for job in [old[0], old[1], new] {
        assert_eq!(world.outcome(job).await.0, "succeeded");
    }
    assert_eq!(world.count("SELECT quantity::bigint FROM product_stock").await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn send_outs_and_syncs_of_one_eshop_do_not_delay_each_other(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.products(1).await;
    let push = world.sync(Stocks, [row(0, 1)]).await;
    world
        .execute(
            "WITH made AS (
                 INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, source, acceptance, chunks_open,
                                  actor_type, actor_name)
                 SELECT uuid_v7(), 'stock.send', stands, organisation_id, eshop_id, eshop_id, 'source ' || n, n, 1, 'job', 'clock'
                 FROM job, (VALUES (-1, 'running'), (1000000, 'queued')) AS s (n, stands)
                 RETURNING id, state
             )
             INSERT INTO job_chunk (job_id, number, state, item_count, first_index, calls_partner, leased_until)
             SELECT id, 0, state, 0, 0, true, CASE WHEN state = 'running' THEN now() + interval '1 hour' END FROM made",
        )
        .await;
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    assert_eq!(
        due,
        [(Queue::Chunk, format!("{push}:0"))],
        "the second send-out waits for the first, the push for neither"
    );
    run(world.worker.clone(), format!("{push}:0")).await;
    assert_eq!(world.outcome(push).await, ("succeeded".to_owned(), [1, 0, 0]));
    world
        .execute("UPDATE job_chunk SET state = 'cancelled', leased_until = NULL WHERE state = 'running'")
        .await;
    world
        .execute(
            "UPDATE job SET state = 'cancelled', chunks_open = 0, finished_at = now() WHERE acceptance = -1",
        )
        .await;
    let waiting = world.sync(Stocks, [row(0, 2)]).await;
    world.execute("UPDATE job SET acceptance = -2 WHERE state = 'queued' AND kind = 'stock.sync'").await;
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    assert!(due.contains(&(Queue::Chunk, format!("{waiting}:0"))), "{due:?}");
    assert!(due.iter().any(|(queue, _)| *queue == Queue::Partner), "{due:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_whose_queue_is_paused_says_so(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(1).await;
    let first = world.sync(Stocks, [row(0, 1)]).await;
    let second = world.sync(Stocks, [row(0, 2)]).await;
    assert_eq!(world.waits_for(first).await, None, "it waits for nothing but a worker");
    world.execute("UPDATE queue SET paused = true WHERE name = 'partner'").await;
    assert_eq!(world.waits_for(first).await, None);
    world.execute("UPDATE queue SET paused = true WHERE name = 'chunk'").await;
    assert_eq!(world.waits_for(first).await, Some(("paused".to_owned(), None)));
    assert_eq!(world.waits_for(second).await, Some(("earlier_job".to_owned(), Some(first))));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cancelled_sync_lets_the_next_one_run(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(1).await;
    let first = world.sync(Stocks, [row(0, 1)]).await;
    let second = world.sync(Stocks, [row(0, 2)]).await;
    longshore_domain::job::control::cancel(&world.services, &world.context, first).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(second).await, ("succeeded".to_owned(), [1, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn syncs_of_two_organisations_run_side_by_side(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mut other = World::new(&options).await;
    other.tenant = longshore_testkit::world::Tenant::create(&world.services, "Other").await.unwrap();
    other.context = super::support::context_of(&other.tenant);
    world.products(1).await;
    other.products(1).await;
    let first = world.sync(Stocks, [row(0, 1)]).await;
    let second = other.sync(Stocks, [row(0, 2)]).await;
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    assert_eq!(due, [format!("{first}:0"), format!("{second}:0")].map(|name| (Queue::Chunk, name)));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn waiting_and_running_chunks_hide_no_due_ones(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    // five hundred jobs accepted earlier: half of them are running, the others call partners
    world
        .execute(
            "WITH made AS (
                 INSERT INTO job (id, kind, state, organisation_id, source, acceptance, total, chunks_open, actor_type, actor_name)
                 SELECT uuid_v7(), 'stock.send', 'running', organisation_id, n, -n, 16, 16, 'job', 'clock'
                 FROM job, generate_series(1, 500) AS n
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
    assert_eq!(due.iter().filter(|(queue, _)| *queue == Queue::Partner).count(), 4);
    assert_eq!(due.iter().filter(|(queue, _)| *queue == Queue::Chunk).count(), 1);
}
