//! Random faults in random order: nothing is lost, and what is canceled is not in the warehouse.

use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::wms::{Mischief, On, Step};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{CANCEL, Depot, ROLLBACK, SEND};

/// Steps of a run.
const STEPS: usize = 120;

/// A small generator of numbers, the same for the same seed.
struct Lots(u64);

impl Lots {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

fn fault(lots: &mut Lots) -> Mischief {
    match lots.next(9) {
        0 => Mischief::Status(503),
        1 => Mischief::Cut,
        2 => Mischief::DoneCut,
        3 => Mischief::DoneStatus(500),
        4 => Mischief::Refuse(json!([{"message": "no"}])),
        5 => Mischief::Overtaken,
        6 => Mischief::Short,
        7 => Mischief::Status(400),
        _ => Mischief::Late(std::time::Duration::from_millis(30)),
    }
}

/// One thing that happens to an order; what is not possible is refused, and changes nothing.
async fn step(depot: &Depot, lots: &mut Lots, order: ExpeditionId) {
    match lots.next(10) {
        0 | 1 => _ = depot.command(order, &SEND).await,
        2 => _ = depot.command(order, &CANCEL).await,
        3 => _ = depot.command(order, &ROLLBACK).await,
        4 => depot.system.misbehave(On::Any, fault(lots)),
        5 => depot.time_passes().await,
        6 => _ = depot.system.step(order.get(), Step::Pick),
        7 => {
            let command = if lots.next(2) == 0 { &CANCEL } else { &ROLLBACK };
            let (_, _) = tokio::join!(depot.run(), depot.command(order, command));
        }
        8 => depot.system.let_overtaken_arrive(),
        _ => depot.drain().await,
    }
}

async fn run(options: &PgConnectOptions, seed: u64) {
    let depot = Depot::new(options).await;
    let mut lots = Lots(seed);
    let mut orders = Vec::new();
    for n in 0..4 {
        orders.push(depot.send(&n.to_string()).await);
    }
    for _ in 0..STEPS {
        let order = orders[lots.next(orders.len())];
        step(&depot, &mut lots, order).await;
    }
    // a quiet time: everything arrives, and nothing goes wrong any more
    depot.system.misbehave_in_turn(Vec::new());
    for _ in 0..20 {
        depot.system.let_overtaken_arrive();
        depot.time_passes().await;
        depot.drain().await;
    }
    depot.place.must_hold().await;
    for order in orders {
        let (status, state) = depot.state(order).await;
        let entry = depot.entry(order);
        let is_here = entry.as_ref().is_some_and(|entry| entry.stage.is_here());
        let expected = matches!(state.as_deref(), Some("accepted"));
        assert_eq!(is_here, expected, "seed {seed}: {status} {state:?} {entry:?}");
        assert!(
            !matches!(state.as_deref(), Some("pending" | "sending" | "withdrawing")),
            "seed {seed}: {status} {state:?} is left over"
        );
        if let Some(entry) = entry {
            let mut once = entry.taken.clone();
            once.dedup();
            assert_eq!(entry.taken, once, "seed {seed}: a number was taken twice");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_canceled_is_not_in_the_warehouse_one(_: PgPoolOptions, options: PgConnectOptions) {
    Box::pin(run(&options, 1)).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_canceled_is_not_in_the_warehouse_two(_: PgPoolOptions, options: PgConnectOptions) {
    Box::pin(run(&options, 20_261_125)).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_canceled_is_not_in_the_warehouse_three(_: PgPoolOptions, options: PgConnectOptions) {
    Box::pin(run(&options, 77_777)).await;
}
