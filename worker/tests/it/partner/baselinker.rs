//! BaseLinker, faked over real HTTP: its catalogue and its faults.

use std::time::Duration;

use longshore_domain::partner::baselinker::window::{DOCUMENTED, Limit, Window};
use longshore_domain::partner::pull;
use longshore_domain::partner::push::Push;
use longshore_domain::partner::send_out::Extent;
use longshore_domain::partner::setting::store;
use longshore_kernel::config::OutboundSettings;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::baselinker::{BaseLinker, INVENTORY, Mischief, TOKEN, WAREHOUSE};
use longshore_testkit::services::nothing_was_sent_before;
use longshore_worker::outbound::Client;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::DUE;
use crate::job::support::World;

/// A world whose e-shop has the fake as its partner, without a wait for the first request.
pub(crate) async fn world_with(options: &PgConnectOptions, partner: &BaseLinker) -> World {
    let world = World::new(options).await;
    nothing_was_sent_before(&world.services.queues).await.unwrap();
    store_setting(&world, partner.url(), json!({})).await;
    world
}

/// Stores the setting of the e-shop; `fields` override the default ones.
pub(crate) async fn store_setting(world: &World, url: &str, fields: Value) {
    let mut body = json!({
        "integrationType": "baselinker", "baseUrl": url, "credentials": {"token": TOKEN},
        "inventories": [{"inventoryId": INVENTORY}],
        "warehouses": [{"warehouseId": WAREHOUSE, "warehouse": world.tenant.warehouse, "wms": world.tenant.wms}],
        "stockSync": {"enabled": true, "intervalMinutes": 60},
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    Box::pin(store::store(&world.services, &world.context, world.tenant.eshop, body, |_| Ok(())))
        .await
        .unwrap();
}

/// Accepts a pull of its products; returns the job.
pub(crate) async fn pull(world: &World) -> JobId {
    let body = json!({"eshop": world.tenant.eshop, "inventoryId": INVENTORY});
    pull::accept(&world.services, &world.context, Push::Products, body).await.unwrap().job.unwrap()
}

async fn start(count: u32) -> BaseLinker {
    let partner = BaseLinker::start().await.unwrap();
    partner.fill(count);
    partner
}

async fn error_of(world: &World, job: JobId) -> String {
    world.job(job).await["error"].as_str().unwrap_or_default().to_owned()
}

/// Pulls three products while the first call of a method meets a transient fault.
async fn passes(options: &PgConnectOptions, method: &str, fault: Mischief) {
    let partner = start(3).await;
    let world = world_with(options, &partner).await;
    partner.next(method, fault.clone());
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]), "{method} {fault:?}");
    assert_eq!(world.job(job).await["attempts"], 1, "within one execution of the chunk");
}

