//! Reading jobs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::audit::CHANGE;
use longshore_domain::list::fields::job::JOB;
use longshore_domain::list::fields::preview::PREVIEW;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, ListRequest, May, WaitFor, permit};
use longshore_kernel::ids::JobId;
use longshore_kernel::services::Services;
use serde_json::json;

use crate::routes::{list, view};

/// `POST /api/job/list`.
pub async fn list_jobs(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadJobs>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &JOB, may.scope(), asked).await
}

/// `GET /api/job/{id}`: with `?wait=`, when the job has ended, the time is over, or the process stops.
pub async fn get_job(
    State(app): State<App>,
    may: May<permit::ReadJobs>,
    WaitFor(time): WaitFor,
    Id(id): Id<JobId>,
) -> Result<Response, Failure> {
    if !time.is_zero() {
        // nobody waits for what is not there
        view::job(&app, may.scope(), id).await?;
        app.closing.run_until_cancelled(app.jobs.ended(id, time)).await;
    }
    Ok(view::record(&app, &JOB, may.scope(), id).await?)
}

/// `POST /api/job/{id}/change/list`: what the job changed.
pub async fn list_changes(
    State(app): State<App>,
    may: May<permit::ReadJobs>,
    Id(id): Id<JobId>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    view::job(&app, may.scope(), id).await?;
    // its own states are no change that it made
    let within = json!({"job": {"eq": id}, "entity.type": {"neq": "job"}});
    list::answer_within(&app.services, &CHANGE, may.scope(), within, asked).await
}

/// `POST /api/job/{id}/preview/list`: what a dry run would do to its items.
pub async fn list_previewed_items(
    State(app): State<App>,
    may: May<permit::ReadJobs>,
    Id(id): Id<JobId>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    view::job(&app, may.scope(), id).await?;
    list::answer_within(&app.services, &PREVIEW, may.scope(), json!({"job": {"eq": id}}), asked).await
}
