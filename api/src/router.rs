//! The router of the service: what each request passes through on its way to the operation of its URL.

use std::future::ready;

use axum::Router;
use axum::extract::MatchedPath;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use http::{Method, Uri};
use longshore_http::app::App;
use longshore_http::middleware::{
    accept, compress, cors, deprecated, headers, host, pace, private, problem, rate, request_id, revocation,
    share, streams, time, transfer,
};
use longshore_http::paths::Paths;
use longshore_serve::sniffing;
use tower_http::catch_panic::CatchPanicLayer;

use crate::openapi::{routes, serve};
use crate::urls::{Table, api, files, service};

/// The router of the service.
pub fn build(app: App) -> Router {
    of(app, api())
}

/// The same with other operations of the API.
pub fn of(app: App, api: Table) -> Router {
    let paths = Paths::new(routes().iter().map(|route| (route.method.clone(), route.path)));
    let (unknown, known) = (paths.clone(), paths.clone());
    let old = deprecated::Old::of([&api, &files()].into_iter().flat_map(Table::old).collect());
    let others =
        accept::Others::new(api.routes.iter().filter_map(|route| Some((route.path, route.also?))).collect());
    let api = api
        .router
        .layer(from_fn_with_state(others, accept::layer))
        .merge(files().router)
        .layer(from_fn_with_state(app.clone(), revocation::layer))
        .layer(from_fn_with_state(app.clone(), streams::layer))
        .layer(from_fn_with_state(app.clone(), rate::layer));
    // refusals say it, too
    let api = match old {
        Some(old) => api.layer(from_fn_with_state((app.clone(), old), deprecated::layer)),
        None => api,
    };
    let api = api.layer(from_fn_with_state(app.clone(), time::layer)).layer(from_fn(private::layer));
    let service = service()
        .router
        .merge(api)
        .merge(serve::urls().router)
        .route("/docs/", get(serve::lead_to_docs))
        .merge(longshore_console::routes(&app))
        .fallback(move |method: Method, uri: Uri| ready(problem::no_such_path(&unknown, &method, &uri)))
        .method_not_allowed_fallback(move |method: Method, path: Option<MatchedPath>| {
            ready(problem::method_not_allowed(&known, &method, path.as_ref()))
        })
        .layer(CatchPanicLayer::custom(|payload: Box<dyn std::any::Any + Send>| problem::panicked(&*payload)))
        .layer(from_fn(transfer::layer))
        .layer(from_fn(host::layer))
        .layer(from_fn(headers::layer))
        .layer(from_fn(pace::entry))
        .layer(from_fn(problem::layer))
        // inside the compression, so that the bytes counted are those of the uncompressed answer
        .layer(from_fn_with_state(app.clone(), share::layer))
        .layer(from_fn(compress::layer))
        .layer(from_fn_with_state(app.clone(), pace::layer));
    // outside all layers that refuse requests: a browser hides a refusal without CORS headers from its page
    let service = match cors::of(&app.surroundings.origins, &paths) {
        Some(cors) => service.layer(from_fn_with_state(cors, cors::layer)),
        None => service,
    };
    service
        .layer(from_fn(sniffing::layer))
        .layer(from_fn_with_state(app.clone(), request_id::layer))
        .with_state(app)
}
