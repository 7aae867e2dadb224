//! Acceptance of bulk switches; without a worker, they stay queued
//! (`docs/reference/jobs.md#bulk-operations`).

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World};
use crate::support::Reply;
use crate::support::strangers;

/// Requests the activation of products, without waiting.
async fn activate(world: &World, ids: Value, headers: &[(&str, &str)]) -> Reply {
    world.api.call_with(&world.api.user, Method::PUT, &format!("{PATH}/activate"), ids, headers).await
}

const AT_ONCE: [(&str, &str); 1] = [("prefer", "respond-async")];

fn ids(count: u128) -> Vec<Uuid> {
    (1..=count).map(Uuid::from_u128).collect()
}

#[tokio::test]
async fn an_accepted_bulk_returns_its_job() {
    let world = World::new(&strangers().await).await;
    let headers = [("prefer", "respond-async"), ("x-request-id", "request-9")];
    let reply = activate(&world, json!(ids(2)), &headers).await.expect(202);
    assert_eq!(reply.header("preference-applied"), Some("respond-async"));
    let job = reply.json();
    let path = format!("/api/job/{}", job["id"].as_str().unwrap());
    assert_eq!(reply.header("location"), Some(path.as_str()));
    let expected = json!({
        "id": job["id"],
        "kind": "product.activate",
        "state": "queued",
        "organisation": world.api.tenant.organisation,
        "eshop": null,
        "progress": {"total": 2, "done": 0, "changed": 0, "unchanged": 0, "failed": 0, "withheld": 0},
        "outcome": null,
        "result": null,
        "criteria": null,
        "of": null,
        "preview": null,
        "connection": null,
        "waitsFor": null,
        "attempts": 0,
        "error": null,
        "createdBy": {"type": "token", "id": job["createdBy"]["id"], "name": "user of a test"},
        "requestId": "request-9",
        "createdAt": job["createdAt"],
        "startedAt": null,
        "attemptStartedAt": null,
        "finishedAt": null,
        "changedAt": job["createdAt"],
        "version": 1,
    });
    assert_eq!(job, expected);
    assert!(job["createdBy"]["id"].is_string());
    assert_eq!(world.api.get(&world.api.user, &path).await.expect(200).json(), job);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bulk_has_1_to_100000_ids_and_counts_each_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let many = ids(100_001);
    for (ids, total, chunks) in [(&many[..1], 1, 1), (&many[..100_000], 100_000, 100)] {
        let job = activate(&world, json!(ids), &AT_ONCE).await.expect(202).json();
        assert_eq!(job["progress"]["total"], total);
        let counted: (i64, i64) = sqlx::query_as(
            "SELECT count(*), sum(item_count) FROM job_chunk WHERE job_id = $1::uuid AND state = 'queued'",
        )
        .bind(job["id"].as_str().unwrap())
        .fetch_one(&world.owner)
        .await
        .unwrap();
        assert_eq!(counted, (chunks, total));
    }
    let doubled = json!([many[0], many[1], many[0], many[1], many[2]]);
    let job = activate(&world, doubled, &AT_ONCE).await.expect(202).json();
    assert_eq!(job["progress"]["total"], 3);
    // the limit counts duplicates, which are removed afterwards
    let mut same = many.clone();
    same.fill(Uuid::max());
    for too_many in [&many, &same] {
        let reply = activate(&world, json!(too_many), &AT_ONCE).await.expect(400);
        assert_eq!(reply.violations(), [" invalid_count"]);
    }
    assert_eq!(world.count("SELECT count(*) FROM job").await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn anything_but_an_array_of_ids_is_refused_and_leaves_no_job(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let id = Uuid::nil();
    for verb in ["activate", "deactivate"] {
        for (body, expected) in [
            (json!([]), vec![" invalid_count"]),
            (json!({"id": [id]}), vec![" required"]),
            (json!(id), vec![" wrong_type"]),
            (json!([id, id, id, "sku"]), vec!["[3] invalid_id"]),
            (json!([id, id, 7, null]), vec!["[2] wrong_type", "[3] wrong_type"]),
            (json!(["0190a000000070008000000000000000"]), vec!["[0] invalid_id"]),
        ] {
            let reply =
                world.api.put(&world.api.user, &format!("{PATH}/{verb}"), body.clone()).await.expect(400);
            assert_eq!(reply.violations(), expected, "{body}");
        }
        let reply = world.api.put(&world.api.user, &format!("{PATH}/{verb}"), Value::Null).await.expect(400);
        assert_eq!(reply.json()["code"], "malformed_body");
    }
    assert_eq!(world.count("SELECT count(*) FROM job").await, 0);
}

#[tokio::test]
async fn a_caller_that_does_not_wait_long_enough_gets_the_unfinished_job() {
    let world = World::new(&strangers().await).await;
    for (prefer, applied) in [
        ("respond-async", "respond-async"),
        ("wait=0", "wait=0"),
        ("wait=1", "wait=1"),
        ("respond-async, wait=0", "wait=0"),
    ] {
        let reply = activate(&world, json!(ids(1)), &[("prefer", prefer)]).await.expect(202);
        assert_eq!(reply.header("preference-applied"), Some(applied), "{prefer}");
        assert!(reply.header("location").is_some());
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_caller_that_waits_gets_an_answer_when_the_job_has_ended(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    // acts as the worker
    let end = async {
        world.until("SELECT count(*) FROM job", 1).await;
        world
            .execute(
                "UPDATE job_chunk SET state = 'succeeded';
                 UPDATE job SET state = 'succeeded', chunks_open = 0, done = 1, changed = 1, finished_at = now()",
            )
            .await;
    };
    let (reply, ()) = tokio::join!(activate(&world, json!(ids(1)), &[]), end);
    let reply = reply.expect(200);
    assert_eq!(reply.json()["state"], "succeeded");
    assert_eq!(reply.header("preference-applied"), None);
    assert!(reply.header("location").is_some());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_bulk_answers_with_the_same_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let headers = [("prefer", "respond-async"), ("idempotency-key", "k")];
    let first = activate(&world, json!(ids(2)), &headers).await.expect(202);
    world.execute("UPDATE job SET state = 'running', started_at = now()").await;
    let again = activate(&world, json!(ids(2)), &headers).await.expect(202);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header("location"), first.header("location"));
    // the current state of the job
    assert_eq!((&again.json()["id"], &again.json()["state"]), (&first.json()["id"], &json!("running")));
    activate(&world, json!(ids(3)), &headers).await.expect(422);
    // a key belongs to its path
    let path = format!("{PATH}/deactivate");
    let other =
        world.api.call_with(&world.api.user, Method::PUT, &path, json!(ids(2)), &headers).await.expect(202);
    assert_ne!(other.json()["id"], first.json()["id"]);
    assert_eq!(other.json()["kind"], "product.deactivate");
    assert_eq!(world.count("SELECT count(*) FROM job").await, 2);
}
