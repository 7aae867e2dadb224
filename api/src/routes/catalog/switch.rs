//! Switches many products on or off: bulk operations, executed as jobs
//! (`docs/reference/jobs.md#bulk-operations`).

use axum::extract::State;
use axum::response::Response;
use longshore_domain::catalog::product::switch;
use longshore_domain::job::kind::{ActivateProducts, DeactivateProducts, Job, Within};
use longshore_http::app::App;
use longshore_http::extract::{Failure, JsonBody, May, Once, Prefer, permit};

use crate::routes::job::answer::{Patience, answer};
use crate::routes::job::chosen::{self, BODY_LIMIT};

/// `PUT /api/product/activate`.
pub async fn activate_products(
    app: State<App>,
    may: May<permit::WriteProducts>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
) -> Result<Response, Failure> {
    switch_products(app, may, once, prefer, body, ActivateProducts).await
}

/// `PUT /api/product/deactivate`.
pub async fn deactivate_products(
    app: State<App>,
    may: May<permit::WriteProducts>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
) -> Result<Response, Failure> {
    switch_products(app, may, once, prefer, body, DeactivateProducts).await
}

async fn switch_products<J: Job>(
    State(app): State<App>,
    may: May<permit::WriteProducts>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
    job: impl Fn(Within) -> J,
) -> Result<Response, Failure> {
    let answered = chosen::accept(&app, &may, &once, body, switch::body(), async |context, chosen| {
        switch::accept(&app.services, context, job, chosen).await
    })
    .await?;
    answer(&app, &may, answered, prefer, Patience::BULK).await
}
