//! Integration settings of e-shops (`docs/reference/syncs.md#integration-settings`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::partner::setting::{self, store, trial};
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, JsonBody, May, Once, Prefer, permit};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::EshopId;
use longshore_kernel::services::Services;

use crate::routes::job::answer::accepted;
use crate::routes::view;

/// `GET /api/partner-integration/eshop-setting/{eshopId}`: credentials are masked.
pub async fn get_integration_setting(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadSettings>,
    Id(eshop): Id<EshopId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&setting::find(&services, may.scope(), eshop).await?)?)
}

/// `POST /api/partner-integration/eshop-setting/{eshopId}`: 200, created or replaced.
pub async fn store_integration_setting(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteSettings>,
    Id(eshop): Id<EshopId>,
    once: Once,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        store::store(&services, context, eshop, body.value, |version| if_match.check(version)).await
    })
    .await
}

/// `DELETE /api/partner-integration/eshop-setting/{eshopId}`: 204.
pub async fn delete_integration_setting(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteSettings>,
    Id(eshop): Id<EshopId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&store::delete(&services, &may, eshop).await?)?)
}

/// `POST /api/partner-integration/eshop-setting/{eshopId}/test`: 202 with the job that calls the partner once.
pub async fn test_integration_setting(
    State(app): State<App>,
    may: May<permit::WriteSettings>,
    Id(eshop): Id<EshopId>,
    once: Once,
    prefer: Prefer,
) -> Result<Response, Failure> {
    accepted(&app, &may, &once, prefer, &sha256(b""), async |context| {
        trial::test(&app.services, context, eshop).await
    })
    .await
}
