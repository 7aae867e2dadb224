//! `/api/queue`: how the queues stand, and what the operator wishes of them (`docs/reference/jobs.md#queues`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_shared::operate::standing;
use longshore_shared::platform::queue::control;
use longshore_shared::platform::services::Services;

use crate::extract::{Failure, JsonBody, May, Segment, permit};
use crate::routes::view;

/// `GET /api/queue`: also while Redis is away.
pub async fn list_queues(
    State(services): State<Arc<Services>>,
    _may: May<permit::ReadQueues>,
) -> Result<Response, Failure> {
    Ok(view::json(standing::list(&services).await?))
}

/// `PUT /api/queue/{name}`: how much each worker runs at once.
pub async fn update_queue(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageQueues>,
    Segment(name): Segment,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&control::update(&services, &may, &name, body.value).await?)?)
}

/// `PUT /api/queue/{name}/pause`: nothing is begun any more; what runs goes on.
pub async fn pause_queue(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageQueues>,
    Segment(name): Segment,
) -> Result<Response, Failure> {
    Ok(view::answer(&control::set_paused(&services, &may, &name, true).await?)?)
}

/// `PUT /api/queue/{name}/resume`.
pub async fn resume_queue(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageQueues>,
    Segment(name): Segment,
) -> Result<Response, Failure> {
    Ok(view::answer(&control::set_paused(&services, &may, &name, false).await?)?)
}
