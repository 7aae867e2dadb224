//! `/api/queue`: the state of the queues, and the operator's wishes for them
//! (`docs/reference/jobs.md#queues`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::standing;
use longshore_domain::standing::queue;
use longshore_http::extract::{Failure, JsonBody, May, OptionalJson, Segment, permit};
use longshore_kernel::services::Services;

use crate::routes::view;

/// `GET /api/queue`: works without Redis, too.
pub async fn list_queues(
    State(services): State<Arc<Services>>,
    _may: May<permit::ReadQueues>,
) -> Result<Response, Failure> {
    Ok(view::json(standing::list(&services).await?))
}

/// `PUT /api/queue/{name}`: sets the concurrency of each worker.
pub async fn update_queue(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageQueues>,
    Segment(name): Segment,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&queue::update(&services, &may, &name, body.value).await?)?)
}

/// `PUT /api/queue/{name}/pause`: starts nothing more; running work continues. The body may be absent.
pub async fn pause_queue(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageQueues>,
    Segment(name): Segment,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    Ok(view::answer(&queue::pause(&services, &may, &name, body).await?)?)
}

/// `PUT /api/queue/{name}/resume`.
pub async fn resume_queue(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageQueues>,
    Segment(name): Segment,
) -> Result<Response, Failure> {
    Ok(view::answer(&queue::resume(&services, &may, &name).await?)?)
}
