//! Reading organisations and e-shops.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::eshop::ESHOP;
use longshore_domain::list::fields::organisation::ORGANISATION;
use longshore_http::extract::{Failure, May, OptionalJson, permit};
use longshore_kernel::services::Services;

use crate::routes::list;

/// `POST /api/organisation/list`.
pub async fn list_organisations(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &ORGANISATION, may.scope(), body).await
}

/// `POST /api/eshop/list`.
pub async fn list_eshops(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &ESHOP, may.scope(), body).await
}
