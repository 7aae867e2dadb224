//! How fast a lane drains, beside a bare loop of the same client library. A measurement: run it in release mode, alone.

use std::time::Instant;

use futures::StreamExt as _;
use longshore_bench::client;
use longshore_bench::receiver::Receiver;
use longshore_bench::services;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_shared::platform::database::MIGRATIONS;

const DELIVERIES: i32 = 20_000;

#[ignore = "a measurement, in release mode"]
#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lane_drains_at_half_the_rate_of_a_bare_loop(_: PgPoolOptions, options: PgConnectOptions) {
    let world =
        World::over(services::for_test(&options).unwrap(), &options, Receiver::counting().await.unwrap())
            .await;
    let hook = world.hook("/hook", json!({})).await;
    let bare = client::outside().unwrap();
    let url = world.receiver.url("/bare");
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        let calls = (0..DELIVERIES).map(|_| bare.post(&url).body(vec![b'x'; 240]).send());
        futures::stream::iter(calls)
            .buffer_unordered(16)
            .for_each(async |answer| drop(answer.unwrap()))
            .await;
        let floor = f64::from(DELIVERIES) / started.elapsed().as_secs_f64();
        world.events(&hook, DELIVERIES).await;
        let before = cpu(&world).await;
        let started = Instant::now();
        world.drain(&hook).await;
        let rate = f64::from(DELIVERIES) / started.elapsed().as_secs_f64();
        let after = cpu(&world).await;
        let [own, postgres] = [0, 1].map(|n| (after[n] - before[n]) / f64::from(DELIVERIES) * 1_000.0);
        println!("CPU-seconds a thousand: worker and receiver {own:.4}, Postgres {postgres:.4}");
        println!("bare loop {floor:.0}/s, lane {rate:.0}/s, ratio {:.2}", rate / floor);
        ratios.push(rate / floor);
    }
    assert_eq!(world.live(&hook).await, 0);
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[1] >= 0.5, "{ratios:?}");
}

/// CPU seconds of this process, and of the sessions of its database, so far.
async fn cpu(world: &World) -> [f64; 2] {
    let sessions: Vec<i32> =
        sqlx::query_scalar("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    let of = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // past the name in brackets: user and system time are the 12th and 13th, in hundredths
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
    };
    [of("self"), sessions.iter().map(|pid| of(&pid.to_string())).sum()]
}
