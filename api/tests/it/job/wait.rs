//! Waiting for the end of a job (`docs/reference/jobs.md#waiting-for-a-job`).

use std::time::{Duration, Instant};

use longshore_kernel::ids::JobId;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::product::{MIGRATIONS, World};

/// A look of the process at the jobs that are waited for.
const LOOKS: &str = "SELECT least(count(*), 1) FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE '%AS \"ended!\" FROM job WHERE id = ANY%' AND pid <> pg_backend_pid()";
const END: &str = "UPDATE job SET state = 'cancelled', chunks_open = 0, finished_at = now()";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_reader_that_waits_is_answered_at_the_end_or_when_its_time_is_over(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = super::standing::push(&world, 1).await;
    let read = async |wait: u64| {
        let path = format!("/api/job/{}?wait={wait}", job["id"].as_str().unwrap());
        world.api.get(&world.api.user, &path).await.expect(200).json()["state"].clone()
    };
    let end = async {
        world.until(LOOKS, 1).await;
        world.execute(END).await;
    };
    let (state, ()) = tokio::join!(read(60), end);
    assert_eq!(state, json!("cancelled"));
    assert_eq!(read(60).await, json!("cancelled"), "it has ended");

    let job = super::standing::push(&world, 1).await;
    let path = format!("/api/job/{}?wait=", job["id"].as_str().unwrap());
    let read = async |wait: u64| {
        let begun = Instant::now();
        let read = world.api.get(&world.api.user, &format!("{path}{wait}")).await.expect(200).json();
        assert_eq!(read["state"], json!("queued"));
        begun.elapsed()
    };
    assert!(read(1).await >= Duration::from_secs(1));
    world.api.app.closing.cancel();
    assert!(read(60).await < Duration::from_secs(30), "a process that stops answers");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wait_is_refused_beyond_its_bounds_and_for_a_job_that_is_not_there(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = super::standing::push(&world, 1).await;
    let path = format!("/api/job/{}", job["id"].as_str().unwrap());
    for (query, name) in
        [("wait=61", "wait"), ("wait=-1", "wait"), ("wait=", "wait"), ("waiting=1", "waiting")]
    {
        let refused = world.api.get(&world.api.user, &format!("{path}?{query}")).await.expect(400).json();
        assert_eq!(refused["violations"][0]["propertyPath"], json!(name), "{query}");
    }
    let unknown = format!("/api/job/{}?wait=60", JobId::new());
    world.api.get(&world.api.user, &unknown).await.expect(404);
}
