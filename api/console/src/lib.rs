//! The operator console at `/console`: pages to watch and control the service.
//!
//! # Modules
//!
//! - [`routes`] lists its URLs. Each page is a file: [`overview`], [`attention`], [`find`], [`order`], [`product`], [`queue`], [`worker`], [`job`], [`import`],
//!   [`failure`], [`webhook`], [`delivery`], [`replay`], [`audit`], [`sync`], [`schedule`], [`eshop`], [`organisation`],
//!   [`account`], [`token`], [`wms`], [`preference`].
//! - [`session`] authenticates: a cookie contains the token of a login, and becomes the `Authorization`
//!   header for the rest of the service. Rates, streams, roles and scopes are those of the API.
//! - [`visit`] is passed to a handler: the visitor, the request, and the layout of the page.
//! - [`refusal`] answers a form that is refused with its page, which has what was typed and says what is wrong.
//! - [`address`] gives pages their addresses, also those of what `shared` found; [`layout`], [`counts`], [`theme`], [`piece`], [`json`], [`timeline`], [`chart`], [`course`], [`kind`] are the parts of pages; [`connection`] shows
//!   the test of a connection; [`secret`] has what forms and pages do with secrets; [`asset`] has the embedded style sheet and
//!   script; [`bulk`] has the records of an action on several; [`live`] keeps an open page up to date, and lists as often as [`refresh`] says; [`period`] has the periods of
//!   lists; [`cookie`] reads the cookies of a request; [`problem`] shows errors.
//!
//! # Guarantees
//!
//! - It can do nothing that the API cannot: it reads through `shared`, and acts through the use-cases of the
//!   API, with the same permissions, so every action is audited. It contains no SQL.
//! - Reading a page changes nothing: an action is a `POST` from a page of the console ([`session`] checks
//!   that), after a confirmation. The confirmation is a separate page; the script only shows it in place.
//! - A form that is refused keeps what was typed. If the login has ended, the visitor comes back to the page of the form.
//! - Every page and action works without script. Nothing is loaded from elsewhere, and no page contains
//!   inline styles or scripts.
//! - Every list is bounded, and so is the work for a page.
//!
//! # Adding a page
//!
//! A read model in `shared`; a file here with a handler that takes a [`visit::Visit`] with the required
//! permission; a line in [`routes`]; for an action, a form and a `POST` at the same URL, whose fields show what
//! [`visit::Visit::filled`] returns; a test in `tests/it/console`.

mod account;
pub mod address;
mod asset;
mod attention;
mod audit;
mod bulk;
mod chart;
mod connection;
mod cookie;
mod counts;
mod course;
mod delivery;
mod eshop;
mod failure;
mod find;
mod form;
mod import;
mod job;
mod json;
mod kind;
mod layout;
mod listed;
mod live;
mod order;
mod organisation;
mod overview;
mod period;
mod piece;
mod preference;
mod problem;
mod product;
mod queue;
mod refresh;
mod refusal;
mod replay;
mod schedule;
mod secret;
mod session;
mod sync;
mod theme;
mod timeline;
mod token;
mod visit;
mod webhook;
mod wms;
mod worker;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use longshore_http::app::App;
use longshore_http::middleware::{rate, revocation, streams, time};

use self::webhook::reader;

