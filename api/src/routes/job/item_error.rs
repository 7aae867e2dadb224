//! The refused items of a job.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::job::item_error;
use longshore_http::download;
use longshore_http::extract::{Failure, Id, ListRequest, May, permit};
use longshore_kernel::ids::JobId;
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/job/{id}/error/list`: takes `{limit?, offset?, after?, count?}`, and answers like every list, ordered by
/// position.
pub async fn list_item_errors(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadJobs>,
    Id(id): Id<JobId>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    let ListRequest { body, form } = asked;
    let answer = view::json(item_error::list(&services, may.scope(), id, body, form).await?);
    Ok(list::in_form(form, "item-error", answer)?)
}

/// `POST /api/job/{id}/error/group`: why items were refused, and how many for each reason.
pub async fn group_item_errors(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadJobs>,
    Id(id): Id<JobId>,
) -> Result<Response, Failure> {
    Ok(view::json(item_error::grouped(&services, may.scope(), id).await?))
}

/// `GET /api/job/{id}/refused`: the refused rows, in the form in which they came.
pub async fn get_refused_rows(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadJobs>,
    Id(id): Id<JobId>,
) -> Result<Response, Failure> {
    Ok(download::refused_rows(&services.db, may.scope(), id).await?)
}
