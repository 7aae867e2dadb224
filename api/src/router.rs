//! Every URL of the service, in one table.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, patch, post, put};
use longshore_http::app::App;
use longshore_http::middleware::{
    accept, compress, cors, headers, host, private, problem, rate, request_id, revocation, share, streams,
    time,
};
use tower_http::catch_panic::CatchPanicLayer;

use crate::openapi::serve;
use crate::routes::account::{
    account, admin, admin_bulk, audit, business_user, eshop, login, organisation, read as account_read,
    session, token,
};
use crate::routes::catalog::{
    image, packaging, product, read as catalog_read, service as product_service, switch,
};
use crate::routes::expedition::{command as order, edit as order_edit, read as order_read};
use crate::routes::health;
use crate::routes::job::{control, events, item_error, queue, read as job_read};
use crate::routes::partner::{setting, sync};
use crate::routes::problem as problem_page;
use crate::routes::shipping::{carrier, service as carrier_service};
use crate::routes::warehouse::{read as warehouse_read, stock_advice, supplier, warehouse, wms};
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
        .route("/api/login/admin", post(login::login_admin))
        .route("/api/login/user", post(login::login_user))
        .route("/api/refresh-token", post(login::refresh_token))
        .route("/api/logout", post(login::logout))
        .route("/api/account/password", put(account::change_password))
        .route(
            "/api/account/totp",
            post(account::set_up_totp).put(account::switch_on_totp).delete(account::remove_totp),
        )
        .route("/api/session/list", post(session::list_sessions))
        .route("/api/session/{id}", delete(session::end_session))
        .route("/api/access-token", post(token::create_access_token))
        .route("/api/access-token/list", post(token::list_access_tokens))
        .route("/api/access-token/{id}", get(token::get_access_token).delete(token::delete_access_token))
        .route("/api/admin", post(admin::create_admin))
        .route("/api/admin/list", post(admin::list_admins))
        .route("/api/admin/activate", put(admin_bulk::activate_admins))
        .route("/api/admin/deactivate", put(admin_bulk::deactivate_admins))
        .route("/api/admin/delete", put(admin_bulk::delete_admins))
        .route("/api/admin/activate/{id}", put(admin::activate_admin))
        .route("/api/admin/deactivate/{id}", put(admin::deactivate_admin))
        .route("/api/admin/{id}", get(admin::get_admin).put(admin::update_admin).delete(admin::delete_admin))
        .route("/api/admin/{id}/totp", delete(admin::remove_admin_totp))
        .route("/api/admin/{id}/preferences", put(admin::set_admin_preferences))
        .route(
            "/api/admin/{id}/organisation/{organisation}",
            put(admin::add_admin_to_organisation).delete(admin::remove_admin_from_organisation),
        )
        .route("/api/business-user", post(business_user::create_business_user))
        .route("/api/business-user/list", post(business_user::list_business_users))
        .route(
            "/api/business-user/{id}",
            get(business_user::get_business_user)
                .put(business_user::update_business_user)
                .delete(business_user::delete_business_user),
        )
        .route("/api/business-user/activate/{id}", put(business_user::activate_business_user))
        .route("/api/business-user/deactivate/{id}", put(business_user::deactivate_business_user))
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
        .route(
            "/api/product/{id}/image/upload",
            put(image::upload_product_image_json).post(image::upload_product_image_form),
        )
        .route("/api/product/{id}/{image}", delete(image::delete_product_image))
        .route("/api/product/activate", put(switch::activate_products))
        .route("/api/product/deactivate", put(switch::deactivate_products))
        .route(
            "/api/product/{id}/service/{service}",
            put(product_service::add_product_service).delete(product_service::remove_product_service),
        )
        .route("/api/product-stock/list", post(warehouse_read::list_product_stocks))
        .route("/api/product-stock/{id}", get(warehouse_read::get_product_stock))
        .route("/api/expedition", post(order_edit::create_expedition))
        .route("/api/expedition/list", post(order_read::list_expeditions))
        .route(
            "/api/expedition/{id}",
            get(order_read::get_expedition)
                .put(order_edit::update_expedition)
                .patch(order_edit::patch_expedition)
                .delete(order_edit::delete_expedition),
        )
        .route("/api/expedition/{id}/send", put(order::send_expedition))
        .route("/api/expedition/{id}/process", put(order::process_expedition))
        .route("/api/expedition/{id}/rollback", put(order::roll_back_expedition))
        .route("/api/expedition/{id}/cancel", put(order::cancel_expedition))
        .route("/api/expedition/{id}/rebook", patch(order::rebook_expedition))
        .route("/api/expedition/{id}/unbook", patch(order::unbook_expedition))
        .route("/api/expedition/{id}/status", put(order_edit::report_expedition))
        .route("/api/expedition-item/list", post(order_read::list_expedition_items))
        .route("/api/reservation/list", post(order_read::list_reservations))
        .route("/api/stock-movement/list", post(order_read::list_stock_movements))
        .route("/api/stock-advice", post(stock_advice::create_stock_advice))
        .route("/api/stock-advice/list", post(stock_advice::list_stock_advices))
        .route("/api/stock-advice/{id}", get(stock_advice::get_stock_advice))
        .route("/api/stock-advice/{id}/receive", put(stock_advice::receive_stock_advice))
        .route("/api/stock-advice/{id}/cancel", put(stock_advice::cancel_stock_advice))
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
        .route("/api/eshop-webhook/{id}/rotate-secret", put(subscription::rotate_webhook_secret))
        .route("/api/eshop-webhook/{id}/test", post(subscription::test_webhook))
        .route("/api/eshop-webhook/{id}/recover", post(subscription::recover_webhook))
        .route("/api/webhook-delivery/list", post(webhook_read::list_deliveries))
        .route("/api/webhook-delivery/{id}", get(webhook_read::get_delivery))
        .route("/api/webhook-delivery/redeliver", put(delivery::redeliver_deliveries))
        .route("/api/webhook-delivery/redeliver/{id}", put(delivery::redeliver_delivery))
        .route(
            "/api/partner-integration/eshop-setting/{id}",
            get(setting::get_integration_setting)
                .post(setting::store_integration_setting)
                .delete(setting::delete_integration_setting),
        )
        .route("/api/partner-integration/eshop/sync/products", post(sync::sync_products))
        .route("/api/partner-integration/eshop/sync/product-stocks", post(sync::sync_product_stocks))
        .route("/api/job/list", post(job_read::list_jobs))
        .route("/api/job/{id}", get(job_read::get_job))
        .route("/api/job/cancel/{id}", put(control::cancel_job))
        .route("/api/job/retry/{id}", put(control::retry_job))
        .route("/api/job/{id}/error/list", post(item_error::list_item_errors))
        .route("/api/job/{id}/events", get(events::follow_job))
        .route("/api/queue", get(queue::list_queues))
        .route("/api/queue/{name}", put(queue::update_queue))
        .route("/api/queue/{name}/pause", put(queue::pause_queue))
        .route("/api/queue/{name}/resume", put(queue::resume_queue))
        .route("/api/audit", post(audit::list_audit))
        .layer(from_fn(accept::layer))
        // images are served regardless of Accept
        .route("/api/product/{id}/{image}", get(image::get_product_image))
        .layer(from_fn_with_state(app.clone(), revocation::layer))
        .layer(from_fn_with_state(app.clone(), streams::layer))
        .layer(from_fn_with_state(app.clone(), rate::layer))
        .layer(from_fn_with_state(app.clone(), time::layer))
        .layer(from_fn(private::layer));
    let service = Router::new()
        .merge(api)
        .merge(longshore_console::routes(&app))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(health::get_metrics))
        .route("/problems/{code}", get(problem_page::describe_problem))
        .route("/openapi.json", get(serve::get_openapi))
        .route("/docs", get(serve::show_docs))
        .route("/docs/{file}", get(serve::show_docs_file))
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(CatchPanicLayer::custom(|payload: Box<dyn std::any::Any + Send>| problem::panicked(&*payload)))
        .layer(from_fn(host::layer))
        .layer(from_fn(headers::layer))
        .layer(from_fn(problem::layer))
        // inside the compression, so that the bytes counted are those of the uncompressed answer
        .layer(from_fn_with_state(app.clone(), share::layer))
        .layer(from_fn(compress::layer));
    // outside all layers that refuse requests: a browser hides a refusal without CORS headers from its page
    let service = match cors::of(&app.surroundings.origins) {
        Some(cors) => service.layer(from_fn_with_state(cors, cors::layer)),
        None => service,
    };
    service.layer(from_fn_with_state(app.clone(), request_id::layer)).with_state(app)
}
