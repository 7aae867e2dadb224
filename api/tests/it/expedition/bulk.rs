//! Operations on many orders (`docs/reference/orders.md#bulk-operations`). The test does the jobs, like a worker.

use http::Method;
use longshore_domain::expedition::bulk;
use longshore_domain::expedition::command::Command;
use longshore_domain::job::chunk::{self, Claim, Claimed, Count};
use longshore_domain::job::execution;
use longshore_domain::job::item_error::ItemError;
use longshore_domain::job::kind::{
    CancelExpeditions, Job, ProcessExpeditions, RollBackExpeditions, SendExpeditions, Within,
};
use longshore_domain::job::outcome::Outcome;
use longshore_domain::job::payload;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::JobId;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World, path};
use crate::support::Reply;

/// Does a job of orders to its end.
pub(super) async fn work(world: &World, job: &Value) {
    let job: JobId = job["id"].as_str().unwrap().parse().unwrap();
    let services = &world.api.services;
    for number in 0.. {
        let Claimed::Now(claim) = chunk::claim(&services.db.main, job, number, false).await.unwrap() else {
            return;
        };
        let (within, command) = asked(&claim);
        let ids = payload::unpack_ids(&claim.payload).unwrap();
        let mut change = Change::begin(services).await.unwrap();
        let (changed, refused) =
            bulk::execute(&mut change, &claim.origin, &within, &ids, &command).await.unwrap();
        let error = |refused: bulk::Refused| ItemError {
            index: claim.index(refused.position),
            line: None,
            key: Some(ids[refused.position].to_string()),
            code: refused.code,
            message: refused.message,
            field: None,
            payload: ids[refused.position].get().as_bytes().to_vec(),
            notice: false,
        };
        let errors: Vec<_> = refused.into_iter().map(error).collect();
        let (changed, failed) = (i32::try_from(changed).unwrap(), i32::try_from(errors.len()).unwrap());
        let count = Count { changed, unchanged: claim.item_count - changed - failed, failed };
        let Outcome { count, errors } = Outcome { count, errors };
        let held = execution::complete(&mut change, &claim, count, &errors).await.unwrap();
        assert_eq!(held, Hold::Kept, "no other worker runs here");
        change.commit().await.unwrap();
    }
}

fn asked(claim: &Claim) -> (Within, Command) {
    let kind = *claim.kind.as_ref().unwrap();
    if kind == SendExpeditions::KIND {
        (claim.job::<SendExpeditions>().unwrap().0.0, Command::Send { rebook: false })
    } else if kind == ProcessExpeditions::KIND {
        (claim.job::<ProcessExpeditions>().unwrap().0.0, Command::Process)
    } else if kind == CancelExpeditions::KIND {
        (claim.job::<CancelExpeditions>().unwrap().0.0, Command::Cancel { reason: None })
    } else {
        (claim.job::<RollBackExpeditions>().unwrap().0.0, Command::Rollback)
    }
}

