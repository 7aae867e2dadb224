//! Stored jobs that this version cannot execute: another version accepted them.

use longshore_domain::job::control;
use longshore_domain::partner::push::Push;
use longshore_kernel::migration::MIGRATIONS;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const ROW: [&str; 1] = [r#"{"productSku":"P0","quantity":3}"#];

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_of_an_unknown_kind_fails_and_holds_up_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(1).await;
    let unknown = world.sync(Push::Stocks, ROW).await;
    world.execute("UPDATE job SET kind = 'stock.guess'").await;
    let behind = world.sync(Push::Stocks, ROW).await;
    world.drain().await;
    assert_eq!(world.outcome(unknown).await, ("failed".to_owned(), [0, 0, 1]));
    assert_eq!(
        world.job(unknown).await["error"],
        r#"unknown_kind: this version has no jobs of the kind "stock.guess""#
    );
    assert_eq!(world.outcome(behind).await, ("succeeded".to_owned(), [1, 0, 0]));
    let refused = control::retry(&world.services, &world.context, unknown).await.unwrap_err();
    assert_eq!(refused.kind().status, 409, "{refused}");
    // a version that knows the kind may execute it
    world.execute("UPDATE job SET kind = 'stock.sync'").await;
    control::retry(&world.services, &world.context, unknown).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(unknown).await, ("succeeded".to_owned(), [0, 1, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_whose_parameters_cannot_be_read_fails_and_holds_up_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.products(1).await;
    let unreadable = world.sync(Push::Stocks, ROW).await;
    world.execute("UPDATE job SET parameters = parameters - 'warehouse'").await;
    let behind = world.sync(Push::Stocks, ROW).await;
    world.drain().await;
    assert_eq!(world.outcome(unreadable).await, ("failed".to_owned(), [0, 0, 1]));
    let error = world.job(unreadable).await["error"].as_str().unwrap().to_owned();
    let expected = "unusable_parameters: the stored parameters of this \"stock.sync\" job cannot be used: ";
    assert_eq!(error, format!("{expected}missing field `warehouse`"));
    assert_eq!(world.outcome(behind).await, ("succeeded".to_owned(), [1, 0, 0]));
}
