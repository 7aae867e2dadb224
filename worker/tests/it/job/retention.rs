//! Retention of ended jobs.

use longshore_domain::job::retention;
use longshore_domain::partner::push::Push;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn ended_jobs_are_kept_for_ninety_days_and_open_ones_until_they_end(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let refused = || vec![json!({"productSku": "nothing", "quantity": 1}).to_string()];
    let old = world.sync(Push::Stocks, refused()).await;
    let young = world.sync(Push::Stocks, refused()).await;
    world.drain().await;
    let open = world.sync(Push::Stocks, refused()).await;
    for (job, days) in [(old, 91_i32), (young, 89)] {
        assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 0, 1]));
        sqlx::query("UPDATE job SET finished_at = now() - make_interval(days => $2) WHERE id = $1")
            .bind(job)
            .bind(days)
            .execute(&world.owner)
            .await
            .unwrap();
    }
    world.execute("UPDATE job SET created_at = now() - interval '1 year'").await;

    assert_eq!(retention::expire(&world.services.db.main, 10).await.unwrap(), 1);

    let left: Vec<JobId> = sqlx::query_scalar("SELECT DISTINCT job_id FROM job_chunk ORDER BY job_id")
        .fetch_all(&world.owner)
        .await
        .unwrap();
    assert_eq!(left, [young, open]);
    assert_eq!(world.count("SELECT count(*) FROM job").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM job_item_error").await, 1);
    assert_eq!(world.drain().await, 1, "what is open is still done");
}
