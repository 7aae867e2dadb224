//! `/api/counts`, `/api/job/activity` and `/api/worker/activity`: how much is in each state, and what was done
//! (`docs/reference/attention.md#counts`, `docs/reference/jobs.md#activity`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_http::app::App;
use longshore_http::extract::{Failure, May, Segment, permit};
use longshore_kernel::services::Services;
use longshore_operate::course::view as course;
use longshore_operate::snapshots::Snapshots;

use crate::routes::view;

/// `GET /api/counts`: as the pages of the console have them.
pub async fn read_counts(State(app): State<App>, may: May<permit::ReadQueues>) -> Result<Response, Failure> {
    Ok(view::json(app.kept::<Snapshots>().list_counts(&app.services, may.scope()).await?))
}

/// `GET /api/job/activity/{span}`.
pub async fn read_job_activity(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadJobs>,
    Segment(span): Segment,
) -> Result<Response, Failure> {
    Ok(view::json(course::jobs(&services.db, may.scope(), &span).await?))
}

/// `GET /api/worker/activity/{span}`.
pub async fn read_worker_activity(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadQueues>,
    Segment(span): Segment,
) -> Result<Response, Failure> {
    Ok(view::json(course::workers(&services.db, may.scope(), &span).await?))
}
