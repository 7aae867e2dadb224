//! Random histories of orders and stocks against Postgres: what must hold, holds after each step.

use longshore_domain::expedition::command::Command;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Place, id};

const PRODUCTS: usize = 3;
const STEPS: usize = 120;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_must_hold_holds_after_each_step(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, PRODUCTS).await;
    place.count(&[(0, 8), (1, 8), (2, 8)]).await;
    let seed = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let mut orders: Vec<ExpeditionId> = Vec::new();
    for step in 0..STEPS {
        let what = act(&place, &mut random, &mut orders, step).await;
        let broken = longshore_domain::expedition::invariants::broken(&place.world.owner).await.unwrap();
        assert_eq!(broken, [], "seed {seed}, step {step}: {what}");
    }
    place.allocate().await;
    place.must_hold().await;
    // each record of the audit that changes an order has its version, without a gap
    let gaps = "SELECT count(*) FROM expedition e WHERE e.version <> (
                    SELECT count(DISTINCT a.at) FROM audit a WHERE a.entity_id = e.id AND a.action <> 'expedition.create')
                    + (SELECT count(*) FROM audit a WHERE a.entity_id = e.id AND a.action = 'expedition.create'
                       AND NOT EXISTS (SELECT FROM audit s WHERE s.entity_id = e.id AND s.action = 'expedition.send'
                                       AND s.at = a.at + interval '1 microsecond'))";
    assert_eq!(place.world.count(gaps).await, 0, "seed {seed}");
}

async fn act(
    place: &Place,
    random: &mut StdRng,
    orders: &mut Vec<ExpeditionId>,
    step: usize,
) -> &'static str {
    let order = orders.choose(random).copied();
    let command = |command| async move {
        if let Some(order) = order {
            // one that its status does not allow is refused, and changes nothing
            let _ = place.command(order, &command).await;
        }
    };
    match random.random_range(0..19) {
        0..4 => {
            let count = random.random_range(1..4);
            let items: Vec<(usize, i64)> =
                (0..count).map(|_| (random.random_range(0..PRODUCTS), random.random_range(1..5))).collect();
            let mut body = place.body(&step.to_string(), &items);
            body["send"] = json!(random.random_bool(0.7));
            body["priority"] = json!(random.random_range(0..3));
            body["waitBeforeProcessing"] = json!(random.random_bool(0.5));
            orders.push(id(&place.create(body).await.unwrap()));
            "create"
        }
        4 => {
            command(Command::Send { rebook: random.random_bool(0.5) }).await;
            "send"
        }
        5 => {
            command(Command::Process).await;
            "process"
        }
        6 => {
            command(Command::Rollback).await;
            "rollback"
        }
        7 => {
            command(Command::Cancel { reason: None }).await;
            "cancel"
        }
        8 => {
            command(Command::Rebook).await;
            "rebook"
        }
        9 => {
            command(Command::Unbook).await;
            "unbook"
        }
        10 => {
            let statuses = ["take_out", "completion", "waiting_for_the_carrier", "delivered"];
            let mut body = json!({"status": statuses.choose(random)});
            if random.random_bool(0.2) {
                body = json!({"status": "incorrect", "errors": [{"message": "broken"}]});
            }
            if let Some(order) = order {
                let _ = place.report(order, body).await;
            }
            "report"
        }
        11..14 => {
            let count = random.random_range(2..9);
            let together: Vec<ExpeditionId> = orders.choose_multiple(random, count).copied().collect();
            let commands = [
                Command::Send { rebook: false },
                Command::Send { rebook: false },
                Command::Rollback,
                Command::Cancel { reason: None },
                Command::Rebook,
                Command::Unbook,
            ];
            let commands: Vec<_> =
                together.into_iter().map(|id| (id, commands.choose(random).unwrap().clone())).collect();
            place.together(&commands).await;
            "together"
        }
        14 | 15 => {
            place.count(&[(random.random_range(0..PRODUCTS), random.random_range(0..15))]).await;
            "count"
        }
        _ => {
            place.allocate().await;
            "allocate"
        }
    }
}
