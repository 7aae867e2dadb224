//! Many callers that change the same rows at once.

use std::collections::BTreeMap;

use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use longshore_domain::catalog::product::activation;
use longshore_domain::job::dispatch;
use longshore_domain::job::kind::JobKind::{ProductActivate, ProductDeactivate};
use longshore_domain::partner::push::Push::{Products, Stocks};
use longshore_kernel::answer::Outcome;
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk::run;
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

/// Chunks that run in parallel, as in one worker.
const AT_ONCE: usize = 4;

/// Runs due chunks until nothing is left to do.
async fn drain_at_once(world: &World) {
    for _ in 0..1_000 {
        // a chunk that lost a race for a connection is retried later; here, later is now
        world.execute("UPDATE job_chunk SET next_attempt_at = now() WHERE state = 'queued'").await;
        let due = dispatch::due(&world.services.db.main).await.unwrap();
        if due.is_empty() {
            return;
        }
        let running = due.into_iter().map(|(_, name)| tokio::spawn(run(world.worker.clone(), name)));
        let ended: Vec<_> = stream::iter(running).buffer_unordered(AT_ONCE).collect().await;
        assert!(ended.iter().all(Result::is_ok));
    }
    panic!("the same chunks are due again and again");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_last_accepted_of_ten_switches_of_the_same_10000_products_wins(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(10_000).await;
    let backwards: Vec<_> = ids.iter().rev().copied().collect();
    // each names them in another order, half of them switch off, and single switches come in between
    let jobs = join_all((0..10).map(|caller| {
        let kind = if caller % 2 == 0 { ProductDeactivate } else { ProductActivate };
        world.switch(kind, if caller % 3 == 0 { &backwards } else { &ids })
    }))
    .await;
    let singles = async {
        for n in 0..20 {
            let single =
                activation::set_active(&world.services, &world.context, ids[n * 499].get(), n % 2 == 0);
            assert_eq!(single.await.unwrap().outcome, Outcome::Done);
        }
    };
    tokio::join!(singles, drain_at_once(&world));
    let mut accepted = BTreeMap::new();
    for job in &jobs {
        let (state, [changed, unchanged, failed]) = world.outcome(*job).await;
        assert_eq!((state.as_str(), changed + unchanged, failed), ("succeeded", 10_000, 0));
        let row = world.job(*job).await;
        assert_eq!(row["error"], Value::Null);
        accepted.insert(row["acceptance"].as_i64().unwrap(), row["kind"] == "product.activate");
    }
    let (last, active) = accepted.pop_last().unwrap();
    // the single switches took their numbers later, so their result stays
    let wrong = sqlx::query_scalar::<_, i64>(
        "SELECT count(*) FROM product WHERE active_acceptance < $1 OR (active_acceptance = $1 AND active <> $2)",
    )
    .bind(last)
    .bind(active)
    .fetch_one(&world.owner)
    .await
    .unwrap();
    assert_eq!(wrong, 0);
    for n in 0..20 {
        let is_active: bool = sqlx::query_scalar("SELECT active FROM product WHERE id = $1")
            .bind(ids[n * 499])
            .fetch_one(&world.owner)
            .await
            .unwrap();
        assert_eq!(is_active, n % 2 == 0, "product {n}");
    }
    assert_eq!(world.count("SELECT count(*) FROM job_item_error").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM job_chunk WHERE error LIKE '%get its locks%'").await, 0);
    // every change is audited, and nothing else is
    let changed: i64 = world.count("SELECT sum(changed)::bigint FROM job").await;
    let of_jobs = "SELECT count(*) FROM audit WHERE entity_type = 'product' AND job_id IS NOT NULL";
    assert_eq!(world.count(of_jobs).await, changed);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_later_accepted_of_two_concurrent_syncs_of_one_eshop_wins(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let rows = |name: &str| {
        (0..2_500).map(|n| format!(r#"{{"productSku":"P{n}","name":"{name}"}}"#)).collect::<Vec<_>>()
    };
    let counts = |quantity: i32| {
        (0..2_500).map(|n| format!(r#"{{"productSku":"P{n}","quantity":{quantity}}}"#)).collect::<Vec<_>>()
    };
    let (one, other) = tokio::join!(world.sync(Products, rows("One")), world.sync(Products, rows("Other")));
    drain_at_once(&world).await;
    let number = async |job| world.job(job).await["acceptance"].as_i64().unwrap();
    let other_is_last = number(one).await < number(other).await;
    let (first, last) = if other_is_last { (one, other) } else { (other, one) };
    assert_eq!(world.outcome(first).await, ("succeeded".to_owned(), [2_500, 0, 0]), "created");
    assert_eq!(world.outcome(last).await, ("succeeded".to_owned(), [2_500, 0, 0]), "renamed");
    let named = if other_is_last { "Other" } else { "One" };
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM product WHERE name = $1")
        .bind(named)
        .fetch_one(&world.owner)
        .await
        .unwrap();
    assert_eq!(kept, 2_500);
    let (ten, twenty) = tokio::join!(world.sync(Stocks, counts(10)), world.sync(Stocks, counts(20)));
    drain_at_once(&world).await;
    let expected = if number(ten).await < number(twenty).await { 20 } else { 10 };
    let sum = "SELECT sum(quantity)::bigint FROM product_stock";
    assert_eq!(world.count(sum).await, 2_500 * expected);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_that_loses_a_race_as_it_commits_is_run_again_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(3).await;
    // a sequence is not rolled back with its transaction
    let lose_twice = "CREATE SEQUENCE commits;
                      CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
                      BEGIN
                          IF nextval('commits') <= 2 THEN
                              RAISE EXCEPTION USING ERRCODE = '40001';
                          END IF;
                          RETURN NULL;
                      END $$;
                      CREATE CONSTRAINT TRIGGER lose AFTER UPDATE OF done ON job DEFERRABLE INITIALLY DEFERRED
                          FOR EACH ROW EXECUTE FUNCTION lose()";
    world.execute(lose_twice).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    assert_eq!(world.drain().await, 1);
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert_eq!(world.count("SELECT last_value FROM commits").await, 3);
    assert_eq!(world.count("SELECT attempts::bigint FROM job_chunk").await, 1);
}
