//! Stocks sent to a partner: which ones, when, and with what result.

mod assortment;
mod feed;
mod list;
mod lost;

use longshore_domain::partner::pull;
use longshore_domain::partner::push::Push;
use longshore_domain::partner::send_out::{self, Extent, changes};
use longshore_kernel::change::Change;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::baselinker::{BaseLinker, Mischief, WAREHOUSE};
use longshore_worker::jobs::chunk::run;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::time::Duration;

use super::baselinker::{store_setting, world_with};
use crate::job::support::World;

const UPDATE: &str = "updateInventoryProductsStock";

/// Ends the pause between two send-outs.
const AGAIN: &str = "UPDATE stock_send_out SET next_at = now()";

/// This many products, in the service and at the partner.
async fn start(options: &PgConnectOptions, count: u32) -> (World, BaseLinker) {
    let partner = BaseLinker::start().await.unwrap();
    partner.fill(count);
    let world = world_with(options, &partner).await;
    world.products(count as usize).await;
    (world, partner)
}

/// Sets quantities of products by their numbers.
async fn count_stock(world: &World, quantities: &[(usize, i32)]) {
    let rows = quantities
        .iter()
        .map(|(n, quantity)| json!({"productSku": format!("P{n}"), "quantity": quantity}).to_string());
    world.sync(Push::Stocks, rows.collect::<Vec<_>>()).await;
    world.drain().await;
}

/// Runs the dispatcher and all due chunks; returns the number of accepted jobs.
async fn dispatch(world: &World) -> u64 {
    let accepted = changes::dispatch(&world.services).await.unwrap();
    world.drain().await;
    accepted
}

/// The last accepted job.
async fn last_job(world: &World) -> JobId {
    sqlx::query_scalar("SELECT id FROM job ORDER BY acceptance DESC LIMIT 1")
        .fetch_one(&world.owner)
        .await
        .unwrap()
}

pub(crate) async fn accept(world: &World, extent: Extent) -> JobId {
    let mut change = Change::begin(&world.services).await.unwrap();
    let (organisation, eshop) = (world.tenant.organisation, world.tenant.eshop);
    let job =
        send_out::accept(&mut change, &world.context.origin, organisation, eshop, &extent).await.unwrap();
    change.commit().await.unwrap();
    job
}

/// A worker begins a job, and dies while the partner does not answer: at this many calls of all.
async fn die(world: &World, partner: &BaseLinker, job: JobId, calls: usize) {
    let running = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    partner.wait_for(calls, Duration::from_mins(1)).await.unwrap();
    running.abort();
    let _ = running.await;
    world
        .execute("UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE state = 'running'")
        .await;
}