/// Requests an operation on orders, and does its job while the request waits for it.
async fn together(world: &World, operation: &str, ids: Value) -> Reply {
    let path = format!("{PATH}/{operation}");
    let call = world.api.put(&world.api.user, &path, ids);
    let work = async {
        world.until("SELECT count(*) FROM job WHERE state = 'queued'", 1).await;
        let id: Uuid = sqlx::query_scalar("SELECT id FROM job WHERE state = 'queued'")
            .fetch_one(&world.owner)
            .await
            .unwrap();
        work(world, &json!({"id": id})).await;
    };
    tokio::join!(call, work).0
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bulk_answers_204_where_all_is_done_and_the_job_where_some_is_refused(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let held = [world.at("on_hold", "1").await, world.at("on_hold", "2").await];
    let canceled = world.at("canceled", "3").await;
    let delivered = world.at("delivered", "4").await;
    let ids = json!([held[1]["id"], held[0]["id"], held[1]["id"]]);
    let done = together(&world, "send", ids.clone()).await.expect(204);
    assert!(done.text.is_empty());
    for order in &held {
        assert_eq!(world.read(order).await["status"], "awaiting_processing");
    }
    // what is so already is done
    together(&world, "send", ids.clone()).await.expect(204);
    together(&world, "process", ids).await.expect(204);

    let ids = json!([held[0]["id"], Uuid::nil(), canceled["id"], delivered["id"]]);
    let job = together(&world, "rollback", ids).await.expect(200).json();
    assert_eq!((&job["kind"], &job["state"]), (&json!("expedition.rollback"), &json!("succeeded")));
    let progress = json!({"total": 4, "done": 4, "changed": 1, "unchanged": 0, "failed": 3, "withheld": 0});
    assert_eq!(job["progress"], progress);
    let errors = format!("/api/job/{}/error/list", job["id"].as_str().unwrap());
    let errors = world.api.post(&world.api.user, &errors, json!({})).await.expect(200).json();
    let shown: Vec<_> = errors["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| json!([e["index"], e["key"], e["code"]]))
        .collect();
    assert_eq!(
        shown,
        [
            json!([1, Uuid::nil(), "not_found"]),
            json!([2, canceled["id"], "wrong_status"]),
            json!([3, delivered["id"], "wrong_status"]),
        ]
    );
    assert!(errors["results"][1]["message"].as_str().unwrap().starts_with("the order is canceled: "));
    together(&world, "cancel", json!([held[0]["id"]])).await.expect(204);
    assert_eq!(world.read(&held[0]).await["status"], "canceled");
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bulk_is_refused_or_accepted_whole(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let order = world.at("on_hold", "1").await;
    let api = &world.api;
    for operation in ["send", "process", "cancel", "rollback"] {
        let path = format!("{PATH}/{operation}");
        for (body, violation) in [
            (json!([]), " invalid_count"),
            (json!({}), " required"),
            (json!(["x"]), "[0] invalid_id"),
            (json!(vec![Uuid::nil(); 100_001]), " invalid_count"),
        ] {
            let refused = api.put(&api.user, &path, body).await.expect(400);
            assert_eq!(refused.violations(), [violation]);
        }
        api.put(&api.user, &path, Value::Null).await.expect(400);
        let headers = [("prefer", "respond-async"), ("idempotency-key", operation)];
        let call =
            async || api.call_with(&api.user, Method::PUT, &path, json!([order["id"]]), &headers).await;
        let first = call().await.expect(202);
        assert_eq!(first.header("preference-applied"), Some("respond-async"));
        let job = first.json();
        assert_eq!(job["kind"], format!("expedition.{operation}"));
        let again = call().await.expect(202);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.json()["id"], job["id"]);
    }
    assert_eq!(world.count("SELECT count(*) FROM job").await, 4);
    // in the order of acceptance, they all found the order
    assert_eq!(api.get(&api.user, &path(&order, "")).await.expect(200).json(), order);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_orders_that_match_are_taken_in_turn(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mut orders = Vec::new();
    for (number, priority) in [("1", 0), ("2", 5), ("3", 0), ("4", 9)] {
        let order = world.at("on_hold", number).await;
        world.on(Method::PUT, &order, "", json!({"priority": priority})).await.expect(200);
        orders.push(order);
    }
    let other = world.at("canceled", "5").await;
    let wanted = json!({"criteria": {"status": {"eq": "on_hold"}}, "expect": 4});
    let path = format!("{PATH}/send");
    let at_once = [("prefer", "respond-async")];
    let job =
        world.api.call_with(&world.api.user, Method::PUT, &path, wanted, &at_once).await.expect(202).json();
    let later = world.at("on_hold", "6").await;
    let payload: Vec<u8> =
        sqlx::query_scalar("SELECT payload FROM job_chunk").fetch_one(&world.owner).await.unwrap();
    let turn: Vec<Uuid> = payload::unpack_ids(&payload).unwrap();
    assert_eq!(json!(turn), json!([orders[3]["id"], orders[1]["id"], orders[0]["id"], orders[2]["id"]]));
    work(&world, &job).await;
    for order in &orders {
        assert_eq!(world.read(order).await["status"], "awaiting_processing");
    }
    assert_eq!(world.read(&later).await["status"], "on_hold", "it matches, but later");
    assert_eq!(world.read(&other).await["status"], "canceled");
    for (operation, status) in
        [("process", "awaiting_processing"), ("rollback", "awaiting_processing"), ("cancel", "on_hold")]
    {
        let matching = json!({"criteria": {"status": {"eq": status}, "orderNumber": {"eq": "2"}}});
        together(&world, operation, matching).await.expect(204);
    }
    assert_eq!(world.read(&orders[1]).await["status"], "canceled");
    world.must_hold().await;
}
