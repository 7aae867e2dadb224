//! Acceptance of bulk changes of admins; without a worker, they stay queued
//! (`docs/reference/jobs.md#bulk-operations`).

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, World};
use crate::support::Reply;

const VERBS: [&str; 3] = ["activate", "deactivate", "delete"];

async fn ask(world: &World, verb: &str, ids: Value, headers: &[(&str, &str)]) -> Reply {
    world.api.call_with(&world.api.superadmin, Method::PUT, &format!("/api/admin/{verb}"), ids, headers).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unknown_id_is_named_and_nothing_is_accepted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let known = world.add_admin("ann", json!({})).await;
    let stranger = Uuid::nil();
    for verb in VERBS {
        let reply = ask(&world, verb, json!([known, stranger, known]), &[]).await.expect(400);
        assert_eq!(reply.violations(), ["[1] unknown_reference"]);
        assert!(reply.text.contains(&stranger.to_string()));
        for body in [json!([]), json!(known), json!({"ids": [known]}), json!([1]), json!(["x"])] {
            ask(&world, verb, body, &[]).await.expect(400);
        }
        let too_many = json!(vec![known.clone(); 100_001]);
        let reply = ask(&world, verb, too_many, &[]).await.expect(400);
        assert_eq!(reply.violations(), [" invalid_count"]);
    }
    assert_eq!(world.count("SELECT count(*) FROM job").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM admin WHERE active").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_hundred_thousand_admins_are_one_chunk_and_each_counts_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "INSERT INTO admin (id, email, first_name, last_name, role, active, active_acceptance)
         SELECT uuid_v7(), n || '@example.com', 'x', 'y', 'admin', true, 0 FROM generate_series(1, 50000) AS n
         RETURNING id",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let twice = [ids.clone(), ids].concat();
    let headers = [("prefer", "respond-async")];
    let job = ask(&world, "deactivate", json!(twice), &headers).await.expect(202).json();
    assert_eq!((&job["kind"], &job["state"]), (&json!("admin.deactivate"), &json!("queued")));
    assert_eq!(job["progress"]["total"], 50_000);
    assert_eq!(world.count("SELECT count(*) FROM job_chunk WHERE item_count = 50000").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM job_chunk").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_caller_that_does_not_wait_long_enough_gets_the_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let admin = world.add_admin("ann", json!({})).await;
    for prefer in ["respond-async", "wait=0", "wait=1"] {
        for verb in VERBS {
            let reply = ask(&world, verb, json!([admin]), &[("prefer", prefer)]).await.expect(202);
            assert_eq!(reply.header("preference-applied"), Some(prefer));
            let job = reply.json();
            assert_eq!(job["kind"], format!("admin.{verb}"));
            let path = format!("/api/job/{}", job["id"].as_str().unwrap());
            assert_eq!(reply.header("location"), Some(path.as_str()));
            world.api.get(&world.api.superadmin, &path).await.expect(200);
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_caller_that_waits_gets_the_result_of_the_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let admin = world.add_admin("ann", json!({})).await;
    for (end, status) in [
        (
            "UPDATE job_chunk SET state = 'succeeded' WHERE state = 'queued';
          UPDATE job SET state = 'succeeded', chunks_open = 0, done = 1, changed = 1, finished_at = now()
          WHERE finished_at IS NULL",
            204,
        ),
        (
            "UPDATE job_chunk SET state = 'failed' WHERE state = 'queued';
          UPDATE job SET state = 'failed', chunks_open = 0, done = 1, failed = 1, finished_at = now(),
              error = 'no active superadmin would remain'
          WHERE finished_at IS NULL",
            409,
        ),
    ] {
        // acts as the worker
        let worker = async {
            while world.count("SELECT count(*) FROM job WHERE finished_at IS NULL").await == 0 {
                tokio::task::yield_now().await;
            }
            sqlx::raw_sql(end).execute(&world.owner).await.unwrap();
        };
        let ids = json!([admin]);
        let wait = [("prefer", "wait=60")];
        let (reply, ()) = tokio::join!(ask(&world, "deactivate", ids, &wait), worker);
        let reply = reply.expect(status);
        if status == 204 {
            assert_eq!(reply.text, "");
        } else {
            assert_eq!(reply.json()["detail"], "no active superadmin would remain");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_bulk_returns_the_same_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let admin = world.add_admin("ann", json!({})).await;
    let headers = [("prefer", "respond-async"), ("idempotency-key", "k")];
    let first = ask(&world, "delete", json!([admin]), &headers).await.expect(202);
    let again = ask(&world, "delete", json!([admin]), &headers).await.expect(202);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["id"], first.json()["id"]);
    assert_eq!(world.count("SELECT count(*) FROM job").await, 1);
}