/// Pulls while the first call of a method meets a permanent fault; returns the message for the operator.
async fn fails(options: &PgConnectOptions, fault: Mischief) -> String {
    let partner = start(3).await;
    let world = world_with(options, &partner).await;
    partner.next("getInventoryProductsList", fault);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await.0, "failed");
    assert_eq!(partner.asked().len(), 1, "nothing is tried again");
    let reason = error_of(&world, job).await;
    assert_eq!(shown_setting(&world).await["lastError"]["message"], reason);
    reason
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_catalogue_becomes_products_in_grams_and_millimetres(_: PgPoolOptions, options: PgConnectOptions) {
    let partner = start(2).await;
    partner.put(
        2_000,
        "SHIRT",
        "Shirt",
        json!({"weight": 0.2, "variants": {"2001": {"name": "red", "sku": "SHIRT-R", "ean": "4006381333931"},
            "2002": {"name": "blue", "sku": "SHIRT-B"}}}),
    );
    partner.put(2_010, "", "Without a sku", json!({}));
    partner.put(2_020, "ODD", "Odd", json!({"weight": 0.12345}));
    partner.put(2_030, "SET", "Set", json!({"is_bundle": true, "bundle_products": {"1000": 2}}));
    let world = world_with(&options, &partner).await;
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [5, 0, 2]));
    let made = "SELECT count(*) FROM product WHERE product_sku = 'P1' AND name = 'Product 1' AND weight = 250
                  AND height = 15 AND width IS NULL AND reference_numbers = ARRAY['0000000000001']";
    assert_eq!(world.count(made).await, 1);
    let variant =
        "SELECT count(*) FROM product WHERE product_sku = 'SHIRT-R' AND name = 'Shirt red' AND weight = 200";
    assert_eq!(world.count(variant).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM product WHERE product_sku = 'SHIRT'").await, 0);
    let rounded = "SELECT count(*) FROM job_item_error WHERE notice AND key = '2020' AND message LIKE '%0.12345 kg%123 g%'";
    assert_eq!(world.count(rounded).await, 1);
    // stocks can be sent with its ids
    let items = "SELECT count(*) FROM partner_item WHERE item IN ('1000', '2001', '2002', '2020')";
    assert_eq!(world.count(items).await, 4);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_page_of_less_than_a_thousand_is_the_last_and_data_is_requested_in_lists(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let partner = start(1_002).await;
    let world = world_with(&options, &partner).await;
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1_002, 0, 0]));
    assert_eq!(
        (partner.calls("getInventoryProductsList"), partner.calls("getInventoryProductsData")),
        (2, 3)
    );
    let first = &partner.asked()[0];
    assert_eq!((first.token.as_str(), &first.parameters), (TOKEN, &json!({"inventory_id": 307, "page": 1})));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_brief_failure_is_retried(_: PgPoolOptions, options: PgConnectOptions) {
    for fault in [
        Mischief::Status(503),
        Mischief::WebPage,
        Mischief::Cut,
        Mischief::Body(r#"{"status":"SUCCESS","products":"#.to_owned()),
        Mischief::Body("[]".to_owned()),
        Mischief::Refuse("ERROR_INTERNAL".to_owned(), "try later".to_owned()),
    ] {
        passes(&options, "getInventoryProductsList", fault).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_brief_failure_of_data_is_retried(_: PgPoolOptions, options: PgConnectOptions) {
    for fault in [Mischief::Status(500), Mischief::Cut, Mischief::WebPage] {
        passes(&options, "getInventoryProductsData", fault).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_failure_that_needs_an_operator_fails_the_job_with_a_message(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let refuse = |code: &str| Mischief::Refuse(code.to_owned(), "no".to_owned());
    for (fault, says) in [
        (refuse("ERROR_BAD_TOKEN"), "store a valid one in the integration setting"),
        (refuse("ERROR_INVENTORY_ID"), "BaseLinker refuses the request (ERROR_INVENTORY_ID: no)"),
        (Mischief::Redirect("http://127.0.0.1:1/".to_owned()), "redirect"),
        (Mischief::Status(404), "baseUrl"),
    ] {
        let reason = fails(&options, fault).await;
        assert!(reason.contains(says), "{reason}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_revoked_during_a_fetch_fails_the_job_which_keeps_the_received_rows(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let partner = start(1_500).await;
    let world = world_with(&options, &partner).await;
    // the first page and its data
    partner.revoke_after(3);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("failed".to_owned(), [1_000, 0, 0]));
    assert!(error_of(&world, job).await.contains("does not accept the token (ERROR_BAD_TOKEN"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_block_pauses_every_job_of_the_token_until_its_end_and_uses_no_attempt(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let partner = start(3).await;
    let world = world_with(&options, &partner).await;
    partner.block(Duration::from_hours(1), "Query limit exceeded, token blocked for 3600 seconds");
    let job = pull(&world).await;
    world.drain().await;
    let shown = world.job(job).await;
    assert_eq!(shown["state"], "retrying");
    let reason = shown["error"].as_str().unwrap();
    assert!(
        reason.contains("has blocked the token of this e-shop until") && reason.contains("automatically"),
        "{reason}"
    );
    let waits = "SELECT count(*) FROM job_chunk WHERE attempts = 0
                   AND next_attempt_at BETWEEN now() + interval '50 minutes' AND now() + interval '70 minutes'";
    assert_eq!(world.count(waits).await, 1);
    let setting = shown_setting(&world).await;
    assert!(setting["blockedUntil"].is_string(), "{setting}");
    // meanwhile, neither a retry nor another job of the token calls the partner
    let other = super::stock_send::accept(&world, Extent::Everything).await;
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(partner.asked().len(), 1);
    assert_eq!(world.count(waits).await, 2);
    assert_eq!(world.job(other).await["state"], "retrying");

    partner.unblock();
    world.execute("UPDATE partner_block SET until = now()").await;
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert_eq!(world.job(job).await["attempts"], 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_address_inside_is_not_called(_: PgPoolOptions, options: PgConnectOptions) {
    let partner = start(1).await;
    let mut world = world_with(&options, &partner).await;
    let outside = OutboundSettings {
        webhook_allow_http: true,
        webhook_allow_subnets: Vec::new(),
        webhooks_per_eshop: 16,
    };
    world.worker.partners.client = Client::new(&outside).unwrap();
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await.0, "failed");
    assert!(error_of(&world, job).await.contains("a private address"));
    assert_eq!(partner.asked().len(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_catalogue_is_read_within_the_limit_of_the_partner(_: PgPoolOptions, options: PgConnectOptions) {
    let (requests, window) = (8, Duration::from_millis(700));
    let partner = BaseLinker::limited(requests, window).await.unwrap();
    partner.fill(3_500);
    let mut world = world_with(&options, &partner).await;
    let limit = Limit { requests: 8, window, ..DOCUMENTED };
    world.worker.partners.baselinker = Window::new(&world.services.queues, limit);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3_500, 0, 0]));
    assert_eq!(partner.asked().len(), 11);
    assert!(partner.fullest_window() <= requests);
    assert_eq!(world.count("SELECT count(*) FROM partner_block").await, 0);
}

/// The setting as it is shown.
async fn shown_setting(world: &World) -> Value {
    let scope = world.context.scope();
    let answer =
        longshore_domain::partner::setting::find(&world.services, scope, world.tenant.eshop).await.unwrap();
    serde_json::from_str(answer.body.as_deref().unwrap()).unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_waits_for_a_full_window_without_an_attempt_or_an_error(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let partner = start(3).await;
    let mut world = world_with(&options, &partner).await;
    // one request in addition to those reserved for stocks
    let limit = Limit { requests: 4, ..DOCUMENTED };
    world.worker.partners.baselinker = Window::new(&world.services.queues, limit);
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(partner.asked().len(), 1);
    let waits = "SELECT count(*) FROM job_chunk WHERE attempts = 0 AND error IS NULL
                   AND next_attempt_at > now() + interval '30 seconds'";
    assert_eq!(world.count(waits).await, 1);
    world.worker.partners.baselinker = Window::new(&world.services.queues, DOCUMENTED);
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_silent_partner_is_called_again(_: PgPoolOptions, options: PgConnectOptions) {
    let partner = start(3).await;
    let mut world = world_with(&options, &partner).await;
    let limit = Limit { longest_request: Duration::from_secs(2), ..DOCUMENTED };
    world.worker.partners.baselinker = Window::new(&world.services.queues, limit);
    partner.next("getInventoryProductsList", Mischief::Silence);
    let job = pull(&world).await;
    world.drain().await;
    // a slow machine may need another attempt
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert!(partner.calls("getInventoryProductsList") >= 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn products_of_wrong_types_are_refused_one_by_one(_: PgPoolOptions, options: PgConnectOptions) {
    for method in ["getInventoryProductsList", "getInventoryProductsData"] {
        let partner = start(4).await;
        let world = world_with(&options, &partner).await;
        partner.next(method, Mischief::WrongTypes);
        let job = pull(&world).await;
        world.drain().await;
        let (state, counts) = world.outcome(job).await;
        assert_eq!((state.as_str(), counts), ("succeeded", [2, 0, 2]), "{method}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_page_is_requested_again(_: PgPoolOptions, options: PgConnectOptions) {
    let partner = start(1_200).await;
    let world = world_with(&options, &partner).await;
    let job = pull(&world).await;
    // the second call of the list is the one that repeats a page
    partner.next_but_one("getInventoryProductsList", Mischief::PageBefore);
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1_200, 0, 0]));
    assert_eq!(partner.calls("getInventoryProductsList"), 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_page_that_vanishes_ends_the_catalogue_and_removes_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let partner = start(1_200).await;
    let world = world_with(&options, &partner).await;
    let first = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(first).await.1, [1_200, 0, 0]);
    let second = pull(&world).await;
    partner.next_but_one("getInventoryProductsList", Mischief::NoPage);
    world.drain().await;
    assert_eq!(world.outcome(second).await, ("succeeded".to_owned(), [0, 1_000, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE active").await, 1_200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_deleted_while_it_is_read_is_reported(_: PgPoolOptions, options: PgConnectOptions) {
    let partner = start(3).await;
    let world = world_with(&options, &partner).await;
    partner.next("getInventoryProductsData", Mischief::Without(1_001));
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 1]));
    let notices = "SELECT count(*) FROM job_item_error WHERE key = '1001' AND message LIKE 'was deleted at BaseLinker%(P1)%'";
    assert_eq!(world.count(notices).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_equal_request_while_a_sync_waits_for_a_slot_returns_that_sync(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let partner = start(3).await;
    let world = World::new(&options).await;
    // earlier requests are unknown, so none may be sent for a while
    store_setting(&world, partner.url(), json!({})).await;
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.job(job).await["state"], "running");
    assert_eq!((pull(&world).await, partner.asked().len()), (job, 0));
    assert_eq!(world.count("SELECT count(*) FROM job").await, 1);
}
