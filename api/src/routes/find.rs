//! `/api/find`: what an operator has at hand, in one search (`docs/reference/lists.md#find`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_http::extract::{Failure, JsonBody, May, permit};
use longshore_kernel::services::Services;
use longshore_operate::find;

use crate::routes::view;

/// `POST /api/find`: as the search of the console.
pub async fn find_anything(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::json(find::list(&services.db, may.caller.role, may.scope(), body.value).await?))
}
