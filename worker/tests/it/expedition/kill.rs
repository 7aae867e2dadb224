//! The allocator's process is killed, and its connection cut, in the middle of what it does.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use longshore_domain::partner::push::Push;
use longshore_kernel::migration::MIGRATIONS;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tempfile::TempDir;

use super::support::Place;
use crate::program;

/// Orders that wait: several transactions of the allocator.
const ORDERS: usize = 4_000;
const PRODUCTS: usize = 4;

/// Pieces that come of each product: some of the orders can be booked, most cannot.
const COME: i64 = 2_000;

/// Interruptions, every other of them by cutting the connection.
const INTERRUPTIONS: usize = 8;

/// How long a worker may take to begin, and to come to its end.
const WITHIN: Duration = Duration::from_mins(1);

const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Waits until the allocator is in a transaction, or has nothing left to do; returns its session.
async fn allocating(place: &Place) -> Option<i32> {
    let until = Instant::now() + WITHIN;
    loop {
        let session: Option<i32> = sqlx::query_scalar(
            "SELECT pid FROM pg_locks
             WHERE locktype = 'advisory' AND granted AND objsubid = 1
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND (classid::bigint << 32 | objid::bigint) = hashtextextended('allocation ' || $1::uuid || $2::uuid, 0)",
        )
        .bind(place.world.tenant.warehouse)
        .bind(place.world.tenant.wms)
        .fetch_optional(&place.world.owner)
        .await
        .unwrap();
        if session.is_some() || marks(place).await == 0 {
            return session;
        }
        assert!(Instant::now() < until, "the allocator does not begin");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn marks(place: &Place) -> i64 {
    place.world.count("SELECT count(*) FROM product_stock WHERE marked_at IS NOT NULL").await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_allocation_that_is_killed_again_and_again_books_what_an_undisturbed_one_does(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let place = Place::new(&options, PRODUCTS).await;
    place.world.webhook("*").await;
    let wishes: Vec<Vec<(usize, i64)>> = (0..ORDERS).map(|_| wish(&mut random)).collect();
    let rows = wishes.iter().enumerate().map(|(n, items)| {
        let mut row = place.body(&format!("{n:05}"), items);
        row.as_object_mut().unwrap().remove("eshop");
        row.to_string()
    });
    place.world.sync(Push::Expeditions, rows).await;
    place.world.drain().await;
    let goods: Vec<(usize, i64)> = (0..PRODUCTS).map(|n| (n, COME)).collect();
    place.count(&goods).await;
    let booked = "SELECT count(*) FROM expedition WHERE status = 'awaiting_processing'";
    assert_eq!(place.world.count(booked).await, 0, "nothing is booked before the allocator comes");

    let folder = TempDir::new().unwrap();
    let prefix = format!("test:{}:", options.get_database().unwrap());
    let start = || program::start(&options, &prefix, &folder, "worker");
    let (mut worker, mut interrupted) = (start(), 0);
    while interrupted < INTERRUPTIONS {
        let Some(session) = allocating(&place).await else { break };
        tokio::time::sleep(Duration::from_millis(random.random_range(0..250))).await;
        if interrupted % 2 == 0 {
            drop(worker);
            worker = start();
        } else {
            sqlx::query("SELECT pg_terminate_backend($1)")
                .bind(session)
                .execute(&place.world.owner)
                .await
                .unwrap();
        }
        interrupted += 1;
        place.must_hold().await;
    }
    assert!(interrupted >= 3, "it was over after {interrupted} interruptions");
    let until = Instant::now() + WITHIN;
    while marks(&place).await > 0 {
        assert!(Instant::now() < until, "marks are left");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    drop(worker);
    place.must_hold().await;
    // an order is booked if it can be when its turn comes, and no other is
    let mut left: HashMap<usize, i64> = goods.into_iter().collect();
    let mut expected = Vec::new();
    for (n, items) in wishes.iter().enumerate() {
        let mut wanted: HashMap<usize, i64> = HashMap::new();
        for (product, quantity) in items {
            *wanted.entry(*product).or_default() += quantity;
        }
        if wanted.iter().all(|(product, quantity)| left[product] >= *quantity) {
            for (product, quantity) in wanted {
                *left.entry(product).or_default() -= quantity;
            }
            expected.push(format!("{n:05}"));
        }
    }
    let booked = place.statuses().await.into_iter().filter(|(_, status)| status == "awaiting_processing");
    let booked: Vec<String> = booked.map(|(number, _)| number).collect();
    assert_eq!(booked, expected);
    for product in 0..PRODUCTS {
        let (quantity, held, _) = place.stock(product).await;
        assert_eq!((i64::from(quantity), i64::from(quantity) - held), (COME, left[&product]));
    }
    // each was booked once, with one event
    let (orders, audited, events): (i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(DISTINCT entity_id) FROM audit WHERE action = 'expedition.reserve'
                 AND changes -> 'status' ->> 1 = 'awaiting_processing'),
                (SELECT count(*) FROM audit WHERE action = 'expedition.reserve'
                 AND changes -> 'status' ->> 1 = 'awaiting_processing'),
                (SELECT count(*) FROM event WHERE type = 'expedition_booked_change')",
    )
    .fetch_one(&place.world.owner)
    .await
    .unwrap();
    let expected = i64::try_from(expected.len()).unwrap();
    assert_eq!((orders, audited, events), (expected, expected, expected));
}

/// One or two items of few pieces; sometimes the same product twice.
fn wish(random: &mut StdRng) -> Vec<(usize, i64)> {
    let products: Vec<usize> = (0..PRODUCTS).collect();
    let items = random.random_range(1..3);
    (0..items).map(|_| (*products.choose(random).unwrap(), random.random_range(1..5))).collect()
}
