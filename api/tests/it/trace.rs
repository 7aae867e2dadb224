//! The id and the trace of a request in its effects (W3C trace context), without tracing in this process.

use http::Method;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::support::Api;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

const SENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The ids and traces of all events, in order of creation.
async fn events(pool: &PgPool) -> Vec<(Option<String>, Option<String>)> {
    sqlx::query_as("SELECT request_id, traceparent FROM event ORDER BY id").fetch_all(pool).await.unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_event_and_a_job_keep_the_id_and_trace_of_their_request(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let pool = PgPool::connect_with(options.clone()).await.unwrap();
    let hook = json!({"eshop": api.tenant.eshop, "event": "*", "destination": "https://shop.example/hook"});
    let hook = api.post(&api.user, "/api/eshop-webhook", hook).await.expect(201).json();
    let product = |sku: &str| {
        json!({
            "organisation": api.tenant.organisation, "eshops": [api.tenant.eshop], "productSku": sku,
            "internalSku": sku, "name": "Mug", "imeiCheckRequired": false, "active": true,
        })
    };
    let call = async |path: &str, body: Value, trace: &str, id: &str| {
        let headers = [("traceparent", trace), ("x-request-id", id)];
        api.call_with(&api.user, Method::POST, path, body, &headers).await
    };
    call("/api/product", product("1"), SENT, "r1").await.expect(201);
    // an invalid trace context is ignored
    call("/api/product", product("2"), "00-nonsense", "r2").await.expect(201);
    let test = format!("/api/eshop-webhook/{}/test", hook["id"].as_str().unwrap());
    call(&test, Value::Null, SENT, "r3").await.expect(202);
    let row = |id: &str, trace: Option<&str>| (Some(id.to_owned()), trace.map(str::to_owned));
    let found: Vec<_> = events(&pool).await.into_iter().collect();
    for expected in [row("r1", Some(SENT)), row("r2", None), row("r3", Some(SENT))] {
        assert!(found.contains(&expected), "{expected:?} is not in {found:?}");
    }

    let sync = json!({"eshop": api.tenant.eshop, "products": [{"productSku": "3", "name": "Cup"}]});
    call("/api/partner-integration/eshop/sync/products", sync, SENT, "r4").await.expect(200);
    let job: (Option<String>, Option<String>) =
        sqlx::query_as("SELECT request_id, traceparent FROM job").fetch_one(&pool).await.unwrap();
    assert_eq!(job, row("r4", Some(SENT)));
}
