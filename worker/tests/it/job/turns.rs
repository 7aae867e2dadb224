//! Organisations take turns, however many jobs each has.

use std::time::Duration;

use longshore_domain::job::chunk::{self as claims, Claimed};
use longshore_domain::job::dispatch::{self, Looks, WINDOW};
use longshore_domain::job::kind::JobKind::{ProductActivate, ProductDeactivate};
use longshore_domain::job::name::share_of;
use longshore_domain::partner::push::Push::{Products, Stocks};
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::queue::Queue;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use longshore_worker::dispatcher::{self, Controlled};
use longshore_worker::jobs::chunk;
use longshore_worker::queue::RedisStream;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};

use super::support::{World, context_of};
use crate::queue::support::{Worker, eventually, handler, quick};

const LINE: &str = r#"{"productSku":"P0","name":"Mug"}"#;

/// A second world, with its own organisation.
async fn neighbour(world: &World, name: &str) -> World {
    let tenant = Tenant::create(&world.services, name).await.unwrap();
    World {
        services: world.services.clone(),
        worker: world.worker.clone(),
        context: context_of(&tenant),
        tenant,
        owner: world.owner.clone(),
    }
}

/// Accepts this many bulk jobs of one chunk each.
async fn bulks(world: &World, count: usize) -> Vec<JobId> {
    let ids = world.products(3).await;
    let mut jobs = Vec::new();
    for n in 0..count {
        jobs.push(world.switch(if n % 2 == 0 { ProductDeactivate } else { ProductActivate }, &ids).await);
    }
    jobs
}

fn window() -> usize {
    usize::try_from(WINDOW).unwrap()
}

