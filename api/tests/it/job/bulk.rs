//! Cancelling and retrying several jobs in one request (`docs/reference/jobs.md#cancel-and-retry`).

use super::*;
use crate::support::strangers;

const CANCEL: &str = "/api/job/cancel";
const RETRY: &str = "/api/job/retry";

pub(super) async fn fail(world: &World, job: &str) {
    sqlx::query("UPDATE job_chunk SET state = 'failed', failed = 1 WHERE job_id = $1::uuid")
        .bind(job)
        .execute(&world.owner)
        .await
        .unwrap();
    sqlx::query(
        "UPDATE job SET state = 'failed', chunks_open = 0, done = 1, failed = 1, finished_at = now() WHERE id = $1::uuid",
    )
    .bind(job)
    .execute(&world.owner)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn several_jobs_are_cancelled_and_the_rest_is_named(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, longshore_kernel::access::Role::User).await.unwrap();
    let jobs = [accept(&world, &api.user).await, accept(&world, &api.user).await];
    let ended = accept(&world, &api.user).await;
    fail(&world, &ended).await;
    let foreign = accept(&world, &theirs).await;
    let ids = json!([jobs[1], ended, jobs[0], foreign, jobs[1]]);
    api.put(&api.viewer, CANCEL, ids.clone()).await.expect(403);
    let once = [("idempotency-key", "cancel")];
    let report = api.call_with(&api.user, Method::PUT, CANCEL, ids.clone(), &once).await.expect(200).json();
    assert_eq!(
        report,
        json!({"done": [jobs[1], jobs[0]], "left": [
            {"id": ended, "code": "conflict", "message": "the job has already ended: it is failed"},
            {"id": foreign, "code": "not_found", "message": "there is no such job"},
        ]})
    );
    let again = api.call_with(&api.user, Method::PUT, CANCEL, ids.clone(), &once).await.expect(200);
    assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), report));
    for (job, state) in [(&jobs[0], "cancelled"), (&jobs[1], "cancelled"), (&ended, "failed")] {
        assert_eq!(api.get(&api.user, &format!("/api/job/{job}")).await.expect(200).json()["state"], state);
    }
    assert_eq!(api.get(&theirs, &format!("/api/job/{foreign}")).await.expect(200).json()["state"], "queued");
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'job.cancel'").await, 2);
    let open = "SELECT count(*) FROM job_chunk c JOIN job j ON j.id = c.job_id WHERE j.state = 'cancelled' AND c.state = 'queued'";
    assert_eq!(world.count(open).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn several_jobs_are_retried_in_the_order_of_their_ids(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let jobs = [accept(&world, &api.user).await, accept(&world, &api.user).await];
    for job in &jobs {
        fail(&world, job).await;
    }
    let queued = accept(&world, &api.user).await;
    let report = api.put(&api.user, RETRY, json!([jobs[1], queued, jobs[0]])).await.expect(200).json();
    assert_eq!(report["done"], json!([jobs[1], jobs[0]]));
    assert_eq!((&report["left"][0]["id"], &report["left"][0]["code"]), (&json!(queued), &json!("conflict")));
    let order: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM job WHERE attempts = 0 ORDER BY acceptance")
        .fetch_all(&world.owner)
        .await
        .unwrap();
    assert_eq!(json!(order), json!([queued, jobs[1], jobs[0]]));
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'job.retry'").await, 2);
}

#[tokio::test]
async fn a_request_names_1_to_500_jobs() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    for path in [CANCEL, RETRY] {
        for (ids, status) in [(0, 400), (1, 200), (500, 200), (501, 400)] {
            let ids: Vec<Uuid> = (1..=ids).map(Uuid::from_u128).collect();
            let reply = api.put(&api.user, path, json!(ids)).await.expect(status);
            assert!(status == 400 || reply.json()["left"].as_array().unwrap().len() == ids.len());
        }
        api.put(&api.user, path, json!(["x"])).await.expect(400);
        api.put(&api.user, path, json!({"ids": []})).await.expect(400);
        api.put("", path, json!([Uuid::nil()])).await.expect(401);
    }
}
