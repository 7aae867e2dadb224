//! `job_finished`: the end of any job, told to webhooks (`docs/reference/webhooks.md#events`).

use longshore_domain::job::control;
use longshore_domain::job::kind::JobKind::ProductDeactivate;
use longshore_domain::list::{self, fields::job::JOB};
use longshore_domain::partner::push::Push::Stocks;
use longshore_kernel::access::Scope;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

/// What was told, in order: the webhook's e-shop, and the data.
async fn told(world: &World) -> Vec<Value> {
    sqlx::query_scalar(
        "SELECT e.data FROM event e JOIN delivery d ON d.event_id = e.id
         WHERE e.type = 'job_finished' ORDER BY d.created_at, d.id",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_is_told_as_it_is_shown_with_its_first_item_errors(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook("job_finished").await;
    world.products(1).await;
    let rows = (0..25).map(|n| format!(r#"{{"productSku":"P{n}","quantity":1}}"#));
    let job = world.sync(Stocks, rows).await;
    world.drain().await;
    let [data] = <[Value; 1]>::try_from(told(&world).await).unwrap();
    let shown = list::find(&world.services.db.main, &JOB, &Scope::Everything, job).await.unwrap();
    let mut expected: Value = serde_json::from_str(&shown.unwrap().json).unwrap();
    let error = |n: i32| json!({"index": n, "line": 3 + 2 * n, "key": format!("P{n}"), "code": "unknown_product", "propertyPath": "productSku"});
    expected["errors"] = (1..=20).map(error).collect();
    assert_eq!(data, expected);
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'job.finish'").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_of_no_eshop_is_told_to_each_of_its_organisation(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook("job_finished").await;
    let ids = world.products(2).await;
    let done = world.switch(ProductDeactivate, &ids).await;
    world.drain().await;
    let cancelled = world.switch(ProductDeactivate, &ids).await;
    control::cancel(&world.services, &world.context, cancelled).await.unwrap();
    let of = |data: &Value| (data["id"].clone(), data["state"].clone(), data["errors"].clone());
    assert_eq!(
        told(&world).await.iter().map(of).collect::<Vec<_>>(),
        [(json!(done), json!("succeeded"), json!([])), (json!(cancelled), json!("cancelled"), json!([]))]
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_of_several_organisations_is_told_to_none(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook("job_finished").await;
    let ids = world.products(1).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    world
        .execute("UPDATE job SET organisations = ARRAY[organisation_id, uuid_v7()], organisation_id = NULL")
        .await;
    world.drain().await;
    assert_eq!(world.outcome(job).await.0, "succeeded");
    assert_eq!(told(&world).await, [] as [Value; 0]);
}
