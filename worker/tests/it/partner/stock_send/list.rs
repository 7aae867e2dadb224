//! The list of the partner's items, which a send-out reads before it sends.

use longshore_domain::partner::baselinker::window::{DOCUMENTED, Limit, Window};
use longshore_domain::partner::push::Push;
use longshore_domain::partner::send_out::Extent;
use longshore_domain::partner::send_out::items::{self, Comparison};
use longshore_domain::partner::send_out::listing::{self, Listed};
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::baselinker::{BaseLinker, INVENTORY, Mischief};
use longshore_worker::context::WorkerContext;
use longshore_worker::jobs::chunk::run;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{AGAIN, UPDATE, accept, count_stock, die, dispatch, last_job, start};
use crate::job::claim::claim;
use crate::job::support::World;
use crate::partner::baselinker::{pull, store_setting};
use crate::partner::support::DUE;

const LIST: &str = "getInventoryProductsList";

/// The requested pages of the partner's list, in order.
fn pages(partner: &BaseLinker) -> Vec<u64> {
    let asked = partner.asked().into_iter().filter(|asked| asked.method == LIST);
    asked.map(|asked| asked.parameters["page"].as_u64().unwrap()).collect()
}

/// A world with the first and the last product of a list of three pages, both with five pieces to send.
async fn start_with_three_pages(options: &PgConnectOptions) -> (World, BaseLinker) {
    let (world, partner) = Box::pin(start(options, 2)).await;
    partner.fill(2_100);
    partner.put(LAST, "LAST", "The last", json!({}));
    world.execute("UPDATE product SET product_sku = 'LAST' WHERE product_sku = 'P1'").await;
    let rows = ["P0", "LAST"].map(|sku| json!({"productSku": sku, "quantity": 5}).to_string());
    world.sync(Push::Stocks, rows).await;
    world.drain().await;
    (world, partner)
}

/// The partner's id of the product on the third page.
const LAST: u64 = 9_000;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_list_that_breaks_off_is_continued_and_later_items_are_sent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_three_pages(&options).await;
    partner.next_but_one(LIST, Mischief::Status(503));
    partner.next(LIST, Mischief::Status(503));
    partner.next(LIST, Mischief::Status(503));
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.calls(UPDATE), 0, "nothing is sent before everything is known");
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(world.outcome(last_job(&world).await).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!([1_000, LAST].map(|id| partner.stock(id)), [Some(5), Some(5)]);
    assert_eq!(pages(&partner), [1, 2, 2, 2, 2, 3]);
    // a listed item is not listed again
    world.execute(AGAIN).await;
    count_stock(&world, &[(0, 6)]).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!((partner.stock(1_000), pages(&partner).len()), (Some(6), 6));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_page_is_not_mistaken_for_the_end_of_the_list(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_three_pages(&options).await;
    partner.next_but_one(LIST, Mischief::PageBefore);
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(world.outcome(last_job(&world).await).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!((partner.stock(LAST), pages(&partner)), (Some(5), vec![1, 2, 2, 3]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn items_seen_by_a_pull_are_not_mistaken_for_the_whole_list(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_three_pages(&options).await;
    // the first page arrives, the second does not
    partner.next_but_one(LIST, Mischief::Refuse("ERROR_INVENTORY_ID".to_owned(), "no".to_owned()));
    let pulled = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(pulled).await.0, "failed");
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.stock(LAST), Some(5));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_inventory_that_is_added_later_is_listed(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 1).await;
    count_stock(&world, &[(0, 5)]).await;
    assert_eq!(dispatch(&world).await, 1);
    // the partner reads the same number, but it is another name for the service
    let inventories = json!({"inventories": [{"inventoryId": INVENTORY}, {"inventoryId": "0307"}]});
    store_setting(&world, partner.url(), inventories.clone()).await;
    world.execute(AGAIN).await;
    count_stock(&world, &[(0, 6)]).await;
    dispatch(&world).await;
    let known = "SELECT count(*) FROM partner_stock WHERE inventory = '0307' AND taken = 6";
    assert_eq!(world.count(known).await, 1);
    // an inventory removed from the setting is no longer used, and is listed again when it returns
    store_setting(&world, partner.url(), json!({})).await;
    store_setting(&world, partner.url(), inventories).await;
    world.execute(AGAIN).await;
    count_stock(&world, &[(0, 7)]).await;
    dispatch(&world).await;
    assert_eq!(pages(&partner).len(), 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_successor_of_a_comparison_that_dies_while_it_lists_continues_at_its_page(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_three_pages(&options).await;
    dispatch(&world).await;
    partner.set_stock(1_000, 99);
    partner.set_stock(LAST, 98);
    let (asked, listed) = (partner.asked().len(), pages(&partner).len());
    let job = accept(&world, Extent::Comparison).await;
    partner.next_but_one(LIST, Mischief::Silence);
    die(&world, &partner, job, asked + 2).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 2, 0]));
    assert_eq!([1_000, LAST].map(|id| partner.stock(id)), [Some(5), Some(5)]);
    assert_eq!(pages(&partner)[listed..], [1, 2, 2, 3]);
    // the next one starts again
    accept(&world, Extent::Comparison).await;
    world.drain().await;
    assert_eq!(pages(&partner)[listed + 4..], [1, 2, 3]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_list_longer_than_the_limit_allows_is_completed(_: PgPoolOptions, options: PgConnectOptions) {
    let (mut world, partner) = start_with_three_pages(&options).await;
    let job = accept(&world, Extent::Comparison).await;
    // three pages and a call, with room for one request at a time
    for requests in 1..=4 {
        let limit = Limit { requests, ..DOCUMENTED };
        world.worker.partners.baselinker = Window::new(&world.services.queues, limit);
        world.execute(DUE).await;
        world.drain().await;
        assert_eq!(partner.asked().len(), requests as usize);
    }
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!(pages(&partner), [1, 2, 3]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_worker_that_stops_interrupts_a_list_between_two_pages(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (mut world, partner) = start_with_three_pages(&options).await;
    let job = accept(&world, Extent::Comparison).await;
    world.worker.stop.cancel();
    run(world.worker.clone(), format!("{job}:0")).await;
    assert_eq!(pages(&partner), [1]);
    world.worker = WorkerContext::new(world.services.clone()).unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!(pages(&partner), [1, 2, 3]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn items_of_a_former_account_are_not_recorded(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start(&options, 1).await;
    let eshop = world.tenant.eshop;
    let job = accept(&world, Extent::Everything).await;
    let claim = claim(&world, job).await;
    let listing = listing::open(&world.services, &claim, eshop, INVENTORY, false).await.unwrap().unwrap();
    store_setting(&world, partner.url(), json!({"credentials": {"token": "another"}})).await;
    let page = listing::Page {
        items: vec![Listed { item: "1000".to_owned(), product_sku: "P0".to_owned(), stock: Vec::new() }],
        next: None,
    };
    let found = items::found(&world.services, &claim, eshop, &listing, &page).await.unwrap();
    assert_eq!(found, Comparison::Moved);
    assert_eq!(world.count("SELECT count(*) FROM partner_item").await, 0);
    assert!(listing::open(&world.services, &claim, eshop, INVENTORY, false).await.unwrap().is_some());
}
