//! Requests of the same moment, which share their statements: each gets its own answer.

use futures::future::join_all;
use longshore_domain::expedition::command::Command;
use longshore_kernel::context::Context;
use longshore_kernel::idempotency::{self, Claimed, Key};
use longshore_kernel::ids::{ExpeditionId, random_id};
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Place, id};

const SEND: Command = Command::Send { rebook: false };

fn sent(place: &Place, number: &str, items: &[(usize, i64)]) -> Value {
    let mut body = place.body(number, items);
    body["send"] = json!(true);
    body
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_that_is_refused_is_refused_alone(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 100)]).await;
    let body = |n: usize| match n % 4 {
        0 => sent(&place, &n.to_string(), &[(0, 1)]),
        1 => sent(&place, "same", &[(0, 1)]),
        2 => sent(&place, &n.to_string(), &[(7, 1)]),
        _ => json!({"eshop": place.world.tenant.eshop, "orderNumber": "?", "send": true}),
    };
    let answers = join_all((0..48).map(|n| place.create(body(n)))).await;
    for (n, answer) in answers.iter().enumerate() {
        let paths: Vec<_> = match answer {
            Ok(record) => {
                assert_eq!(record["status"], "awaiting_processing", "{n}");
                continue;
            }
            Err(problem) => problem.violations().iter().map(|v| (v.property_path.as_str(), v.code)).collect(),
        };
        match n % 4 {
            1 => assert_eq!(paths, [("orderNumber", "already_taken")]),
            2 => assert_eq!(paths, [("items[0].productSku", "unknown_reference")]),
            3 => assert!(paths.len() > 1, "{paths:?}"),
            _ => panic!("order {n} was refused: {paths:?}"),
        }
    }
    let of = |kind: usize| answers.iter().skip(kind).step_by(4).filter(|answer| answer.is_ok()).count();
    assert_eq!([of(0), of(1), of(2), of(3)], [12, 1, 0, 0]);
    assert_eq!(place.stock(0).await, (100, 13, 0));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn commands_for_the_same_order_find_what_the_earlier_made_of_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 10)]).await;
    let order = id(&place.create(place.body("one", &[(0, 10)])).await.unwrap());
    let other = id(&place.create(place.body("other", &[(0, 1)])).await.unwrap());
    let commands = [&SEND, &SEND, &Command::Process, &Command::Rollback, &SEND];
    let done = join_all(commands.map(|command| place.command(order, command))).await;
    let missing = place.command(ExpeditionId::new(), &SEND).await.unwrap_err();
    assert_eq!(missing.kind().code, "not_found");
    for answer in done {
        if let Err(problem) = answer {
            assert_eq!(problem.kind().code, "wrong_status");
        }
    }
    assert_eq!(place.command(order, &SEND).await.unwrap()["status"], "awaiting_processing");
    assert_eq!(place.command(other, &SEND).await.unwrap()["status"], "waiting_for_goods");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_key_is_answered_with_its_own_order(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 10)]).await;
    let (services, caller) = (&place.world.services, random_id());
    let claim = async |key: &str| {
        let key = Key { caller, scope: [0; 32], method: "POST", path: "/api/expedition", key };
        idempotency::claim(&services.db.main, &key, Some(b"body")).await.unwrap()
    };
    let create = async |n: usize| {
        let Claimed::First(held) = claim(&format!("key-{n}")).await else { panic!("key {n} is known") };
        let context = Context { claim: held.claim(), ..place.world.context.clone() };
        let body = sent(&place, &format!("N-{n}"), &[(0, 1)]);
        let answer = place.orders.create(services, &context, body).await.unwrap();
        held.keep();
        answer
    };
    let answers = join_all((0..24).map(create)).await;
    for (n, answered) in answers.iter().enumerate() {
        let Claimed::Repeated { answer, .. } = claim(&format!("key-{n}")).await else {
            panic!("the answer of key {n} was not recorded")
        };
        assert_eq!(&answer, answered);
        assert!(answer.body.unwrap().contains(&format!("\"N-{n}\"")));
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_locked_stock_holds_up_no_order_of_another(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 100), (1, 100)]).await;
    let mut holder = place.world.owner.begin().await.unwrap();
    let lock = "SELECT FROM product_stock s JOIN product p ON p.id = s.product_id WHERE p.product_sku = 'P0' FOR UPDATE OF s";
    sqlx::query(lock).execute(&mut *holder).await.unwrap();
    let locked = join_all((0..6).map(|n| place.create(sent(&place, &format!("locked-{n}"), &[(0, 1)]))));
    let others = async {
        // more one after the other than would fit in the time that a lock is waited for, if each had to
        for n in 0..10 {
            let made = place.create(sent(&place, &format!("other-{n}"), &[(1, 1)])).await.unwrap();
            assert_eq!(made["status"], "awaiting_processing");
        }
        holder.commit().await.unwrap();
    };
    let (locked, ()) = tokio::join!(locked, others);
    assert!(
        locked.iter().all(|made| made.as_ref().is_ok_and(|made| made["status"] == "awaiting_processing"))
    );
    place.must_hold().await;
}
