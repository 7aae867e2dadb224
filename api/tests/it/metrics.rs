//! `/metrics` for Prometheus.

use axum::body::Body;
use http::Request;
use longshore_testkit::services;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::support::{Api, Reply};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

async fn read(api: &Api) -> Reply {
    let request = Request::builder().uri("/metrics").header("accept", "text/plain").body(Body::empty());
    api.send(request.unwrap()).await.expect(200)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn requests_are_counted_by_route_and_never_by_path(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let missing = uuid::Uuid::from_u128(7);
    api.get(&api.user, &format!("/api/product/{missing}")).await.expect(404);
    api.get(&api.user, "/api/nothing").await.expect(404);
    api.put(&api.user, "/api/organisation/list", json!({})).await.expect(405);

    let exposed = read(&api).await;

    assert!(exposed.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    for line in [
        "longshore_http_requests_total{route=\"/api/product/{id}\",method=\"GET\",status=\"404\"} 1",
        "longshore_http_requests_total{route=\"none\",method=\"GET\",status=\"404\"} 1",
        "longshore_http_requests_total{route=\"/api/organisation/list\",method=\"none\",status=\"405\"} 1",
        "longshore_http_requests_in_flight 1",
        "longshore_up{part=\"postgres\"} 1",
        "longshore_up{part=\"redis\"} 1",
        "longshore_queue_depth{queue=\"lane\"} 0",
        "longshore_webhook_due 0",
        "longshore_jobs_open 0",
        "longshore_build_info{version=",
    ] {
        assert!(exposed.text.contains(line), "{line} is not in\n{}", exposed.text);
    }
    assert!(!exposed.text.contains(&missing.to_string()), "{}", exposed.text);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_metric_of_the_dashboards_exists(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    api.get(&api.user, "/api/nothing").await.expect(404);
    // metrics of workers are in the same table
    api.services.metrics.job_ended("product.sync", "succeeded", std::time::Duration::from_secs(1));
    api.services.metrics.webhook_attempted(
        uuid::Uuid::nil().into(),
        "delivered",
        std::time::Duration::from_secs(1),
    );
    let exposed = read(&api).await.text;
    for (name, kind) in [
        ("longshore_build", "info"),
        ("longshore_http_requests", "counter"),
        ("longshore_http_request_duration_seconds", "histogram"),
        ("longshore_http_requests_in_flight", "gauge"),
        ("longshore_http_connections", "gauge"),
        ("longshore_jobs", "counter"),
        ("longshore_job_duration_seconds", "histogram"),
        ("longshore_jobs_open", "gauge"),
        ("longshore_jobs_oldest_seconds", "gauge"),
        ("longshore_queue_depth", "gauge"),
        ("longshore_queue_in_flight", "gauge"),
        ("longshore_queue_oldest_seconds", "gauge"),
        ("longshore_queue_workers", "gauge"),
        ("longshore_webhook_attempts", "counter"),
        ("longshore_webhook_attempt_duration_seconds", "histogram"),
        ("longshore_webhook_due", "gauge"),
        ("longshore_webhook_due_lanes", "gauge"),
        ("longshore_webhook_oldest_due_seconds", "gauge"),
        ("longshore_database_connections", "gauge"),
        ("longshore_orders", "gauge"),
        ("longshore_orders_oldest_seconds", "gauge"),
        ("longshore_orders_placed", "counter"),
        ("longshore_orders_booked", "counter"),
        ("longshore_orders_taken_back", "counter"),
        ("longshore_stock_oldest_mark_seconds", "gauge"),
        ("longshore_allocation_duration_seconds", "histogram"),
        ("longshore_up", "gauge"),
    ] {
        let line = format!("# TYPE {name} {kind}\n");
        assert!(exposed.contains(&line), "{line} is not in\n{exposed}");
    }
    for queue in ["chunk", "lane", "upkeep"] {
        assert!(
            exposed.contains(&format!("longshore_queue_oldest_seconds{{queue=\"{queue}\"}} ")),
            "{exposed}"
        );
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn due_work_and_an_unavailable_redis_are_reported(_: PgPoolOptions, options: PgConnectOptions) {
    let mut services = services::for_test(&options).unwrap();
    services.queues = services::queues_that_nobody_answers().unwrap();
    let api = Api::over(services).await;
    let webhook = json!({
        "eshop": api.tenant.eshop, "event": "product_change", "destination": "https://shop.example/hook"
    });
    api.post(&api.user, "/api/eshop-webhook", webhook).await.expect(201);
    let product = json!({
        "organisation": api.tenant.organisation, "eshops": [api.tenant.eshop], "productSku": "1",
        "internalSku": "1", "name": "Mug", "imeiCheckRequired": false, "active": true,
    });
    api.post(&api.user, "/api/product", product).await.expect(201);

    let exposed = read(&api).await.text;

    for line in [
        "longshore_up{part=\"postgres\"} 1",
        "longshore_up{part=\"redis\"} 0",
        "longshore_database_set_back 1",
        "longshore_webhook_due 1",
        "longshore_webhook_due_lanes 1",
        "longshore_webhook_held 0",
    ] {
        assert!(exposed.contains(line), "{line} is not in\n{exposed}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deliveries_that_wait_for_a_failing_destination_are_counted_apart_from_those_that_wait_for_a_worker(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let pool = pool.connect_with(options).await.unwrap();
    let webhook = |event: &str| json!({"eshop": api.tenant.eshop, "event": event, "destination": "https://shop.example/hook"});
    for event in ["product_change", "organization_change"] {
        api.post(&api.user, "/api/eshop-webhook", webhook(event)).await.expect(201);
    }
    let product = json!({
        "organisation": api.tenant.organisation, "eshops": [api.tenant.eshop], "productSku": "1",
        "internalSku": "1", "name": "Mug", "imeiCheckRequired": false, "active": true,
    });
    api.post(&api.user, "/api/product", product).await.expect(201);
    for sql in [
        "UPDATE delivery SET next_attempt_at = now() - interval '1 hour'",
        "UPDATE webhook_lane SET failures = 1, failing_since = now()
         WHERE webhook_id = (SELECT id FROM webhook WHERE event = 'product_change')",
        "UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = 'gone'
         WHERE event = 'organization_change'",
        "UPDATE queue SET paused = true WHERE name = 'lane'",
        "INSERT INTO set_back (epoch, reason, since) VALUES (2, 'a test', now())",
    ] {
        sqlx::query(sql).execute(&pool).await.unwrap();
    }

    let exposed = read(&api).await.text;

    for line in [
        "longshore_webhook_due 1",
        "longshore_webhook_held 1",
        "longshore_webhook_oldest_due_seconds 0.0",
        "longshore_webhooks_unwell{health=\"failing\"} 1",
        "longshore_webhooks_unwell{health=\"disabled\"} 1",
        "longshore_queue_paused{queue=\"lane\"} 1",
        "longshore_queue_paused{queue=\"chunk\"} 0",
        "longshore_database_connections_max{pool=\"main\"} 12",
    ] {
        assert!(exposed.contains(line), "{line} is not in\n{exposed}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_are_counted_by_status_and_the_one_that_waits_longest_is_told(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let pool = pool.connect_with(options).await.unwrap();
    let product = json!({
        "organisation": api.tenant.organisation, "eshops": [api.tenant.eshop], "productSku": "1",
        "internalSku": "1", "name": "Mug", "imeiCheckRequired": false, "active": true,
    });
    api.post(&api.user, "/api/product", product).await.expect(201);
    let carrier = json!({"name": "Post", "code": 71, "organisations": [api.tenant.organisation]});
    let carrier = api.post(&api.superadmin, "/api/carrier", carrier).await.expect(201).json();
    let order = async |number: &str, send: bool, carrier: &serde_json::Value| {
        let body = json!({
            "eshop": api.tenant.eshop, "orderNumber": number, "value": 1, "currency": "EUR", "carrier": carrier,
            "ignoreAddressValidation": true, "waitBeforeProcessing": false, "send": send,
            "items": [{"productSku": "1", "quantity": 2}],
        });
        api.post(&api.user, "/api/expedition", body).await.expect(201).json()
    };
    order("waits", true, &carrier["id"]).await;
    let paused = order("paused", true, &carrier["id"]).await;
    let unbook = format!("/api/expedition/{}/unbook", paused["id"].as_str().unwrap());
    api.call_with(&api.user, http::Method::PATCH, &unbook, json!(null), &[]).await.expect(200);
    for sql in ["UPDATE product_stock SET quantity = 2", "UPDATE product_stock SET marked_at = NULL"] {
        sqlx::query(sql).execute(&pool).await.unwrap();
    }
    order("booked", true, &carrier["id"]).await;
    order("held", false, &carrier["id"]).await;
    order("wrong", true, &json!(null)).await;
    for sql in [
        "UPDATE expedition SET status_since = now() - interval '1 hour' WHERE status IN ('waiting_for_goods', 'awaiting_reservation')",
        "UPDATE product_stock SET marked_at = now() - interval '1 minute'",
    ] {
        sqlx::query(sql).execute(&pool).await.unwrap();
    }

    let exposed = read(&api).await.text;

    for line in [
        "longshore_orders{status=\"on_hold\"} 1\n",
        "longshore_orders{status=\"incorrect\"} 1\n",
        "longshore_orders{status=\"awaiting_reservation\"} 1\n",
        "longshore_orders{status=\"waiting_for_goods\"} 1\n",
        "longshore_orders{status=\"awaiting_processing\"} 1\n",
        "longshore_orders{status=\"take_out\"} 0\n",
        "longshore_orders_oldest_seconds{status=\"waiting_for_goods\"} 36",
        // a paused order does not wait for its turn
        "longshore_orders_oldest_seconds{status=\"awaiting_reservation\"} 0.0\n",
        "longshore_orders_oldest_seconds{status=\"stock_ok\"} 0.0\n",
        "longshore_stock_oldest_mark_seconds 6",
        "longshore_orders_placed_total 5\n",
        "longshore_orders_booked_total 1\n",
        "longshore_orders_taken_back_total 0\n",
    ] {
        assert!(exposed.contains(line), "{line} is not in\n{exposed}");
    }
    assert!(
        !exposed.contains("status=\"delivered\"") && !exposed.contains("status=\"canceled\""),
        "{exposed}"
    );
}