/// The routes of the console.
pub fn routes(app: &App) -> Router<App> {
    let pages = Router::new()
        .route("/console", get(overview::show))
        .route("/console/", get(overview::show))
        .route("/console/live", get(overview::follow))
        .route("/console/attention", get(attention::show))
        .route(
            "/console/attention/{id}/acknowledge",
            get(attention::control::ask_acknowledge).post(attention::control::acknowledge),
        )
        .route(
            "/console/attention/{id}/mute",
            get(attention::control::ask_mute).post(attention::control::mute),
        )
        .route("/console/attention/{id}/end", get(attention::control::ask_end).post(attention::control::end))
        .route("/console/account", get(account::show))
        .route("/console/account/password", post(account::change_password))
        .route("/console/account/totp", get(account::ask_set_up).post(account::set_up))
        .route("/console/account/totp/on", post(account::switch_on))
        .route("/console/account/totp/remove", post(account::remove))
        .route("/console/account/session/{id}/end", get(account::ask_end).post(account::end))
        .route("/console/token", get(token::show))
        .route("/console/token/new", get(token::new).post(token::create))
        .route("/console/token/{id}/delete", get(token::ask_delete).post(token::delete))
        .route("/console/find", get(find::show).post(find::seek))
        .route("/console/eshop/{id}", get(eshop::show))
        .route("/console/eshop/{id}/setting", get(eshop::setting::edit).post(eshop::setting::store))
        .route("/console/eshop/{id}/pause", get(eshop::setting::ask_pause).post(eshop::setting::pause))
        .route("/console/eshop/{id}/resume", get(eshop::setting::ask_resume).post(eshop::setting::resume))
        .route("/console/eshop/{id}/sync", get(eshop::setting::ask_sync).post(eshop::setting::sync))
        .route("/console/eshop/{id}/live", get(eshop::follow))
        .route("/console/eshop/{id}/test", get(eshop::setting::ask_test).post(eshop::setting::test))
        .route("/console/eshop/{id}/webhook", get(webhook::edit::new).post(webhook::edit::create))
        .route("/console/eshop/{id}/reader", get(reader::edit::new).post(reader::edit::create))
        .route("/console/organisation/{id}", get(organisation::show))
        .route(
            "/console/organisation/{id}/webhook",
            get(webhook::edit::new_of_all).post(webhook::edit::create_of_all),
        )
        .route(
            "/console/organisation/{id}/reader",
            get(reader::edit::new_of_all).post(reader::edit::create_of_all),
        )
        .route("/console/product", get(product::list::show))
        .route("/console/product/activate", get(product::bulk::ask_activate).post(product::bulk::activate))
        .route(
            "/console/product/deactivate",
            get(product::bulk::ask_deactivate).post(product::bulk::deactivate),
        )
        .route("/console/product/{id}", get(product::show))
        .route("/console/order", get(order::list::show))
        .route("/console/order/live", get(order::list::follow))
        .route("/console/order/attention", get(order::attention::show))
        .route("/console/order/{id}", get(order::show))
        .route("/console/order/bulk/{deed}", get(order::bulk::ask).post(order::bulk::run))
        .route("/console/order/{id}/live", get(order::follow))
        .route("/console/order/{id}/edit", get(order::edit::ask).post(order::edit::store))
        .route(
            "/console/order/{id}/ship-from",
            get(order::waits::ask_ship_from).post(order::waits::ship_from),
        )
        .route("/console/order/{id}/send", get(order::control::ask_send).post(order::control::send))
        .route("/console/order/{id}/process", get(order::control::ask_process).post(order::control::process))
        .route(
            "/console/order/{id}/rollback",
            get(order::control::ask_rollback).post(order::control::rollback),
        )
        .route("/console/order/{id}/cancel", get(order::control::ask_cancel).post(order::control::cancel))
        .route("/console/order/{id}/rebook", get(order::control::ask_rebook).post(order::control::rebook))
        .route("/console/order/{id}/unbook", get(order::control::ask_unbook).post(order::control::unbook))
        .route("/console/order/{id}/delete", get(order::control::ask_delete).post(order::control::delete))
        .route("/console/order/{id}/status", get(order::control::ask_status).post(order::control::report))
        .route("/console/queue", get(queue::show))
        .route("/console/queue/live", get(queue::follow))
        .route("/console/queue/{name}", get(queue::show_one))
        .route("/console/queue/{name}/pause", get(queue::ask_pause).post(queue::pause))
        .route("/console/queue/{name}/resume", get(queue::ask_resume).post(queue::resume))
        .route("/console/queue/{name}/concurrency", get(queue::ask_concurrency).post(queue::set_concurrency))
        .route("/console/worker", get(worker::show))
        .route("/console/worker/{name}", get(worker::show_one))
        .route(
            "/console/import",
            get(import::show).post(import::send).layer(from_fn_with_state(app.clone(), revocation::layer)),
        )
        .route("/console/import/look", post(import::look))
        .route("/console/job", get(job::list::show))
        .route("/console/job/live", get(job::list::follow))
        .route("/console/job/cancel", get(job::bulk::ask_cancel).post(job::bulk::cancel))
        .route("/console/job/retry", get(job::bulk::ask_retry).post(job::bulk::retry))
        .route("/console/job/{id}", get(job::show))
        .route("/console/job/{id}/live", get(job::follow))
        .route("/console/job/{id}/cancel", get(job::control::ask_cancel).post(job::control::cancel))
        .route("/console/job/{id}/retry", get(job::control::ask_retry).post(job::control::retry))
        .route("/console/job/{id}/apply", get(job::control::ask_apply).post(job::control::apply))
        .route("/console/job/{id}/release", get(job::control::ask_release).post(job::control::release))
        .route("/console/job/{id}/errors.csv", get(job::file::errors))
        .route("/console/job/{id}/refused", get(job::file::refused_rows))
        .route("/console/failure", get(failure::show))
        .route("/console/failure/{key}/retry", get(failure::ask_retry).post(failure::retry))
        .route("/console/webhook", get(webhook::list::show))
        .route("/console/webhook/live", get(webhook::list::follow))
        .route("/console/webhook/{id}", get(webhook::show))
        .route("/console/webhook/{id}/live", get(webhook::follow))
        .route("/console/webhook/{id}/edit", get(webhook::edit::edit).post(webhook::edit::store))
        .route("/console/webhook/{id}/rotate", get(webhook::edit::ask_rotate).post(webhook::edit::rotate))
        .route(
            "/console/webhook/{id}/activate",
            get(webhook::control::ask_activate).post(webhook::control::activate),
        )
        .route(
            "/console/webhook/{id}/deactivate",
            get(webhook::control::ask_deactivate).post(webhook::control::deactivate),
        )
        .route("/console/webhook/{id}/test", get(webhook::control::ask_test).post(webhook::control::test))
        .route(
            "/console/webhook/{id}/redeliver",
            get(delivery::ask_selected).post(delivery::redeliver_selected),
        )
        .route(
            "/console/webhook/{id}/redeliver-all",
            get(delivery::ask_matching).post(delivery::redeliver_matching),
        )
        .route("/console/reader", get(reader::list))
        .route("/console/reader/{id}", get(reader::show))
        .route("/console/reader/{id}/edit", get(reader::edit::edit).post(reader::edit::store))
        .route("/console/reader/{id}/delete", get(reader::edit::ask_delete).post(reader::edit::delete))
        .route("/console/replay", get(replay::show).post(replay::start))
        .route("/console/delivery", get(delivery::all::show))
        .route("/console/delivery/live", get(delivery::all::follow))
        .route("/console/delivery/redeliver", get(delivery::ask_any).post(delivery::redeliver_any))
        .route("/console/delivery/{id}", get(delivery::show))
        .route("/console/delivery/{id}/live", get(delivery::follow))
        .route("/console/delivery/{id}/redeliver", get(delivery::ask).post(delivery::redeliver))
        .route("/console/wms", get(wms::list::show))
        .route("/console/wms/{id}", get(wms::show))
        .route("/console/wms/{id}/live", get(wms::follow))
        .route("/console/wms/{id}/edit", get(wms::edit::edit).post(wms::edit::store))
        .route("/console/wms/{id}/rotate", get(wms::edit::ask_rotate).post(wms::edit::rotate))
        .route("/console/wms/{id}/test", get(wms::control::ask_test).post(wms::control::test))
        .route("/console/wms/{id}/pause", get(wms::control::ask_pause).post(wms::control::pause))
        .route("/console/wms/{id}/resume", get(wms::control::ask_resume).post(wms::control::resume))
        .route("/console/wms/{id}/delete", get(wms::control::ask_delete).post(wms::control::delete))
        .route("/console/lost-order/{id}/dismiss", get(wms::control::ask_dismiss).post(wms::control::dismiss))
        .route("/console/preference", get(preference::show))
        .route("/console/preference/new", get(preference::edit::new).post(preference::edit::create))
        .route("/console/preference/{id}/edit", get(preference::edit::edit).post(preference::edit::store))
        .route("/console/preference/{id}/delete", get(preference::ask_delete).post(preference::delete))
        .route("/console/audit", get(audit::show))
        .route("/console/sync", get(sync::show))
        .route("/console/schedule", get(schedule::show))
        .route("/console/theme", post(account::choose_theme))
        .route("/console/sync/live", get(sync::follow))
        .route("/console/login", get(session::show_login).post(session::log_in))
        .route("/console/logout", post(session::log_out))
        .route("/console/{*path}", get(problem::no_such_page));
    let forms: Router = pages.clone().with_state(app.clone());
    let pages = pages
        .layer(from_fn_with_state(app.clone(), streams::layer))
        .layer(from_fn_with_state(app.clone(), rate::layer))
        .layer(from_fn_with_state((app.clone(), forms), refusal::layer))
        .layer(from_fn_with_state(app.clone(), time::layer))
        .layer(from_fn(session::layer));
    pages
        .route("/console/asset/{name}", get(asset::show))
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(from_fn_with_state(app.clone(), problem::layer))
        .layer(from_fn(layout::protect))
}
