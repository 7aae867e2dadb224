//! Cancelling and retrying.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use longshore_domain::job::control::{self, bulk, release};
use longshore_domain::job::preview::application;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, JsonBody, May, Once, OptionalJson, Prefer, permit};
use longshore_kernel::ids::JobId;
use longshore_kernel::services::Services;
use serde_json::json;

use super::answer::accepted;
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
    accepted(&app, &may, &once, prefer, b"", async |context| control::retry(&app.services, context, id).await)
        .await
}

/// `POST /api/job/{id}/apply`: 202 with the job that applies a dry run; 409 if it cannot be applied.
pub async fn apply_job(
    State(app): State<App>,
    may: May<permit::WriteJobs>,
    once: Once,
    prefer: Prefer,
    Id(id): Id<JobId>,
    body: OptionalJson,
) -> Result<Response, Failure> {
    accepted(&app, &may, &once, prefer, &body.hash(), async |context| {
        let body = body.0.unwrap_or_else(|| json!({}));
        application::apply(&app.services, context, id, body).await
    })
    .await
}

/// `POST /api/job/{id}/release`: 202 with the job, which executes what it has withheld; 409 if that is nothing, or more.
pub async fn release_job(
    State(app): State<App>,
    may: May<permit::ReleaseWithheld>,
    once: Once,
    prefer: Prefer,
    Id(id): Id<JobId>,
    body: JsonBody,
) -> Result<Response, Failure> {
    accepted(&app, &may, &once, prefer, &body.hash, async |context| {
        release::release(&app.services, context, id, body.value).await
    })
    .await
}

/// `PUT /api/job/cancel`: cancels several; the answer says what became of each.
pub async fn cancel_jobs(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteJobs>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        bulk::cancel(&services, context, body.value).await
    })
    .await
}

/// `PUT /api/job/retry`: retries several; the answer says what became of each.
pub async fn retry_jobs(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteJobs>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        bulk::retry(&services, context, body.value).await
    })
    .await
}
