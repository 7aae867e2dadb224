//! Every URL, in one table: the router and the API document are made from it. Those of the document itself are in
//! `openapi/serve.rs`.

use std::any::type_name;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, on};
use http::Method;
use longshore_domain::account::eshop::Eshop;
use longshore_domain::account::organisation::Organisation;
use longshore_domain::catalog::packaging::PackagingOption;
use longshore_domain::shipping::carrier::Carrier;
use longshore_domain::shipping::preference::CarrierPreference;
use longshore_domain::shipping::service::CarrierService;
use longshore_domain::warehouse::supplier::Supplier;
use longshore_domain::warehouse::warehouse::Warehouse;
use longshore_domain::warehouse::wms::Wms;
use longshore_http::app::App;
use longshore_http::middleware::deprecated::{self, Deprecation};
use longshore_http::middleware::unconditional;

use crate::routes::account::{account, admin, admin_bulk, audit, business_user, login, session, token};
use crate::routes::catalog::{image, product, read as catalog_read, service as product_service, switch};
use crate::routes::expedition::{
    bulk as order_bulk, command as order, edit as order_edit, invoice as order_invoice, lost_order,
    read as order_read,
};
use crate::routes::health;
use crate::routes::job::{control, events, item_error, queue, read as job_read};
use crate::routes::partner::{setting, sync, wms_setting};
use crate::routes::problem as problem_page;
use crate::routes::shipping::{carrier, preference as carrier_preference};
use crate::routes::warehouse::{read as warehouse_read, stock_advice};
use crate::routes::webhook::{delivery, read as webhook_read, reader as event_reader, subscription};
use crate::routes::{activity, attention, find, index, resource};
use crate::signature;

