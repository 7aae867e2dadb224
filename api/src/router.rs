//! Every URL of the service, in one table.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post, put};
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::middleware::{accept, problem, request_id};
use crate::routes::account::read as account_read;
use crate::routes::catalog::{product, read as catalog_read, switch};
use crate::routes::health;
use crate::routes::job::{control, events, item_error, read as job_read};
use crate::routes::partner::sync;
use crate::routes::problem as problem_page;
use crate::routes::warehouse::read as warehouse_read;
use crate::routes::webhook::{delivery, read as webhook_read, subscription};

/// The router of the service.
pub fn build(app: App) -> Router {
    let api = Router::new()
        .route("/api/organisation/list", post(account_read::list_organisations))
        .route("/api/eshop/list", post(account_read::list_eshops))
        .route("/api/warehouse/list", post(warehouse_read::list_warehouses))
        .route("/api/wms/list", post(warehouse_read::list_wmses))
        .route("/api/product/list", post(catalog_read::list_products))
        .route("/api/product", post(product::create_product))
        .route("/api/product/{id}", get(catalog_read::get_product).put(product::update_product))
        .route("/api/product/{id}/activate", put(product::activate_product))
        .route("/api/product/{id}/deactivate", put(product::deactivate_product))
        .route("/api/product/activate/{id}", put(product::activate_product))
        .route("/api/product/deactivate/{id}", put(product::deactivate_product))
        .route("/api/product/activate", put(switch::activate_products))
        .route("/api/product/deactivate", put(switch::deactivate_products))
        .route("/api/product-stock/list", post(warehouse_read::list_product_stocks))
        .route("/api/product-stock/{id}", get(warehouse_read::get_product_stock))
        .route("/api/eshop-webhook", post(subscription::create_webhook))
        .route("/api/eshop-webhook/list", post(webhook_read::list_webhooks))
        .route(
            "/api/eshop-webhook/{id}",
            get(webhook_read::get_webhook)
                .put(subscription::update_webhook)
                .delete(subscription::delete_webhook),
        )
        .route("/api/eshop-webhook/activate/{id}", put(subscription::activate_webhook))
        .route("/api/eshop-webhook/deactivate/{id}", put(subscription::deactivate_webhook))
        .route("/api/webhook-delivery/list", post(webhook_read::list_deliveries))
        .route("/api/webhook-delivery/{id}", get(webhook_read::get_delivery))
        .route("/api/webhook-delivery/redeliver", put(delivery::redeliver_deliveries))
        .route("/api/webhook-delivery/redeliver/{id}", put(delivery::redeliver_delivery))
        .route("/api/partner-integration/eshop/sync/products", post(sync::sync_products))
        .route("/api/partner-integration/eshop/sync/product-stocks", post(sync::sync_product_stocks))
        .route("/api/job/list", post(job_read::list_jobs))
        .route("/api/job/{id}", get(job_read::get_job))
        .route("/api/job/cancel/{id}", put(control::cancel_job))
        .route("/api/job/retry/{id}", put(control::retry_job))
        .route("/api/job/{id}/error/list", post(item_error::list_item_errors))
        .route("/api/job/{id}/events", get(events::follow_job))
        .layer(from_fn(accept::layer));
    Router::new()
        .merge(api)
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(health::get_metrics))
        .route("/problems/{code}", get(problem_page::describe))
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(CatchPanicLayer::custom(|payload: Box<dyn std::any::Any + Send>| problem::panicked(&*payload)))
        .layer(from_fn(problem::layer))
        .layer(from_fn_with_state(app.clone(), request_id::layer))
        .with_state(app)
}
