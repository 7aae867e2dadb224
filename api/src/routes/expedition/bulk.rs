//! Operations on many orders, which become jobs.

use axum::extract::State;
use axum::response::Response;
use longshore_domain::expedition::bulk;
use longshore_domain::job::kind::{
    CancelExpeditions, Job, ProcessExpeditions, RollBackExpeditions, SendExpeditions, Within,
};
use longshore_http::app::App;
use longshore_http::extract::{Failure, JsonBody, May, Once, Prefer, permit};

use crate::routes::job::answer::answer_unless_refused;
use crate::routes::job::chosen::{self, BODY_LIMIT};

type Write = May<permit::WriteExpeditions>;
type Body = JsonBody<BODY_LIMIT>;

/// `PUT /api/expedition/send`.
pub async fn send_expeditions(
    app: State<App>,
    may: Write,
    once: Once,
    prefer: Prefer,
    body: Body,
) -> Result<Response, Failure> {
    accept(app, may, once, prefer, body, SendExpeditions).await
}

/// `PUT /api/expedition/process`.
pub async fn process_expeditions(
    app: State<App>,
    may: Write,
    once: Once,
    prefer: Prefer,
    body: Body,
) -> Result<Response, Failure> {
    accept(app, may, once, prefer, body, ProcessExpeditions).await
}

/// `PUT /api/expedition/cancel`.
pub async fn cancel_expeditions(
    app: State<App>,
    may: Write,
    once: Once,
    prefer: Prefer,
    body: Body,
) -> Result<Response, Failure> {
    accept(app, may, once, prefer, body, CancelExpeditions).await
}

/// `PUT /api/expedition/rollback`.
pub async fn roll_back_expeditions(
    app: State<App>,
    may: Write,
    once: Once,
    prefer: Prefer,
    body: Body,
) -> Result<Response, Failure> {
    accept(app, may, once, prefer, body, RollBackExpeditions).await
}

async fn accept<J: Job>(
    State(app): State<App>,
    may: Write,
    once: Once,
    prefer: Prefer,
    body: Body,
    job: impl Fn(Within) -> J,
) -> Result<Response, Failure> {
    let answered = chosen::accept(&app, &may, &once, body, bulk::body(), async |context, chosen| {
        bulk::accept(&app.services, context, job, chosen).await
    })
    .await?;
    answer_unless_refused(&app, &may, answered, prefer).await
}
