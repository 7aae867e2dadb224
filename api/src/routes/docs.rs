//! The interface's description, for programs and for people. The page is Swagger UI from within the binary: nothing of it
//! is fetched from elsewhere, and its policy forbids that it be.

use std::sync::{Arc, LazyLock};

use axum::extract::RawPathParams;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use longshore_shared::platform::problem::Problem;
use utoipa_swagger_ui::Config;

use crate::extract::Failure;
use crate::openapi;

/// Scripts, styles and answers of the service itself; small pictures that stand in the style sheet.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    // no validator: it is somebody else's service, which would have to be asked
    Arc::new(
        Config::from("/openapi.json").validator_url("none").display_operation_id(true).doc_expansion("none"),
    )
});

/// `GET /openapi.json`.
pub async fn get_openapi() -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    (headers, openapi::text()).into_response()
}

/// `GET /docs`: its files are named relative to `/docs/`.
pub async fn open_docs() -> Redirect {
    Redirect::permanent("/docs/")
}

/// `GET /docs/`.
pub async fn show_docs() -> Result<Response, Failure> {
    file("index.html")
}

/// `GET /docs/{file}`.
pub async fn show_docs_file(params: RawPathParams) -> Result<Response, Failure> {
    file(params.iter().next().map_or("", |(_, name)| name))
}

fn file(name: &str) -> Result<Response, Failure> {
    let found = utoipa_swagger_ui::serve(name, Arc::clone(&CONFIG))
        .map_err(|error| Problem::internal(error.to_string()))?;
    let found = found.ok_or_else(|| Problem::not_found("page"))?;
    let headers = [
        (CONTENT_TYPE, found.content_type.as_str()),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache"),
    ];
    Ok((headers, found.bytes.into_owned()).into_response())
}
