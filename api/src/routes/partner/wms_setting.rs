//! Settings of wms (`docs/reference/orders.md#setting-of-a-wms`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::expedition::handover::setting::{self, rotation, store, trial};
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, JsonBody, May, Once, Prefer, permit};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::WmsId;
use longshore_kernel::services::Services;

use crate::routes::job::answer::accepted;
use crate::routes::view;

/// `GET /api/partner-integration/wms-setting/{wmsId}`: credentials are masked.
pub async fn get_wms_setting(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadWmsSettings>,
    Id(wms): Id<WmsId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&setting::find(&services, may.scope(), wms).await?)?)
}

/// `POST /api/partner-integration/wms-setting/{wmsId}`: 200, created or replaced.
pub async fn store_wms_setting(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteWmsSettings>,
    Id(wms): Id<WmsId>,
    once: Once,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        store::store(&services, context, wms, body.value, |version| if_match.check(version)).await
    })
    .await
}

/// `DELETE /api/partner-integration/wms-setting/{wmsId}`: 204.
pub async fn delete_wms_setting(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteWmsSettings>,
    Id(wms): Id<WmsId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&store::delete(&services, &may, wms).await?)?)
}

/// `PUT /api/partner-integration/wms-setting/{wmsId}/rotate-secret`: 200 with the new secret.
pub async fn rotate_wms_secret(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteWmsSettings>,
    Id(wms): Id<WmsId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&rotation::rotate_secret(&services, &may, wms).await?)?)
}

/// `POST /api/partner-integration/wms-setting/{wmsId}/test`: 202 with the job that calls the system once.
pub async fn test_wms_setting(
    State(app): State<App>,
    may: May<permit::WriteWmsSettings>,
    Id(wms): Id<WmsId>,
    once: Once,
    prefer: Prefer,
) -> Result<Response, Failure> {
    accepted(&app, &may, &once, prefer, &sha256(b""), async |context| {
        trial::test(&app.services, context, wms).await
    })
    .await
}
