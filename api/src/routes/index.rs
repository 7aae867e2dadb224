//! The root of the service, where people and programs look first.

use axum::Json;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::VARY;
use longshore_http::extract::WantsPage;
use serde_json::json;

/// `GET /`: where everything is. Browsers are led to the console.
pub async fn show_index(WantsPage(is_page): WantsPage) -> Response {
    if is_page {
        return ([(VARY, "accept")], Redirect::to("/console")).into_response();
    }
    let index = json!({
        "documentation": "/docs",
        "document": "/openapi.json",
        "problems": "/problems",
        "console": "/console",
    });
    ([(VARY, "accept")], Json(index)).into_response()
}
