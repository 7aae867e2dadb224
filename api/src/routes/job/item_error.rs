//! The refused items of a job.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use longshore_domain::job::item_error;
use longshore_http::extract::{Failure, Id, May, OptionalJson, permit};
use longshore_kernel::ids::JobId;
use longshore_kernel::services::Services;

use crate::routes::view;

/// `POST /api/job/{id}/error/list`: takes `{limit?, offset?}`, and answers like every list, ordered by
/// position.
pub async fn list_item_errors(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadJobs>,
    Id(id): Id<JobId>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    Ok(view::json(item_error::list(&services, may.scope(), id, body).await?).into_response())
}
