//! Many lanes, several holders, and leases that are taken away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use longshore_domain::webhook::lane;
use longshore_testkit::receiver::Receiver;
use longshore_testkit::services;
use longshore_worker::lanes::{self, WARM_LANES};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Holder, changes, hand_over, is_leased, registration, until};
use crate::webhook::support::{Hook, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// Does what the dispatcher and the queue do: runs what is due, now in this worker and now in that.
async fn run_due(world: &World, holders: &[Holder], done: &AtomicBool) {
    let mut n = 0;
    while !done.load(Ordering::Acquire) {
        let due = lane::due(&world.services.db, None, 1_000).await.unwrap().lanes;
        join_all(due.into_iter().map(|webhook| {
            n += 1;
            lanes::run(&holders[n % holders.len()].context, webhook)
        }))
        .await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn leases_that_are_stolen_lose_nothing_and_double_only_what_was_under_way(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const CHANGES: usize = 2_500;
    const TOGETHER: i32 = 10;
    const IN_FLIGHT: u64 = 4;
    let services = services::for_test(&options).unwrap();
    let world = World::over(services, &options, Receiver::counting().await.unwrap()).await;
    let hooks = join_all((0..5).map(|n| {
        let world = &world;
        async move { world.hook(&format!("/{n}"), json!({"maxInFlight": IN_FLIGHT})).await }
    }))
    .await;
    let holders = [Holder::start(&world), Holder::start(&world)];
    let done = AtomicBool::new(false);
    let mut random = StdRng::seed_from_u64(7);
    let mut stolen = 0;
    let working = async {
        let mut made = 0;
        while made < CHANGES {
            let hook = &hooks[random.random_range(0..hooks.len())];
            hand_over(&world, changes(&world, hook, TOGETHER).await);
            made += usize::try_from(TOGETHER).unwrap();
            if random.random_range(0..5) == 0 {
                let taken = sqlx::query(
                    "UPDATE webhook_lane SET token = token + 1, leased_until = '-infinity'
                     WHERE webhook_id = $1 AND leased_until > now()",
                )
                .bind(hooks[random.random_range(0..hooks.len())].id)
                .execute(&world.pool)
                .await
                .unwrap();
                stolen += taken.rows_affected();
            }
        }
        until("nothing is left", async || {
            let left: i64 =
                sqlx::query_scalar("SELECT count(*) FROM delivery").fetch_one(&world.pool).await.unwrap();
            left == 0
        })
        .await;
        done.store(true, Ordering::Release);
        stolen
    };
    let (stolen, ()) = tokio::join!(working, run_due(&world, &holders, &done));
    let counts = world.receiver.counts_by("webhook-id");
    assert_eq!(counts.len(), CHANGES);
    let doubled: u64 = counts.values().map(|sent| sent - 1).sum();
    println!("{stolen} leases were stolen, {doubled} deliveries were sent again");
    assert!(stolen > 10, "{stolen}");
    // calls under way, and those whose outcome was not recorded yet
    assert!(doubled <= stolen * IN_FLIGHT * 8, "{doubled} after {stolen}");
    for hook in &hooks {
        assert_eq!(world.live(hook).await, 0);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn two_workers_send_each_change_once(_: PgPoolOptions, options: PgConnectOptions) {
    let services = services::for_test(&options).unwrap();
    let world = World::over(services, &options, Receiver::counting().await.unwrap()).await;
    let hook = world.hook("/hook", json!({})).await;
    let holders = [Holder::start(&world), Holder::start(&world)];
    let done = AtomicBool::new(false);
    let working = async {
        for _ in 0..500 {
            hand_over(&world, changes(&world, &hook, 4).await);
        }
        until("all is recorded", async || world.ended(&hook, "delivered").await == 2_000).await;
        done.store(true, Ordering::Release);
    };
    tokio::join!(working, run_due(&world, &holders, &done));
    let counts = world.receiver.counts_by("webhook-id");
    assert_eq!(counts.len(), 2_000);
    assert_eq!(counts.values().filter(|sent| **sent > 1).count(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn more_lanes_than_places_take_turns_in_staying_warm(_: PgPoolOptions, options: PgConnectOptions) {
    const LANES: usize = 300;
    let world = World::new(&options).await;
    let mut hooks: Vec<Hook> = Vec::new();
    for n in 0..LANES {
        hooks.push(world.hook(&format!("/{n}"), json!({})).await);
    }
    let holder = Holder::start(&world);
    for round in 1..=2 {
        for hook in &hooks {
            hand_over(&world, changes(&world, hook, 1).await);
            // as the queue does with what goes to no holder
            lanes::run(&holder.context, hook.id).await.unwrap();
        }
        until("all is sent", async || {
            for hook in &hooks {
                if world.live(hook).await > 0 {
                    lanes::run(&holder.context, hook.id).await.unwrap();
                }
            }
            world.receiver.counts_by("webhook-id").len() == LANES * round
        })
        .await;
        let leased: i64 = sqlx::query_scalar("SELECT count(*) FROM webhook_lane WHERE leased_until > now()")
            .fetch_one(&world.pool)
            .await
            .unwrap();
        let leased = usize::try_from(leased).unwrap();
        assert!(leased <= WARM_LANES, "{leased}");
        assert!(leased > WARM_LANES / 2, "{leased}");
    }
    assert!(world.receiver.counts_by("webhook-id").values().all(|sent| *sent == 1));
    holder.stop().await;
    for hook in &hooks {
        assert!(!is_leased(&world, hook).await);
        assert_eq!(registration(&world, hook).await, None);
        assert_eq!(world.live(hook).await, 0);
    }
}
