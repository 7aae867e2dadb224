use longshore_domain::catalog::product::switch;
use longshore_domain::job::kind::DeactivateProducts;
use longshore_domain::job::kind::JobKind::{ProductActivate, ProductDeactivate};
use longshore_domain::standing::backlog;
use longshore_kernel::access::Scope;
use longshore_kernel::ids;
use longshore_kernel::input::Reader;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{World, context_of};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bulk_switch_changes_each_product_once_and_names_unknown_ids(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut ids = world.products(10).await;
    let stranger = ids::new_id();
    ids.insert(3, stranger.into());
    ids.push(ids[0]); // mentioned twice
    let job = world.switch(ProductDeactivate, &ids).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [10, 0, 1]));
    assert_eq!(world.job(job).await["total"], 11);
    assert_eq!(world.errors(job).await, [format!("3 {stranger} not_found")]);
    assert_eq!(world.count("SELECT count(*) FROM product WHERE NOT active").await, 10);
    let metrics = backlog::metrics(&world.services).await.unwrap();
    assert!(metrics.contains("longshore_jobs_total{kind=\"product.deactivate\",outcome=\"succeeded\"} 1"));
    assert_eq!(
        world
            .count(
                "SELECT count(*) FROM audit WHERE action = 'product.deactivate' AND changes = '{\"active\": [true, false]}'
                 AND request_id = 'r1' AND job_id IS NOT NULL"
            )
            .await,
        10
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_is_already_switched_is_neither_audited_nor_sent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook("product_change").await;
    let ids = world.products(5).await;
    let changed_at = "SELECT extract(epoch FROM max(changed_at) - min(created_at))::bigint FROM product";
    let before = world.count(changed_at).await;
    let job = world.switch(ProductActivate, &ids).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 5, 0]));
    assert_eq!(world.count(changed_at).await, before);
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE entity_type = 'product'").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM delivery").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_change_is_sent_to_each_subscribed_webhook(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook("product_change").await;
    world.webhook("*").await;
    world.webhook("product_stock_change").await;
    let ids = world.products(4).await;
    world.switch(ProductDeactivate, &ids).await;
    world.drain().await;
    // and the end of the job, to the one that hears everything
    assert_eq!(world.count("SELECT count(*) FROM event").await, 4 + 1);
    assert_eq!(world.count("SELECT count(*) FROM delivery").await, 8 + 1);
    assert_eq!(
        world
            .count(
                "SELECT count(*) FROM event WHERE type = 'product_change' AND data->'fields' = '{\"active\": false}'
                 AND data->>'id' = entity_id::text AND data ? 'productSku'"
            )
            .await,
        4
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_without_subscribers_writes_no_event(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(4).await;
    world.switch(ProductDeactivate, &ids).await;
    world.drain().await;
    assert_eq!(world.count("SELECT count(*) FROM event").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn products_of_another_organisation_are_unknown(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(3).await;
    let other = longshore_testkit::world::Tenant::create(&world.services, "Other").await.unwrap();
    let mut stranger = World::new(&options).await;
    stranger.context = context_of(&other);
    let job = stranger.switch(ProductDeactivate, &ids).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 0, 3]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE NOT active").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_switch_of_an_admin_reaches_its_organisations_and_no_other(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let [mut first, mut second, third] =
        [World::new(&options).await, World::new(&options).await, World::new(&options).await];
    let organisations = [first.tenant.organisation, second.tenant.organisation];
    for world in [&mut first, &mut second] {
        world.context.caller.scope = Scope::Organisations(organisations.into());
    }
    let ids = [first.products(2).await, third.products(2).await, second.products(2).await].concat();
    let job = first.switch(ProductDeactivate, &ids).await;
    first.drain().await;
    assert_eq!(first.outcome(job).await, ("succeeded".to_owned(), [4, 0, 2]));
    let [theirs, also_theirs] = [ids[2], ids[3]];
    let expected = [format!("2 {theirs} not_found"), format!("3 {also_theirs} not_found")];
    assert_eq!(first.errors(job).await, expected);
    assert_eq!(first.count("SELECT count(*) FROM product WHERE NOT active").await, 4);
    // its parameters contain only the organisations that it may change
    let one = second.switch(ProductActivate, &ids[2..]).await;
    second.drain().await;
    assert_eq!(second.outcome(one).await, ("succeeded".to_owned(), [2, 0, 2]));
    let stored = second.job(one).await;
    assert_eq!(stored["parameters"]["organisations"], json!([organisations[1]]));
    assert_eq!(stored["organisation_id"], json!(organisations[1]));
    // a caller without organisations changes nothing
    second.context.caller.scope = Scope::Organisations([].into());
    let none = second.switch(ProductDeactivate, &ids).await;
    second.drain().await;
    assert_eq!(second.outcome(none).await, ("succeeded".to_owned(), [0, 0, 6]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_late_older_switch_does_not_undo_a_newer_one(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(3).await;
    let older = world.switch(ProductDeactivate, &ids).await;
    let newer = world.switch(ProductActivate, &ids).await;
    longshore_worker::jobs::chunk::run(world.worker.clone(), format!("{newer}:0")).await;
    world.drain().await;
    assert_eq!(world.outcome(newer).await, ("succeeded".to_owned(), [0, 3, 0]));
    assert_eq!(world.outcome(older).await, ("succeeded".to_owned(), [0, 3, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE NOT active").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_large_bulk_is_split_into_chunks_of_a_thousand(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(2_001).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    assert_eq!(world.drain().await, 3);
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_001, 0, 0]));
    let took = "SELECT count(*) FROM job WHERE finished_at > started_at + interval '1 millisecond'";
    assert_eq!(world.count(took).await, 1, "its end is the moment of the end");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_products_that_match_are_switched_and_nothing_else(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(2_500).await;
    let wanted = json!({"criteria": {"id": {"in": &ids[..2_200]}}, "expect": 2_200});
    let chosen = Reader::read(wanted.clone(), switch::body()).unwrap();
    let answer = switch::accept(&world.services, &world.context, DeactivateProducts, chosen).await.unwrap();
    let job = answer.job.unwrap();
    assert_eq!(world.job(job).await["parameters"]["criteria"], wanted["criteria"]);
    // one is switched by itself in the meantime, which is a later acceptance
    world.switch(ProductActivate, &ids[..1]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await.0, "succeeded");
    let mut switched: Vec<ids::ProductId> =
        sqlx::query_scalar("SELECT id FROM product WHERE NOT active").fetch_all(&world.owner).await.unwrap();
    switched.sort_unstable();
    let mut expected = ids[1..2_200].to_vec();
    expected.sort_unstable();
    assert!(switched == expected);
}