/// The operations of the API.
pub fn api() -> Table {
    Table::default()
        .post("/api/organisation/list", resource::list::<Organisation>)
        .post("/api/organisation", resource::create::<Organisation>)
        .get("/api/organisation/{id}", resource::get::<Organisation>)
        .put("/api/organisation/{id}", resource::update::<Organisation>)
        .post("/api/eshop/list", resource::list::<Eshop>)
        .post("/api/eshop", resource::create::<Eshop>)
        .get("/api/eshop/{id}", resource::get::<Eshop>)
        .put("/api/eshop/{id}", resource::update::<Eshop>)
        .post("/api/login/admin", login::login_admin)
        .post("/api/login/user", login::login_user)
        .post("/api/refresh-token", login::refresh_token)
        .post("/api/logout", login::logout)
        .put("/api/account/password", account::change_password)
        .post("/api/account/totp", account::set_up_totp)
        .put("/api/account/totp", account::switch_on_totp)
        .delete("/api/account/totp", account::remove_totp)
        .post("/api/session/list", session::list_sessions)
        .delete("/api/session/{id}", session::end_session)
        .post("/api/access-token", token::create_access_token)
        .post("/api/access-token/list", token::list_access_tokens)
        .get("/api/access-token/{id}", token::get_access_token)
        .delete("/api/access-token/{id}", token::delete_access_token)
        .post("/api/admin", admin::create_admin)
        .post("/api/admin/list", admin::list_admins)
        .put("/api/admin/activate", admin_bulk::activate_admins)
        .put("/api/admin/deactivate", admin_bulk::deactivate_admins)
        .put("/api/admin/delete", admin_bulk::delete_admins)
        .put("/api/admin/activate/{id}", admin::activate_admin)
        .put("/api/admin/deactivate/{id}", admin::deactivate_admin)
        .get("/api/admin/{id}", admin::get_admin)
        .put("/api/admin/{id}", admin::update_admin)
        .delete("/api/admin/{id}", admin::delete_admin)
        .delete("/api/admin/{id}/totp", admin::remove_admin_totp)
        .put("/api/admin/{id}/preferences", admin::set_admin_preferences)
        .put("/api/admin/{id}/organisation/{organisation}", admin::add_admin_to_organisation)
        .delete("/api/admin/{id}/organisation/{organisation}", admin::remove_admin_from_organisation)
        .post("/api/business-user", business_user::create_business_user)
        .post("/api/business-user/list", business_user::list_business_users)
        .get("/api/business-user/{id}", business_user::get_business_user)
        .put("/api/business-user/{id}", business_user::update_business_user)
        .delete("/api/business-user/{id}", business_user::delete_business_user)
        .put("/api/business-user/activate/{id}", business_user::activate_business_user)
        .put("/api/business-user/deactivate/{id}", business_user::deactivate_business_user)
        .post("/api/warehouse/list", resource::list::<Warehouse>)
        .post("/api/warehouse", resource::create::<Warehouse>)
        .get("/api/warehouse/{id}", resource::get::<Warehouse>)
        .put("/api/warehouse/{id}", resource::update::<Warehouse>)
        .post("/api/wms/list", resource::list::<Wms>)
        .post("/api/wms", resource::create::<Wms>)
        .get("/api/wms/{id}", resource::get::<Wms>)
        .put("/api/wms/{id}", resource::update::<Wms>)
        .post("/api/supplier/list", resource::list::<Supplier>)
        .post("/api/supplier", resource::create::<Supplier>)
        .get("/api/supplier/{id}", resource::get::<Supplier>)
        .put("/api/supplier/{id}", resource::update::<Supplier>)
        .post("/api/packaging-option/list", resource::list::<PackagingOption>)
        .post("/api/packaging-option", resource::create::<PackagingOption>)
        .get("/api/packaging-option/{id}", resource::get::<PackagingOption>)
        .post("/api/product/list", catalog_read::list_products)
        .post("/api/product", product::create_product)
        .get("/api/product/{id}", catalog_read::get_product)
        .put("/api/product/{id}", product::update_product)
        .put("/api/product/activate/{id}", product::activate_product)
        .put("/api/product/deactivate/{id}", product::deactivate_product)
        .put("/api/product/{id}/activate", product::activate_product)
        .put("/api/product/{id}/deactivate", product::deactivate_product)
        .put("/api/product/{id}/image/upload", image::upload_product_image_json)
        .post("/api/product/{id}/image/upload", image::upload_product_image_form)
        .delete("/api/product/{id}/{image}", image::delete_product_image)
        .put("/api/product/activate", switch::activate_products)
        .put("/api/product/deactivate", switch::deactivate_products)
        .put("/api/product/{id}/service/{service}", product_service::add_product_service)
        .delete("/api/product/{id}/service/{service}", product_service::remove_product_service)
        .post("/api/product-stock/list", warehouse_read::list_product_stocks)
        .get("/api/product-stock/{id}", warehouse_read::get_product_stock)
        .post("/api/expedition", order_edit::create_expedition)
        .post("/api/expedition/list", order_read::list_expeditions)
        .get("/api/expedition/{id}", order_read::get_expedition)
        .put("/api/expedition/{id}", order_edit::update_expedition)
        .patch("/api/expedition/{id}", order_edit::patch_expedition)
        .delete("/api/expedition/{id}", order_edit::delete_expedition)
        .put("/api/expedition/send", order_bulk::send_expeditions)
        .put("/api/expedition/process", order_bulk::process_expeditions)
        .put("/api/expedition/cancel", order_bulk::cancel_expeditions)
        .put("/api/expedition/rollback", order_bulk::roll_back_expeditions)
        .put("/api/expedition/{id}/send", order::send_expedition)
        .put("/api/expedition/{id}/process", order::process_expedition)
        .put("/api/expedition/{id}/rollback", order::roll_back_expedition)
        .put("/api/expedition/{id}/cancel", order::cancel_expedition)
        .patch("/api/expedition/{id}/rebook", order::rebook_expedition)
        .patch("/api/expedition/{id}/unbook", order::unbook_expedition)
        .put("/api/expedition/{id}/status", order_edit::report_expedition)
        .post("/api/expedition/{id}/invoice", order_invoice::upload_expedition_invoice)
        .delete("/api/expedition/{id}/invoice", order_invoice::delete_expedition_invoice)
        .post("/api/expedition-item/list", order_read::list_expedition_items)
        .post("/api/reservation/list", order_read::list_reservations)
        .post("/api/stock-movement/list", order_read::list_stock_movements)
        .post("/api/outbound-receipt/list", order_read::list_outbound_receipts)
        .post("/api/inbound-receipt/list", order_read::list_inbound_receipts)
        .post("/api/lost-order/list", lost_order::list_lost_orders)
        .delete("/api/lost-order/{id}", lost_order::dismiss_lost_order)
        .post("/api/stock-advice", stock_advice::create_stock_advice)
        .post("/api/stock-advice/list", stock_advice::list_stock_advices)
        .get("/api/stock-advice/{id}", stock_advice::get_stock_advice)
        .put("/api/stock-advice/{id}/receive", stock_advice::receive_stock_advice)
        .put("/api/stock-advice/{id}/cancel", stock_advice::cancel_stock_advice)
        .post("/api/carrier/list", resource::list::<Carrier>)
        .post("/api/carrier", resource::create::<Carrier>)
        .get("/api/carrier/{id}", carrier::get_carrier)
        .put("/api/carrier/{id}", resource::update::<Carrier>)
        .get("/api/carrier/code/{code}", carrier::get_carrier_by_code)
        .put("/api/carrier/{id}/organisation-add", carrier::add_carrier_organisations)
        .put("/api/carrier/{id}/organisation-remove", carrier::remove_carrier_organisations)
        .post("/api/carrier-service/list", resource::list::<CarrierService>)
        .post("/api/carrier-service", resource::create::<CarrierService>)
        .get("/api/carrier-service/{id}", resource::get::<CarrierService>)
        .put("/api/carrier-service/{id}", resource::update::<CarrierService>)
        .post("/api/carrier-preference/list", resource::list::<CarrierPreference>)
        .post("/api/carrier-preference", resource::create::<CarrierPreference>)
        .get("/api/carrier-preference/{id}", resource::get::<CarrierPreference>)
        .put("/api/carrier-preference/{id}", resource::update::<CarrierPreference>)
        .delete("/api/carrier-preference/{id}", carrier_preference::delete_carrier_preference)
        .post("/api/eshop-webhook", subscription::create_webhook)
        .post("/api/eshop-webhook/list", webhook_read::list_webhooks)
        .post("/api/eshop-webhook/try", subscription::try_webhook)
        .get("/api/eshop-webhook/{id}", webhook_read::get_webhook)
        .put("/api/eshop-webhook/{id}", subscription::update_webhook)
        .delete("/api/eshop-webhook/{id}", subscription::delete_webhook)
        .put("/api/eshop-webhook/activate/{id}", subscription::activate_webhook)
        .put("/api/eshop-webhook/deactivate/{id}", subscription::deactivate_webhook)
        .put("/api/eshop-webhook/{id}/rotate-secret", subscription::rotate_webhook_secret)
        .post("/api/eshop-webhook/{id}/test", subscription::test_webhook)
        .post("/api/eshop-webhook/{id}/recover", subscription::recover_webhook)
        .post("/api/event-reader", event_reader::create_event_reader)
        .post("/api/event-reader/list", event_reader::list_event_readers)
        .get("/api/event-reader/{id}", event_reader::get_event_reader)
        .put("/api/event-reader/{id}", event_reader::update_event_reader)
        .delete("/api/event-reader/{id}", event_reader::delete_event_reader)
        .get("/api/event-reader/{id}/events", event_reader::read_events)
        .put("/api/event-reader/{id}/position", event_reader::set_reader_position)
        .get("/api/event-reader/{id}/snapshot", event_reader::read_snapshot)
        .post("/api/webhook-delivery/list", webhook_read::list_deliveries)
        .get("/api/webhook-delivery/{id}", webhook_read::get_delivery)
        .get("/api/webhook-delivery/{id}/body", webhook_read::get_delivery_body)
        .put("/api/webhook-delivery/redeliver", delivery::redeliver_deliveries)
        .put("/api/webhook-delivery/redeliver/{id}", delivery::redeliver_delivery)
        .post("/api/webhook-delivery/replay", delivery::replay_deliveries)
        .post("/api/webhook-delivery/replay/count", delivery::count_replay)
        .get("/api/partner-integration/eshop-setting/{id}", setting::get_integration_setting)
        .post("/api/partner-integration/eshop-setting/{id}", setting::store_integration_setting)
        .delete("/api/partner-integration/eshop-setting/{id}", setting::delete_integration_setting)
        .post("/api/partner-integration/eshop-setting/{id}/test", setting::test_integration_setting)
        .get("/api/partner-integration/wms-setting/{id}", wms_setting::get_wms_setting)
        .post("/api/partner-integration/wms-setting/{id}", wms_setting::store_wms_setting)
        .delete("/api/partner-integration/wms-setting/{id}", wms_setting::delete_wms_setting)
        .put("/api/partner-integration/wms-setting/{id}/rotate-secret", wms_setting::rotate_wms_secret)
        .post("/api/partner-integration/wms-setting/{id}/test", wms_setting::test_wms_setting)
        .post("/api/partner-integration/eshop/sync/products", sync::sync_products)
        .post("/api/partner-integration/eshop/sync/product-stocks", sync::sync_product_stocks)
        .post("/api/partner-integration/eshop/sync/expeditions", sync::sync_expeditions)
        .post("/api/partner-integration/wms/sync/news", sync::sync_news)
        .post("/api/job/list", job_read::list_jobs)
        .get("/api/job/{id}", job_read::get_job)
        .put("/api/job/cancel", control::cancel_jobs)
        .put("/api/job/retry", control::retry_jobs)
        .put("/api/job/cancel/{id}", control::cancel_job)
        .put("/api/job/retry/{id}", control::retry_job)
        .post("/api/job/{id}/change/list", job_read::list_changes)
        .post("/api/job/{id}/preview/list", job_read::list_previewed_items)
        .post("/api/job/{id}/apply", control::apply_job)
        .post("/api/job/{id}/release", control::release_job)
        .post("/api/job/{id}/error/list", item_error::list_item_errors)
        .post("/api/job/{id}/error/group", item_error::group_item_errors)
        .get("/api/job/{id}/events", events::follow_job)
        .get("/api/job/activity/{span}", activity::read_job_activity)
        .get("/api/worker/activity/{span}", activity::read_worker_activity)
        .get("/api/counts", activity::read_counts)
        .post("/api/find", find::find_anything)
        .get("/api/attention", attention::list_attention)
        .put("/api/attention/{id}/acknowledge", attention::acknowledge_attention)
        .put("/api/attention/{id}/mute", attention::mute_attention)
        .delete("/api/attention/{id}/silence", attention::end_silence)
        .get("/api/queue", queue::list_queues)
        .put("/api/queue/{name}", queue::update_queue)
        .put("/api/queue/{name}/pause", queue::pause_queue)
        .put("/api/queue/{name}/resume", queue::resume_queue)
        .post("/api/audit", audit::list_audit)
}

