//! What a change of many orders costs, by sessions whose plans were made for one.

use longshore_domain::partner::push::Push;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::services;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::Depot;

const FEW: usize = 100;
const MANY: usize = 2_000;

/// Times that each is measured: the quickest counts.
const TIMES: usize = 5;

/// How much longer many may take: they are 20 times as many. Each compared with each would be 400 times as much.
const AT_MOST: f64 = 100.0;

/// Changes that all orders can go through, again and again: nothing of the status, taken back, due again.
const CHANGES: [&str; 3] = ["status", "'on_hold'", "'awaiting_processing'"];

/// Makes a change of orders; returns the milliseconds that following it took.
async fn follow(session: &mut PgConnection, change: &str, orders: &[Uuid]) -> f64 {
    let change = format!(
        "EXPLAIN (ANALYZE, FORMAT JSON)
         UPDATE expedition e SET status = {change}, version = e.version + 1 FROM unnest($1::uuid[]) AS g (id)
         WHERE e.id = ANY (ARRAY[g.id])"
    );
    let explained: Value =
        sqlx::query_scalar(sqlx::AssertSqlSafe(change)).bind(orders).fetch_one(session).await.unwrap();
    let triggers = explained[0]["Triggers"].as_array().unwrap();
    let follows = triggers.iter().find(|trigger| trigger["Trigger Name"] == "expedition_handover_follows");
    follows.unwrap()["Time"].as_f64().unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_hand_over_of_many_orders_follows_in_proportion(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let world = &depot.place.world;
    services::analyse_by_hand(&world.owner).await.unwrap();
    let first = depot.send("first").await;
    let mut session = world.services.db.main.acquire().await.unwrap();
    // its plans are made, and kept, for one order, in tables of one row that were not analysed
    for change in CHANGES.iter().cycle().take(30) {
        follow(&mut session, change, &[first.get()]).await;
    }
    let rows = (0..MANY).map(|n| {
        let mut row = depot.place.body(&n.to_string(), &[(0, 1)]);
        row["send"] = true.into();
        row.as_object_mut().unwrap().remove("eshop");
        row.to_string()
    });
    depot.place.count(&[(0, 100_000)]).await;
    world.sync(Push::Expeditions, rows).await;
    world.drain().await;
    let due = "SELECT id FROM expedition_handover WHERE handover_state = 'pending'";
    let orders: Vec<Uuid> = sqlx::query_scalar(due).fetch_all(&world.owner).await.unwrap();
    assert_eq!(orders.len(), MANY + 1);
    let mut quickest = [[f64::MAX; 2]; CHANGES.len()];
    for _ in 0..TIMES {
        for (change, quickest) in CHANGES.iter().zip(&mut quickest) {
            for (count, quickest) in [FEW, MANY].into_iter().zip(quickest) {
                *quickest = quickest.min(follow(&mut session, change, &orders[..count]).await);
            }
        }
    }
    for (change, [few, many]) in CHANGES.iter().zip(quickest) {
        let ratio = many / few;
        assert!(
            ratio < AT_MOST,
            "{change}: {FEW} took {few} ms, {MANY} took {many} ms, {ratio:.0} times as long"
        );
    }
}
