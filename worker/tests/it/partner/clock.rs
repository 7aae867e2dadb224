use longshore_domain::partner::clock::start_due;
use longshore_domain::partner::setting;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::receiver::Answer;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fake::{Fake, document};
use super::support::{lines, store_setting, world_with_feed};
use crate::job::support::{World, context_of};

const PAST: &str = "UPDATE partner_clock SET next_run_at = now() - interval '3 days'";
const JOBS: &str = "SELECT count(*) FROM job";

fn hourly(inventories: &[&str]) -> Value {
    let inventories: Vec<Value> = inventories.iter().map(|id| json!({"inventoryId": id})).collect();
    json!({"inventories": inventories, "productSync": {"enabled": true, "intervalMinutes": 60}})
}

async fn fake() -> Fake {
    Fake::start(|_| Answer::Document(document(lines(3)))).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn missed_syncs_are_started_once_and_the_next_follows_after_an_interval(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, hourly(&["a", "b"])).await;
    let within =
        "SELECT count(*) FROM partner_clock WHERE next_run_at BETWEEN now() AND now() + interval '1 minute'";
    assert_eq!(world.count(within).await, 1, "the first one begins within a minute");
    world.execute(PAST).await;
    // many processes look at the same time
    let looks = futures::future::join_all((0..6).map(|_| start_due(&world.services))).await;
    assert_eq!(looks.into_iter().map(Result::unwrap).sum::<u64>(), 2, "one for each inventory");
    let spread = "SELECT count(*) FROM partner_clock
                  WHERE next_run_at BETWEEN now() + interval '56 minutes' AND now() + interval '64 minutes'";
    assert_eq!(world.count(spread).await, 1);
    let setting = setting::of_eshop(&world.services, world.tenant.eshop).await.unwrap().unwrap();
    assert!(setting.standing.next_product_sync.is_some());
    world.drain().await;
    assert_eq!(
        world.count("SELECT count(*) FROM job WHERE state = 'succeeded' AND actor_type = 'schedule'").await,
        2
    );
    assert_eq!(world.count("SELECT count(*) FROM product WHERE product_sku LIKE 'F%'").await, 3);
    let asked: Vec<_> = fake.receipts().into_iter().map(|asked| asked.query.unwrap()).collect();
    assert_eq!(asked, ["inventory=a", "inventory=b"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn no_sync_is_started_while_one_runs_but_one_follows_it(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, hourly(&[])).await;
    world.execute(PAST).await;
    assert_eq!(start_due(&world.services).await.unwrap(), 1);
    world.execute(PAST).await;
    assert_eq!(start_due(&world.services).await.unwrap(), 0);
    world.drain().await;
    assert_eq!(start_due(&world.services).await.unwrap(), 1);
    let [first] = fake.receipts().try_into().unwrap();
    assert_eq!(first.query, None, "a setting without inventories reads the address itself");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_paused_eshop_pauses_its_syncs_and_misses_at_most_one(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, hourly(&["a"])).await;
    world.execute("UPDATE eshop SET active = false").await;
    world.execute(PAST).await;
    assert_eq!(start_due(&world.services).await.unwrap(), 0);
    let shown = setting::of_eshop(&world.services, world.tenant.eshop).await.unwrap().unwrap();
    assert_eq!(shown.standing.next_product_sync, None);
    world.execute("UPDATE eshop SET active = true").await;
    assert_eq!(start_due(&world.services).await.unwrap(), 1);
    assert_eq!(start_due(&world.services).await.unwrap(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_schedule_follows_its_setting(_: PgPoolOptions, options: PgConnectOptions) {
    const CLOCKS: &str = "SELECT count(*) FROM partner_clock";
    let fake = fake().await;
    let world = world_with_feed(&options, &fake, hourly(&["a"])).await;
    world.execute("UPDATE partner_clock SET next_run_at = now() + interval '50 minutes'").await;
    let mut shorter = hourly(&["a"]);
    shorter["productSync"]["intervalMinutes"] = json!(5);
    store_setting(&world, &fake.url(), shorter.clone()).await;
    let soon = "SELECT count(*) FROM partner_clock WHERE next_run_at <= now() + interval '5 minutes'";
    assert_eq!(world.count(soon).await, 1, "a shorter interval brings it nearer");
    for off in [json!({"active": false}), json!({"productSync": {"enabled": false}})] {
        let mut wanted = shorter.clone();
        for (name, value) in off.as_object().unwrap() {
            wanted[name] = value.clone();
        }
        store_setting(&world, &fake.url(), wanted).await;
        assert_eq!(world.count(CLOCKS).await, 0);
        store_setting(&world, &fake.url(), shorter.clone()).await;
        assert_eq!(world.count(CLOCKS).await, 1);
    }
    setting::store::delete(&world.services, &world.context, world.tenant.eshop).await.unwrap();
    assert_eq!(world.count(CLOCKS).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_processes_start_many_organisations_at_once_without_a_deadlock(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = fake().await;
    let mut world = World::new(&options).await;
    for n in 0..12 {
        world.tenant = Tenant::create(&world.services, &format!("Shop {n}")).await.unwrap();
        world.context = context_of(&world.tenant);
        store_setting(&world, &fake.url(), hourly(&["a", "b"])).await;
    }
    world.execute(PAST).await;
    let looks = futures::future::join_all((0..4).map(|_| start_due(&world.services))).await;
    assert_eq!(looks.into_iter().map(Result::unwrap).sum::<u64>(), 24);
    assert_eq!(world.count(JOBS).await, 24);
}