/// The products of the last call with stocks.
fn sent(partner: &BaseLinker) -> Value {
    let asked = partner.asked();
    asked.iter().rev().find(|asked| asked.method == UPDATE).unwrap().parameters["products"].clone()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_changed_stock_is_sent_less_the_reserve_and_only_if_it_differs(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start(&options, 3).await;
    store_setting(&world, partner.url(), json!({"stockSync": {"enabled": true, "reserve": 2}})).await;
    count_stock(&world, &[(0, 7), (1, 1), (2, 0)]).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!([1_000, 1_001, 1_002].map(|id| partner.stock(id)), [Some(5), Some(0), Some(0)]);
    // a quantity within the reserve is zero, which the partner has already
    assert_eq!(sent(&partner), json!({"1000": {(WAREHOUSE): 5}}));
    assert_eq!(world.outcome(last_job(&world).await).await, ("succeeded".to_owned(), [1, 0, 0]));
    // the same quantity again is no change
    world.execute(AGAIN).await;
    count_stock(&world, &[(0, 7)]).await;
    assert_eq!(dispatch(&world).await, 0);
    count_stock(&world, &[(1, 9)]).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(sent(&partner), json!({"1001": {(WAREHOUSE): 7}}));
    assert_eq!(partner.calls(UPDATE), 2);
    assert_eq!(world.count("SELECT count(*) FROM stock_due").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn booked_pieces_are_not_available(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 1).await;
    count_stock(&world, &[(0, 7)]).await;
    dispatch(&world).await;
    world.execute(AGAIN).await;
    // any change of a stock counts, from any source
    world.execute("UPDATE product_stock SET held = 3").await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.stock(1_000), Some(4));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn changes_within_a_while_are_one_job_and_none_is_lost(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 3).await;
    count_stock(&world, &[(0, 1)]).await;
    assert_eq!(dispatch(&world).await, 1);
    // the partner gets no calls for a moment
    count_stock(&world, &[(1, 2)]).await;
    assert_eq!(dispatch(&world).await, 0);
    count_stock(&world, &[(2, 3)]).await;
    assert_eq!(dispatch(&world).await, 0);
    assert_eq!(partner.calls(UPDATE), 1);
    world.execute(AGAIN).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!([1_000, 1_001, 1_002].map(|id| partner.stock(id)), [Some(1), Some(2), Some(3)]);
    assert_eq!(partner.calls(UPDATE), 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stock_that_changes_while_it_is_sent_is_sent_again(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 1).await;
    count_stock(&world, &[(0, 1)]).await;
    changes::dispatch(&world.services).await.unwrap();
    let due = changes::due(&world.services, world.tenant.eshop).await.unwrap().unwrap();
    // found while the job is about to record that it is done
    count_stock_quietly(&world, 2).await;
    changes::dispatch(&world.services).await.unwrap();
    changes::confirm(&world.services, world.tenant.eshop, due).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM stock_due").await, 1);
    world.drain().await;
    assert_eq!(partner.stock(1_000), Some(2));
}

/// Sets the quantity of the only stock, without running due chunks.
async fn count_stock_quietly(world: &World, quantity: i32) {
    sqlx::query("UPDATE product_stock SET quantity = $1").bind(quantity).execute(&world.owner).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn stocks_are_not_sent_unless_the_setting_enables_it(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 1).await;
    for fields in
        [json!({"stockSync": {"enabled": false}}), json!({"active": false}), json!({"warehouses": []})]
    {
        store_setting(&world, partner.url(), fields).await;
        count_stock_of(&world, 5).await;
        assert_eq!(world.count("SELECT count(*) FROM stock_change").await, 0);
        assert_eq!(dispatch(&world).await, 0);
    }
    assert_eq!(partner.asked().len(), 0);
}

/// Changes the quantity of the first product.
async fn count_stock_of(world: &World, quantity: i32) {
    count_stock(world, &[(0, quantity)]).await;
    count_stock(world, &[(0, quantity + 1)]).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_equal_request_returns_the_waiting_job(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 2).await;
    store_setting(&world, partner.url(), json!({"stockSync": {"enabled": false}})).await;
    count_stock(&world, &[(0, 4), (1, 5)]).await;
    let by = async |name: Value| {
        let body = json!({"eshop": world.tenant.eshop, "warehouseId": name});
        pull::accept(&world.services, &world.context, Push::Stocks, body).await
    };
    let first = by(json!(WAREHOUSE)).await.unwrap().job.unwrap();
    assert_eq!(by(json!(world.tenant.warehouse)).await.unwrap().job, Some(first), "by our own name, too");
    world.drain().await;
    assert_eq!(world.outcome(first).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!([1_000, 1_001].map(|id| partner.stock(id)), [Some(4), Some(5)]);
    assert_ne!(by(json!(WAREHOUSE)).await.unwrap().job, Some(first));
    let refused = by(json!("bl_999")).await.unwrap_err();
    assert_eq!(refused.violations()[0].property_path, "warehouseId");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_send_out_does_not_wait_for_a_catalogue(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 1).await;
    super::baselinker::pull(&world).await;
    // the catalogue cannot be read now, and is retried later
    for _ in 0..3 {
        partner.next("getInventoryProductsList", Mischief::Status(503));
    }
    world.drain().await;
    world.execute("UPDATE job_chunk SET next_attempt_at = now() + interval '1 hour'").await;
    let send = accept(&world, Extent::Everything).await;
    world.drain().await;
    assert_eq!(world.outcome(send).await.0, "succeeded");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_comparison_corrects_quantities_changed_at_the_partner_and_reports_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start(&options, 3).await;
    count_stock(&world, &[(0, 7), (1, 8), (2, 9)]).await;
    dispatch(&world).await;
    partner.set_stock(1_001, 99);
    let job = accept(&world, Extent::Comparison).await;
    world.drain().await;
    assert_eq!(partner.stock(1_001), Some(8));
    assert_eq!(sent(&partner), json!({"1001": {(WAREHOUSE): 8}}));
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 1, 0]));
    assert_eq!(world.errors(job).await, ["0 P1 drift"]);
    // every night, once
    world.execute("UPDATE stock_send_out SET compare_at = now()").await;
    assert_eq!(changes::compare(&world.services).await.unwrap(), 1);
    assert_eq!(changes::compare(&world.services).await.unwrap(), 0);
    let tomorrow =
        "SELECT count(*) FROM stock_send_out WHERE compare_at BETWEEN now() AND now() + interval '1 day'";
    assert_eq!(world.count(tomorrow).await, 1);
    world.drain().await;
    assert_eq!(world.outcome(last_job(&world).await).await, ("succeeded".to_owned(), [0, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_warning_of_the_partner_is_an_item_error_and_is_not_sent_again_automatically(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start(&options, 2).await;
    partner.warn_of(1_000, "locked by an administrator");
    count_stock(&world, &[(0, 3), (1, 4)]).await;
    dispatch(&world).await;
    let job = last_job(&world).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 1]));
    assert_eq!(world.errors(job).await, ["0 P0 refused_by_partner"]);
    let refusals = "SELECT count(*) FROM job_item_error WHERE message LIKE 'the partner refused 3 pieces in bl_206%locked by an administrator'";
    assert_eq!(world.count(refusals).await, 1);
    world.execute(AGAIN).await;
    count_stock(&world, &[(1, 5)]).await;
    dispatch(&world).await;
    assert_eq!(sent(&partner), json!({"1001": {(WAREHOUSE): 5}}));
    // only on request
    accept(&world, Extent::Everything).await;
    world.drain().await;
    assert_eq!(sent(&partner), json!({"1000": {(WAREHOUSE): 3}}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_revoked_token_fails_only_one_job(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 1).await;
    partner.know(longshore_testkit::baselinker::TOKEN, false);
    count_stock(&world, &[(0, 3)]).await;
    assert_eq!(dispatch(&world).await, 1);
    let failed = last_job(&world).await;
    assert_eq!(world.outcome(failed).await.0, "failed");
    world.execute(AGAIN).await;
    count_stock(&world, &[(0, 4)]).await;
    assert_eq!(dispatch(&world).await, 0);
    // until the operator has corrected it
    partner.know(longshore_testkit::baselinker::TOKEN, true);
    store_setting(&world, partner.url(), json!({"stockSync": {"enabled": true, "reserve": 1}})).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.stock(1_000), Some(3));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn stocks_are_sent_despite_a_brief_failure(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 1).await;
    for (quantity, fault) in (1..).zip([Mischief::Status(502), Mischief::Cut, Mischief::WebPage]) {
        world.execute(AGAIN).await;
        partner.next(UPDATE, fault);
        count_stock(&world, &[(0, quantity)]).await;
        dispatch(&world).await;
        assert_eq!(partner.stock(1_000), Some(i64::from(quantity)));
    }
    assert_eq!(
        world.count("SELECT count(*) FROM job WHERE kind = 'stock.send' AND state <> 'succeeded'").await,
        0
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn more_stocks_than_fit_in_a_call_are_sent_in_several_calls(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start(&options, 1_001).await;
    count_stock(&world, &(0..1_001).map(|n| (n, 5)).collect::<Vec<_>>()).await;
    dispatch(&world).await;
    assert_eq!(partner.calls(UPDATE), 2);
    assert_eq!(world.outcome(last_job(&world).await).await, ("succeeded".to_owned(), [1_001, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_send_out_that_dies_half_way_is_completed_by_the_next_worker(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start(&options, 2).await;
    count_stock(&world, &[(0, 3), (1, 4)]).await;
    changes::dispatch(&world.services).await.unwrap();
    let job = last_job(&world).await;
    partner.next(UPDATE, Mischief::Silence);
    // the list, and the call without an answer
    die(&world, &partner, job, 2).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await.0, "succeeded");
    assert_eq!([1_000, 1_001].map(|id| partner.stock(id)), [Some(3), Some(4)]);
}
