//! Cancelling and retrying.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, May, Once, Prefer, permit};
use longshore_shared::job::control;
use longshore_shared::kernel::ids::JobId;

use super::answer::{Patience, answer};
use crate::routes::view;

/// `PUT /api/job/cancel/{id}`: 200 with the job; 409 if it has ended.
pub async fn cancel_job(
    State(app): State<App>,
    may: May<permit::WriteJobs>,
    Id(id): Id<JobId>,
) -> Result<Response, Failure> {
    control::cancel(&app.services, &may, id).await?;
    Ok(view::json(view::job(&app, may.scope(), id).await?.json).into_response())
}

/// `PUT /api/job/retry/{id}`: 202 with the job; 409 if it has not ended, or nothing failed.
pub async fn retry_job(
    State(app): State<App>,
    may: May<permit::WriteJobs>,
    once: Once,
    prefer: Prefer,
    Id(id): Id<JobId>,
) -> Result<Response, Failure> {
    let answered = once
        .answer(&app.services, may.0.clone(), b"", async |context| {
            control::retry(&app.services, context, id).await
        })
        .await?;
    answer(&app, &may, answered, prefer, Patience::LATER).await
}