/// Those whose answers do not depend on `Accept`: files.
pub fn files() -> Table {
    Table::default()
        .get("/api/product/{id}/{image}", image::get_product_image)
        .get("/api/expedition/{id}/invoice", order_invoice::get_expedition_invoice)
        .get("/api/job/{id}/refused", item_error::get_refused_rows)
}

/// The operations of the service itself, except those of the document.
pub fn service() -> Table {
    Table::default()
        .get("/health/live", health::live)
        .get("/health/ready", health::ready)
        .get("/metrics", health::get_metrics)
        .get("/", index::show_index)
        .get("/problems", problem_page::list_problems)
        .get("/problems/{code}", problem_page::describe_problem)
}

/// An operation of the service.
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: &'static str,
    /// The full name of its handler.
    pub handler: &'static str,
    /// What it answers with instead of JSON where its caller wants that: a media type.
    pub also: Option<&'static str>,
    /// Since when it is deprecated, if it is.
    pub deprecated: Option<Deprecation>,
}

impl Route {
    /// The unique id of its operation in the API document. An alias has the handler of another one.
    #[must_use]
    pub fn id(&self, is_alias: bool) -> String {
        let (name, _) = self.operation();
        if is_alias { format!("{name}_alias") } else { name }
    }

    /// The id of its operation, and its room: `logout` of `account` for the handler `routes::account::login::logout`. One that is of a
    /// record's type has the name and the room of that: `list_carrier_services` of `shipping` for
    /// `routes::resource::list<longshore_domain::shipping::service::CarrierService>`.
    #[must_use]
    pub fn operation(&self) -> (String, &'static str) {
        let (handler, record) = self.handler.split_once('<').unwrap_or((self.handler, ""));
        let name = handler.rsplit("::").next().unwrap_or_default();
        let Some((of, record)) = record.trim_end_matches('>').rsplit_once("::") else {
            let room = handler.split("routes::").nth(1).and_then(|rest| rest.split("::").next());
            return (name.to_owned(), room.unwrap_or_default());
        };
        let mut id = name.to_owned();
        for letter in record.chars() {
            if letter.is_ascii_uppercase() {
                id.push('_');
            }
            id.push(letter.to_ascii_lowercase());
        }
        if name == "list" {
            id += if id.ends_with('s') { "es" } else { "s" };
        }
        (id, of.split("::").nth(1).unwrap_or_default())
    }
}

