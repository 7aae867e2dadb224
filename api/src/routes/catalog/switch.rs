//! Switches many products on or off: bulk operations, executed as jobs
//! (`docs/reference/jobs.md#bulk-operations`).

use axum::extract::State;
use axum::response::Response;
use longshore_domain::catalog::product::switch;
use longshore_domain::job::kind::{ActivateProducts, DeactivateProducts, Job, Within};
use longshore_http::app::App;
use longshore_http::extract::{Failure, JsonBody, May, Once, Prefer, permit};
use longshore_kernel::ids::ProductId;

use crate::routes::job::answer::{Patience, answer};
use crate::routes::job::ids::{self, BODY_LIMIT};

/// `PUT /api/product/activate`: an array of ids.
pub async fn activate_products(
    app: State<App>,
    may: May<permit::WriteProducts>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
) -> Result<Response, Failure> {
    switch_products(app, may, once, prefer, body, ActivateProducts).await
}

/// `PUT /api/product/deactivate`: an array of ids.
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
    job: impl FnOnce(Within) -> J,
) -> Result<Response, Failure> {
    let answered = ids::accept(&app, &may, &once, body, async |context, ids: Vec<ProductId>| {
        switch::accept(&app.services, context, job, ids).await
    })
    .await?;
    answer(&app, &may, answered, prefer, Patience::BULK).await
}