async fn due(world: &World) -> Vec<JobId> {
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    due.into_iter().map(|(_, name)| name.split_once(':').unwrap().0.parse().unwrap()).collect()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_a_window_of_an_organisation_is_queued_with_others_in_between(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (second, third) = (neighbour(&world, "Second").await, neighbour(&world, "Third").await);
    let many = bulks(&world, 20).await;
    let few = bulks(&second, 2).await;
    let one = third.sync(Products, [LINE]).await;
    let found = due(&world).await;
    assert_eq!(found.len(), window() + 3);
    assert_eq!(found[..3], [many[0], few[0], one], "one of each comes first");
    assert_eq!(found[3..5], [many[1], few[1]]);
    assert_eq!(found[5..], many[2..window()]);
    world.drain().await;
    for job in many.into_iter().chain(few).chain([one]) {
        assert_eq!(world.outcome(job).await.0, "succeeded");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_of_no_single_organisation_have_their_own_share(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let many = bulks(&world, 10).await;
    let nobodys = bulks(&neighbour(&world, "Second").await, 10).await;
    sqlx::query("UPDATE job SET organisation_id = NULL WHERE id = ANY ($1)")
        .bind(&nobodys)
        .execute(&world.owner)
        .await
        .unwrap();
    let found = due(&world).await;
    assert_eq!((found.len(), found[0], found[1]), (2 * window(), many[0], nobodys[0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn large_and_small_jobs_of_an_organisation_take_turns_too(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(20_000).await;
    let large = world.switch(ProductDeactivate, &ids).await;
    assert!(world.count("SELECT count(*) FROM job_chunk").await > 2 * WINDOW);
    let small = world.sync(Products, [r#"{"productSku":"NEW","name":"Mug"}"#]).await;
    let found = due(&world).await;
    assert_eq!(found.len(), window());
    assert_eq!(found[..2], [large, small]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_single_organisation_gets_every_place(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let jobs = bulks(&world, 3 * window()).await;
    for running in 0..jobs.len() {
        let found = due(&world).await;
        assert_eq!(found.len(), window().min(jobs.len() - running), "what runs does not count");
        let claimed = claims::claim(&world.services.db.main, found[0], 0, false).await.unwrap();
        assert!(matches!(claimed, Claimed::Now(_)));
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_behind_the_window_of_its_organisation_shows_that_it_waits_for_its_turn(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let other = neighbour(&world, "Second").await;
    let jobs = bulks(&world, window() + 2).await;
    let behind = world.sync(Products, [LINE]).await;
    let waiting = world.sync(Stocks, [r#"{"productSku":"P0","quantity":1}"#]).await;
    let free = other.sync(Products, [LINE]).await;
    let turn = Some(("turn".to_owned(), None));
    assert_eq!(world.waits_for(jobs[window() - 1]).await, None);
    assert_eq!(world.waits_for(jobs[window()]).await, turn);
    assert_eq!(world.waits_for(behind).await, turn);
    assert_eq!(world.waits_for(waiting).await, Some(("earlier_job".to_owned(), Some(behind))));
    assert_eq!(world.waits_for(free).await, None);
    for job in &jobs[..3] {
        chunk::run(world.worker.clone(), format!("{job}:0")).await;
    }
    assert_eq!(world.waits_for(behind).await, None);
    assert_eq!(due(&world).await.len(), window() + 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_heads_of_many_lines_fill_a_window_as_bulk_jobs_do(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mut jobs = Vec::new();
    for _ in 0..window() + 2 {
        let sister = world.sister().await;
        jobs.push(sister.sync(Products, [LINE]).await);
        // behind the first of their line, they take no turn of others
        sister.sync(Products, [LINE]).await;
    }
    let bulk = world.switch(ProductDeactivate, &[jobs[0].get().into()]).await;
    assert_eq!(due(&world).await, jobs[..window()]);
    let turn = Some(("turn".to_owned(), None));
    assert_eq!((world.waits_for(jobs[window()]).await, world.waits_for(bulk).await), (turn.clone(), turn));
    world.drain().await;
    assert_eq!(world.count("SELECT count(*) FROM job WHERE state <> 'succeeded'").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_backlog_of_one_organisation_does_not_delay_a_job_of_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let other = neighbour(&world, "Second").await;
    bulks(&world, 150).await;
    let stream = RedisStream::new(&world.services.queues, Queue::Chunk, quick(2));
    let controlled = vec![Controlled::new(Queue::Chunk, stream.control())];
    let context = world.worker.clone();
    let worker = Worker::run(
        stream,
        handler(move |job| {
            let context = context.clone();
            async move {
                chunk::run(context, job.id).await;
                Ok(())
            }
        }),
    );
    let dispatcher = tokio::spawn(dispatcher::run(world.worker.clone(), controlled));
    let ended = "SELECT count(*) FROM job WHERE state = 'succeeded'";
    eventually("the backlog is worked off", async || (world.count(ended).await > 3).then_some(())).await;
    let job = other.sync(Products, [LINE]).await;
    eventually("it is done", async || (other.outcome(job).await.0 == "succeeded").then_some(())).await;
    let left = "SELECT count(*) FROM job WHERE state IN ('queued', 'running')";
    assert!(world.count(left).await > 50, "{} are left", world.count(left).await);
    // each claim queues the next chunk: the dispatcher alone would queue only four per second
    tokio::time::timeout(Duration::from_secs(20), world.until(left, 0)).await.unwrap();
    world.worker.stop.cancel();
    dispatcher.await.unwrap();
    worker.stop().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_look_does_not_read_the_backlog(_: PgPoolOptions, options: PgConnectOptions) {
    let services = services::with_connections(&options, 2).unwrap();
    let world = World::over(services, &options).await;
    services::analyse_by_hand(&world.owner).await.unwrap();
    let other = neighbour(&world, "Second").await;
    // plans made while the tables were empty are cached
    for _ in 0..8 {
        assert!(due(&world).await.is_empty());
    }
    let backlog = "WITH made AS (
                       INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, acceptance, total, chunks_open,
                                        actor_type, actor_name)
                       SELECT uuid_v7(), 'product.sync', 'queued', organisation_id, id, CASE WHEN n % 2 = 0 THEN id END,
                              nextval('acceptance'), 1, 1, 'user', 'u'
                       FROM eshop, generate_series(1, 10000) AS n WHERE name = 'Gifts shop'
                       RETURNING id
                   )
                   INSERT INTO job_chunk (job_id, number, state, item_count, first_index) SELECT id, 0, 'queued', 1, 0 FROM made";
    world.execute(backlog).await;
    let job = other.sync(Products, [LINE]).await;
    for analysed in [false, true] {
        if analysed {
            world.execute("VACUUM ANALYZE").await;
        }
        let before = services::pages_looked_at(&world.services.db.main, 2, &world.owner).await.unwrap();
        let found = due(&world).await;
        let all = services::pages_looked_at(&world.services.db.main, 2, &world.owner).await.unwrap();
        dispatch::hand_over(&world.services, Queue::Chunk, share_of(Some(world.tenant.organisation))).await;
        let one = services::pages_looked_at(&world.services.db.main, 2, &world.owner).await.unwrap();
        assert_eq!(found.len(), window() + 1);
        assert!(found.contains(&job));
        let looked_at = (all - before, one - all);
        assert!(looked_at.0 < 400 && looked_at.1 < 200, "{looked_at:?} pages, analysed: {analysed}");
    }
}

/// A world with few connections whose statistics only the test changes, and a transaction that keeps what ends from now on.
async fn world_with_an_old_snapshot(options: &PgConnectOptions) -> (World, PgConnection) {
    let services = services::with_connections(options, 2).unwrap();
    let world = World::over(services, options).await;
    services::analyse_by_hand(&world.owner).await.unwrap();
    let mut old = PgConnection::connect_with(options).await.unwrap();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM job";
    sqlx::raw_sql(begin).execute(&mut old).await.unwrap();
    (world, old)
}

async fn pages(world: &World) -> i64 {
    services::pages_looked_at(&world.services.db.main, 2, &world.owner).await.unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_that_ended_since_an_old_snapshot_cost_other_organisations_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, old) = world_with_an_old_snapshot(&options).await;
    let (before, after) = (neighbour(&world, "Second").await, neighbour(&world, "Third").await);
    let organisation = |of: &World| Some(of.tenant.organisation);
    let ended = "INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, source, acceptance, actor_type, actor_name)
                 SELECT uuid_v7(), 'product.sync', 'running', organisation_id, id, CASE WHEN n % 2 = 0 THEN id END, n,
                        nextval('acceptance'), 'user', 'u'
                 FROM eshop, generate_series(1, 20000) AS n WHERE name = 'Second shop';
                 UPDATE job SET state = 'succeeded', finished_at = now()";
    world.execute(ended).await;
    // ids rise: the others are before and behind it in every index
    for of in [&world, &after] {
        for queue in [Queue::Chunk, Queue::Partner] {
            let start = pages(&world).await;
            dispatch::hand_over(&world.services, queue, share_of(organisation(of))).await;
            let looked_at = pages(&world).await - start;
            assert!(looked_at < 200, "{looked_at} pages on {queue}");
        }
    }
    let start = pages(&world).await;
    dispatch::hand_over(&world.services, Queue::Chunk, share_of(organisation(&before))).await;
    let walked = pages(&world).await - start;
    assert!(walked > 1_000, "the entries are there: {walked} pages");
    // its own acceptances do not count and look each time when that took long
    let ids = before.products(1).await;
    let accept = async || {
        let start = pages(&world).await;
        before.switch(ProductDeactivate, &ids).await;
        pages(&world).await - start
    };
    let counted = accept().await;
    for look in ["unfinished jobs", Queue::Chunk.name()] {
        world.services.rests.note(look, share_of(organisation(&before)), Duration::from_mins(1));
    }
    let rested = accept().await;
    assert!(counted > 2 * rested, "{counted} and {rested} pages");
    old.close().await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn leases_that_ended_since_an_old_snapshot_are_gone_through_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, old) = world_with_an_old_snapshot(&options).await;
    let job = bulks(&world, 2).await[0];
    let ended = "INSERT INTO job_chunk (job_id, number, state, item_count, first_index, leased_until)
                 SELECT id, n, 'running', 1, 0, now() - interval '1 hour' FROM job, generate_series(1, 40000) AS n
                 WHERE kind = 'product.activate';
                 UPDATE job_chunk SET state = 'succeeded', leased_until = NULL WHERE number > 0;
                 UPDATE job SET state = 'succeeded', chunks_open = 0, finished_at = now() WHERE kind = 'product.activate'";
    world.execute(ended).await;
    let db = &world.services.db.main;
    assert!(matches!(claims::claim(db, job, 0, false).await.unwrap(), Claimed::Now(_)));
    let mut looks = Looks::default();
    let mut cost = Vec::new();
    for _ in 0..2 {
        let start = pages(&world).await;
        assert!(looks.due(db).await.unwrap().is_empty());
        cost.push(pages(&world).await - start);
    }
    assert!(cost[0] > 600 && cost[1] * 3 < cost[0], "{cost:?} pages");
    // what a dead process held is found by each look, even if its lease ended before the last one
    world
        .execute("UPDATE job_chunk SET leased_until = now() - interval '2 minutes' WHERE state = 'running'")
        .await;
    for _ in 0..2 {
        assert_eq!(looks.due(db).await.unwrap(), [(Queue::Chunk, format!("{job}:0"))]);
    }
    old.close().await.unwrap();
}