/// Routes, and what they lead to.
#[derive(Default)]
#[must_use]
pub struct Table {
    /// The router.
    pub router: Router<App>,
    /// The same as a list.
    pub routes: Vec<Route>,
}

macro_rules! methods {
    ($($name:ident $method:ident)*) => {$(
        /// Adds an operation. `If-Match` is refused if its handler does not read it.
        pub fn $name<T: 'static, I, H: Handler<T, App> + signature::Handler<I>>(mut self, path: &'static str, handler: H) -> Self {
            let (inputs, handled_by) = (H::inputs(), type_name::<H>());
            self.routes.push(Route {
                method: Method::$method, path, handler: handled_by, also: inputs.also, deprecated: None,
            });
            let mut leads = on(MethodFilter::$method, handler);
            if Method::$method != Method::GET && !inputs.if_match {
                leads = leads.route_layer(from_fn(unconditional::layer));
            }
            Self { router: self.router.route(path, leads), ..self }
        }
    )*};
}

impl Table {
    methods! { get GET post POST put PUT patch PATCH delete DELETE }

    /// Deprecates the operation that was added last.
    pub fn deprecated(mut self, deprecation: Deprecation) -> Self {
        if let Some(route) = self.routes.last_mut() {
            route.deprecated = Some(deprecation);
        }
        self
    }

    /// The operations that are deprecated.
    #[must_use]
    pub fn old(&self) -> Vec<deprecated::Operation> {
        let old = self.routes.iter().enumerate().filter_map(|(number, route)| {
            let is_alias = self.routes[..number].iter().any(|before| before.handler == route.handler);
            Some(deprecated::Operation {
                method: route.method.clone(),
                path: route.path,
                page: format!("/docs/{}", route.id(is_alias)),
                deprecation: route.deprecated?,
            })
        });
        old.collect()
    }
}
