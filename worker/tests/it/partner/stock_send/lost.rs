//! Calls whose answer is lost: the partner may have taken the counts, or not.

use longshore_domain::partner::send_out::{self, Extent, StockToSend, changes};
use longshore_kernel::hold::Hold;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::baselinker::{BaseLinker, INVENTORY, Mischief, WAREHOUSE};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{AGAIN, UPDATE, accept, count_stock, count_stock_quietly, die, dispatch, last_job, start};
use crate::job::claim::claim;
use crate::job::support::World;
use crate::partner::support::DUE;

/// The only count is known, and is three.
const THREE: &str = "SELECT count(*) FROM partner_stock WHERE taken = 3 AND refused IS NULL";

/// A partner that took three pieces of the only product.
async fn start_with_three(options: &PgConnectOptions) -> (World, BaseLinker) {
    let (world, partner) = Box::pin(start(options, 1)).await;
    count_stock(&world, &[(0, 3)]).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!((partner.stock(1_000), world.count(THREE).await), (Some(3), 1));
    world.execute(AGAIN).await;
    (world, partner)
}

/// Makes the partner take the counts of each try of a turn, and cut its answers. The first try comes over a kept connection, and is
/// made again on another one.
pub(super) fn lose_answers(partner: &BaseLinker) {
    for _ in 0..4 {
        partner.next(UPDATE, Mischief::Cut);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stock_that_returns_to_the_last_known_count_after_a_lost_answer_is_sent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_three(&options).await;
    lose_answers(&partner);
    count_stock(&world, &[(0, 10)]).await;
    assert_eq!(dispatch(&world).await, 1);
    let job = last_job(&world).await;
    assert_eq!((partner.stock(1_000), partner.calls(UPDATE)), (Some(10), 5));
    count_stock_quietly(&world, 3).await;
    dispatch(&world).await;
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await.0, "succeeded");
    assert_eq!((partner.stock(1_000), partner.calls(UPDATE)), (Some(3), 6));
    assert_eq!(world.count("SELECT count(*) FROM stock_due").await, 0);
    // the count is known again, so it is not sent once more
    assert_eq!(world.count(THREE).await, 1);
    accept(&world, Extent::Everything).await;
    world.drain().await;
    assert_eq!(partner.calls(UPDATE), 6);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_later_send_out_of_everything_repairs_what_a_cancelled_one_left(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_three(&options).await;
    lose_answers(&partner);
    count_stock(&world, &[(0, 10)]).await;
    assert_eq!(dispatch(&world).await, 1);
    count_stock_quietly(&world, 3).await;
    // nothing remembers the job or the changes
    world
        .execute("DELETE FROM job WHERE kind = 'stock.send'; DELETE FROM stock_change; DELETE FROM stock_due")
        .await;
    accept(&world, Extent::Everything).await;
    world.drain().await;
    assert_eq!((partner.stock(1_000), world.count(THREE).await), (Some(3), 1));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_successor_of_a_worker_that_died_in_a_call_sends_a_stock_that_returned(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_three(&options).await;
    count_stock_quietly(&world, 10).await;
    assert_eq!(changes::dispatch(&world.services).await.unwrap(), 1);
    let job = last_job(&world).await;
    partner.next(UPDATE, Mischief::Silence);
    let calls = partner.asked().len();
    die(&world, &partner, job, calls + 1).await;
    assert_eq!(partner.stock(1_000), Some(10));
    count_stock_quietly(&world, 3).await;
    dispatch(&world).await;
    assert_eq!(world.outcome(job).await.0, "succeeded");
    assert_eq!((partner.stock(1_000), world.count(THREE).await), (Some(3), 1));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn no_call_is_made_under_a_claim_that_was_lost(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, _partner) = start_with_three(&options).await;
    let job = accept(&world, Extent::Everything).await;
    let claim = claim(&world, job).await;
    let stocks = [StockToSend {
        warehouse: WAREHOUSE.to_owned(),
        inventory: INVENTORY.to_owned(),
        item: "1000".to_owned(),
        product_sku: "P0".to_owned(),
        pieces: 10,
    }];
    let announce =
        async || send_out::announce(&world.services, &claim, world.tenant.eshop, &stocks).await.unwrap();
    // the successor's answer stays
    world.execute("UPDATE job_chunk SET token = token + 1 WHERE state = 'running'").await;
    assert_eq!((announce().await, world.count(THREE).await), (Hold::Lost, 1));
    world.execute("UPDATE job_chunk SET token = token - 1 WHERE state = 'running'").await;
    assert_eq!((announce().await, world.count(THREE).await), (Hold::Kept, 0));
}
