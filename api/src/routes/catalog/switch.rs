//! Switches many products on or off: bulk operations, executed as jobs
//! (`docs/reference/jobs.md#bulk-operations`).

use axum::extract::State;
use axum::response::Response;
use longshore_http::app::App;
use longshore_http::extract::{Failure, JsonBody, May, Once, Prefer, permit};
use longshore_shared::catalog::product::switch;
use longshore_shared::job::acceptance;
use longshore_shared::job::kind::{ActivateProducts, DeactivateProducts, Job, Within};
use longshore_shared::kernel::ids::ProductId;
use longshore_shared::kernel::input::Reader;

use crate::routes::job::answer::{Patience, answer};

/// Generous room for 100,000 ids and their punctuation.
pub const BODY_LIMIT: usize = 8 * 1024 * 1024;

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
    let ids = Reader::read(body.value, acceptance::ids())?;
    let ids: Vec<ProductId> = ids.into_iter().map(ProductId::from).collect();
    let answered = once
        .answer(&app.services, may.0.clone(), &body.hash, async |context| {
            switch::accept(&app.services, context, job, ids).await
        })
        .await?;
    answer(&app, &may, answered, prefer, Patience::BULK).await
}
