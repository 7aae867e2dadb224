//! Acceptance of syncs in their pull form (`docs/reference/syncs.md#syncs`).

use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::product::{MIGRATIONS, World};
use crate::support::Reply;

const PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";
const STOCKS: &str = "/api/partner-integration/eshop/sync/product-stocks";
const JOBS: &str = "SELECT count(*) FROM job";

async fn world_with_feed(options: &PgConnectOptions, fields: Value) -> World {
    let world = World::new(options).await;
    store(&world, fields).await;
    world
}

async fn store(world: &World, fields: Value) {
    let tenant = &world.api.tenant;
    let mut setting = json!({
        "integrationType": "feed",
        "baseUrl": "http://127.0.0.1:9/feed",
        "credentials": {"type": "none"},
        "warehouses": [{"warehouseId": "bl_1", "warehouse": tenant.warehouse}],
    });
    for (name, value) in fields.as_object().unwrap() {
        setting[name] = value.clone();
    }
    let path = format!("/api/partner-integration/eshop-setting/{}", tenant.eshop);
    world.api.post(&world.api.user, &path, setting).await.expect(200);
}

async fn ask(world: &World, path: &str, body: Value) -> Reply {
    world.api.post(&world.api.connector, path, body).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_pull_is_a_job_and_an_equal_request_returns_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world_with_feed(&options, json!({})).await;
    let eshop = world.api.tenant.eshop;
    for (path, body, kind) in [
        (PRODUCTS, json!({"eshop": eshop, "inventoryId": "main"}), "product.sync"),
        (STOCKS, json!({"eshop": eshop, "warehouseId": "bl_1", "direction": "in"}), "stock.sync"),
    ] {
        let reply = ask(&world, path, body.clone()).await.expect(200);
        let job = reply.json();
        assert_eq!(
            (&job["kind"], &job["state"], &job["eshop"], &job["progress"]["total"]),
            (&json!(kind), &json!("queued"), &json!(eshop), &json!(0))
        );
        assert_eq!(
            reply.header("location"),
            Some(format!("/api/job/{}", job["id"].as_str().unwrap()).as_str())
        );
        assert_eq!(ask(&world, path, body).await.expect(200).json()["id"], job["id"]);
    }
    assert_eq!(world.count(JOBS).await, 2);
    let other = ask(&world, PRODUCTS, json!({"eshop": eshop, "inventoryId": "other"})).await.expect(200);
    assert_eq!(other.json()["state"], "queued");
    assert_eq!(world.count(JOBS).await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_array_is_accepted_as_a_whole_and_answered_with_its_jobs(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world_with_feed(&options, json!({})).await;
    let eshop = world.api.tenant.eshop;
    let wish = |inventory: &str| json!({"eshop": eshop, "inventoryId": inventory});
    let wishes = json!([wish("b"), wish("a"), wish("b")]);
    let key = [("idempotency-key", "once")];
    let send = async || {
        world
            .api
            .call_with(&world.api.connector, http::Method::POST, PRODUCTS, wishes.clone(), &key)
            .await
            .expect(200)
    };
    let reply = send().await;
    let jobs = reply.json();
    let ids: Vec<_> = jobs.as_array().unwrap().iter().map(|job| job["id"].clone()).collect();
    assert_eq!((ids.len(), ids[0] == ids[2], ids[0] == ids[1]), (3, true, false));
    assert_eq!(world.count(JOBS).await, 2);
    let again = send().await;
    assert_eq!((again.json(), again.header("idempotent-replayed")), (jobs, Some("true")));

    let stranger = world.stranger().await.0.eshop;
    let wishes = json!([wish("c"), {"eshop": stranger, "inventoryId": "c"}, {"eshop": eshop}]);
    let reply = ask(&world, PRODUCTS, wishes).await.expect(400);
    assert_eq!(reply.violations(), ["[2].inventoryId required", "[1].eshop unknown_reference"]);
    let wishes = json!([wish("c"), {"eshop": stranger, "inventoryId": "c"}]);
    let reply = ask(&world, PRODUCTS, wishes).await.expect(400);
    assert_eq!(reply.violations(), ["[1].eshop unknown_reference"]);
    assert_eq!(world.count(JOBS).await, 2, "all or none");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pulls_that_the_setting_does_not_allow_are_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let eshop = world.api.tenant.eshop;
    let body = json!({"eshop": eshop, "inventoryId": "main"});
    let refused = async |path, body: &Value, violation: &str| {
        assert_eq!(ask(&world, path, body.clone()).await.expect(400).violations(), [violation], "{body}");
    };
    refused(PRODUCTS, &body, "eshop no_integration").await;
    store(&world, json!({"active": false})).await;
    refused(PRODUCTS, &body, "eshop no_integration").await;
    store(&world, json!({"inventories": [{"inventoryId": "307"}]})).await;
    refused(PRODUCTS, &body, "inventoryId unknown_reference").await;
    let stocks = |warehouse: &str| json!({"eshop": eshop, "warehouseId": warehouse, "direction": "in"});
    refused(STOCKS, &stocks("bl_2"), "warehouseId unknown_reference").await;
    refused(PRODUCTS, &json!({"eshop": Uuid::nil(), "inventoryId": "307"}), "eshop unknown_reference").await;
    refused(PRODUCTS, &json!({"eshop": eshop, "inventoryId": "307", "all": true}), "all unknown_field").await;
    refused(PRODUCTS, &json!([]), " invalid_count").await;
    refused(PRODUCTS, &json!(["main"]), "[0] wrong_type").await;
    ask(&world, PRODUCTS, json!({"eshop": eshop, "inventoryId": "307"})).await.expect(200);
    ask(&world, STOCKS, stocks("bl_1")).await.expect(200);
    assert_eq!(world.count(JOBS).await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_send_out_is_a_job_and_an_equal_request_returns_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world_with_feed(&options, json!({})).await;
    let eshop = world.api.tenant.eshop;
    let body = json!({"eshop": eshop, "warehouseId": "bl_1"});
    let job = ask(&world, STOCKS, body).await.expect(200).json();
    assert_eq!((&job["kind"], &job["state"]), (&json!("stock.send"), &json!("queued")));
    let ours = json!({"eshop": eshop, "warehouseId": world.api.tenant.warehouse, "direction": "out"});
    assert_eq!(ask(&world, STOCKS, ours).await.expect(200).json()["id"], job["id"]);
    let reply = ask(&world, STOCKS, json!({"eshop": eshop, "warehouseId": "bl_2"})).await.expect(400);
    assert_eq!(reply.violations(), ["warehouseId unknown_reference"]);
    store(&world, json!({"active": false})).await;
    let reply = ask(&world, STOCKS, json!({"eshop": eshop, "warehouseId": "bl_1"})).await.expect(400);
    assert_eq!(reply.violations(), ["eshop no_integration"]);
    assert_eq!(world.count(JOBS).await, 1);
}
