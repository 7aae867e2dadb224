//! Every URL of the service, in one table.

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{get, post, put};
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::middleware::{accept, problem, request_id};
use crate::routes::account::{eshop, organisation, read as account_read};
use crate::routes::catalog::{packaging, product, read as catalog_read, service as product_service, switch};
use crate::routes::health;
use crate::routes::job::{control, events, item_error, read as job_read};
use crate::routes::partner::sync;
use crate::routes::problem as problem_page;
use crate::routes::shipping::{carrier, service as carrier_service};
use crate::routes::warehouse::{read as warehouse_read, supplier, warehouse, wms};
use crate::routes::webhook::{delivery, read as webhook_read, subscription};

/// The router of the service.
pub fn build(app: App) -> Router {
    let api = Router::new()
        .route("/api/organisation/list", post(account_read::list_organisations))
        .route("/api/organisation", post(organisation::create_organisation))
        .route(
            "/api/organisation/{id}",
            get(organisation::get_organisation).put(organisation::update_organisation),
        )
        .route("/api/eshop/list", post(account_read::list_eshops))
        .route("/api/eshop", post(eshop::create_eshop))
        .route("/api/eshop/{id}", get(eshop::get_eshop).put(eshop::update_eshop))
        .route("/api/warehouse/list", post(warehouse_read::list_warehouses))
        .route("/api/warehouse", post(warehouse::create_warehouse))
        .route("/api/warehouse/{id}", get(warehouse::get_warehouse).put(warehouse::update_warehouse))
        .route("/api/wms/list", post(warehouse_read::list_wmses))
        .route("/api/wms", post(wms::create_wms))
        .route("/api/wms/{id}", get(wms::get_wms).put(wms::update_wms))
        .route("/api/supplier/list", post(supplier::list_suppliers))
        .route("/api/supplier", post(supplier::create_supplier))
        .route("/api/supplier/{id}", get(supplier::get_supplier).put(supplier::update_supplier))
        .route("/api/packaging-option/list", post(packaging::list_packaging_options))
        .route("/api/packaging-option", post(packaging::create_packaging_option))
        .route("/api/packaging-option/{id}", get(packaging::get_packaging_option))
        .route("/api/product/list", post(catalog_read::list_products))
        .route("/api/product", post(product::create_product))
        .route("/api/product/{id}", get(catalog_read::get_product).put(product::update_product))
        .route("/api/product/{id}/activate", put(product::activate_product))
        .route("/api/product/{id}/deactivate", put(product::deactivate_product))
        .route("/api/product/activate/{id}", put(product::activate_product))
        .route("/api/product/deactivate/{id}", put(product::deactivate_product))
        .route("/api/product/activate", put(switch::activate_products))
        .route("/api/product/deactivate", put(switch::deactivate_products))
        .route(
            "/api/product/{id}/service/{service}",
            put(product_service::add_product_service).delete(product_service::remove_product_service),
        )
        .route("/api/product-stock/list", post(warehouse_read::list_product_stocks))
        .route("/api/product-stock/{id}", get(warehouse_read::get_product_stock))
        .route("/api/carrier/list", post(carrier::list_carriers))
        .route("/api/carrier", post(carrier::create_carrier))
        .route("/api/carrier/{id}", get(carrier::get_carrier).put(carrier::update_carrier))
        .route("/api/carrier/code/{code}", get(carrier::get_carrier_by_code))
        .route("/api/carrier/{id}/organisation-add", put(carrier::add_carrier_organisations))
        .route("/api/carrier/{id}/organisation-remove", put(carrier::remove_carrier_organisations))
        .route("/api/carrier-service/list", post(carrier_service::list_carrier_services))
        .route("/api/carrier-service", post(carrier_service::create_carrier_service))
        .route(
            "/api/carrier-service/{id}",
            get(carrier_service::get_carrier_service).put(carrier_service::update_carrier_service),
        )
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
        .route("/problems/{code}", get(problem_page::describe))
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(CatchPanicLayer::custom(|payload: Box<dyn std::any::Any + Send>| problem::panicked(&*payload)))
        .layer(from_fn(problem::layer))
        .layer(from_fn(request_id::layer))
        .with_state(app)
}
