//! Deletes carrier preferences (`docs/reference/carriers.md#carrier-preference`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::shipping::preference;
use longshore_http::extract::{Failure, Id, IfMatch, May, permit};
use longshore_kernel::services::Services;

use crate::routes::view;

/// `DELETE /api/carrier-preference/{id}`: 204.
pub async fn delete_carrier_preference(
    State(services): State<Arc<Services>>,
    may: May<permit::WritePreferences>,
    Id(id): Id,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&preference::delete(&services, &may, id, check).await?)?)
}
