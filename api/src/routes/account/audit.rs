//! `/api/audit`: who changed what, and when.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::audit::AUDIT;
use longshore_http::extract::{Failure, ListRequest, May, permit};
use longshore_kernel::services::Services;

use crate::routes::list;

/// `POST /api/audit`: a list like every other.
pub async fn list_audit(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadAudit>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &AUDIT, may.scope(), asked).await
}
