//! Limits on the stored data of a job, and on the jobs of an organisation.

use futures::future::join_all;
use longshore_domain::catalog::product::switch;
use longshore_domain::job::control;
use longshore_domain::job::item_error::{self, KEPT};
use longshore_domain::job::kind::DeactivateProducts;
use longshore_domain::job::kind::JobKind::ProductDeactivate;
use longshore_domain::list::Form;
use longshore_domain::partner::push::Push::Products;
use longshore_kernel::ids::ProductId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{World, context_of};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_acceptances_do_not_exceed_the_limit(_: PgPoolOptions, options: PgConnectOptions) {
    let mut services = services::for_test(&options).unwrap();
    services.unfinished_jobs = 5;
    let world = World::over(services, &options).await;
    let ids = world.products(1).await;
    // some in a line, some not
    let push = world.sync(Products, [r#"{"productSku":"P0","name":"Mug"}"#]).await;
    let asked = join_all(
        (0..20).map(|_| switch::accept(&world.services, &world.context, DeactivateProducts, ids.clone())),
    )
    .await;
    let refused: Vec<_> = asked.iter().filter_map(|asked| asked.as_ref().err()).collect();
    assert_eq!(refused.len(), 16);
    for problem in refused {
        assert_eq!((problem.kind().status, problem.kind().code), (429, "share_used"));
        assert!(problem.retry_after_hint().is_some());
        assert_eq!(
            problem.to_string(),
            "share_used: the organisation already has 5 unfinished jobs, which is the maximum"
        );
    }
    assert_eq!(world.count("SELECT count(*) FROM job").await, 5, "what is refused leaves nothing");
    let other = Tenant::create(&world.services, "Other").await.unwrap();
    let others = context_of(&other);
    switch::accept(&world.services, &others, DeactivateProducts, ids.clone()).await.unwrap();
    control::cancel(&world.services, &world.context, push).await.unwrap();
    world.switch(ProductDeactivate, &ids).await;
    world.drain().await;
    world.switch(ProductDeactivate, &ids).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn item_errors_above_the_limit_are_only_counted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let unknown: Vec<ProductId> =
        (0..KEPT + 1_500).map(|_| longshore_kernel::ids::random_id().into()).collect();
    let job = world.switch(ProductDeactivate, &unknown).await;
    world.drain().await;
    let all = i64::from(KEPT) + 1_500;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 0, all]));
    assert_eq!(world.count("SELECT count(*) FROM job_item_error").await, i64::from(KEPT));
    let page = item_error::list(
        &world.services,
        &world.context.caller.scope,
        job,
        Some(json!({"limit": 1})),
        Form::Json,
    );
    let page: Value = serde_json::from_str(&page.await.unwrap()).unwrap();
    assert_eq!(page["paging"]["total"], KEPT);
    // a retry runs the items whose errors are kept; new errors are kept, and the rest remains counted
    control::retry(&world.services, &world.context, job).await.unwrap();
    assert_eq!(world.job(job).await["failed"], 1_500);
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 0, all]));
    assert_eq!(world.count("SELECT count(*) FROM job_item_error").await, i64::from(KEPT));
}
