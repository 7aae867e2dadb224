//! The interface's description, for programs and for people. The page is Swagger UI from within the binary: nothing of it
//! is fetched from elsewhere, and its policy forbids that it be.

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use longshore_shared::platform::problem::Problem;
use utoipa_swagger_ui::Config;

use crate::extract::{Failure, Segment};
use crate::openapi;

/// The page that Swagger UI fills.
const PAGE: &str = r#"<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>Longshore</title>
    <link rel="stylesheet" href="/docs/swagger-ui.css">
    <link rel="stylesheet" href="/docs/index.css">
    <link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="/docs/swagger-ui-bundle.js"></script>
    <script src="/docs/swagger-ui-standalone-preset.js"></script>
    <script src="/docs/swagger-initializer.js"></script>
  </body>
</html>
"#;

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

/// `GET /docs`.
pub async fn show_docs() -> Response {
    page("text/html; charset=utf-8", PAGE.into())
}

/// `GET /docs/{file}`.
pub async fn show_docs_file(Segment(name): Segment) -> Result<Response, Failure> {
    let found = utoipa_swagger_ui::serve(&name, Arc::clone(&CONFIG))
        .map_err(|error| Problem::internal(error.to_string()))?
        .ok_or_else(|| Problem::not_found("file"))?;
    Ok(page(&found.content_type, found.bytes.into_owned().into()))
}

fn page(media: &str, body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, media),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}
