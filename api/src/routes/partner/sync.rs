//! The sync operations. The push form contains rows, as JSON, or as NDJSON or CSV of any length; the pull form
//! names what the worker should fetch.

use axum::extract::{Request, State};
use axum::response::Response;
use longshore_domain::partner::push::Push;
use longshore_http::app::App;
use longshore_http::extract::{Failure, May, Once, Prefer, permit};
use longshore_http::intake;
use longshore_kernel::context::Context;

use crate::routes::job::answer::{Patience, answer, answer_all, answer_news};

/// `POST /api/partner-integration/eshop/sync/products`.
pub async fn sync_products(
    State(app): State<App>,
    may: May<permit::WriteJobs>,
    once: Once,
    prefer: Prefer,
    request: Request,
) -> Result<Response, Failure> {
    receive(&app, may.0, &once, prefer, request, Push::Products).await
}

/// `POST /api/partner-integration/eshop/sync/product-stocks`.
pub async fn sync_product_stocks(
    State(app): State<App>,
    may: May<permit::WriteJobs>,
    once: Once,
    prefer: Prefer,
    request: Request,
) -> Result<Response, Failure> {
    receive(&app, may.0, &once, prefer, request, Push::Stocks).await
}

/// `POST /api/partner-integration/eshop/sync/expeditions`.
pub async fn sync_expeditions(
    State(app): State<App>,
    may: May<permit::WriteExpeditions>,
    once: Once,
    prefer: Prefer,
    request: Request,
) -> Result<Response, Failure> {
    receive(&app, may.0, &once, prefer, request, Push::Expeditions).await
}

/// `POST /api/partner-integration/wms/sync/news`.
pub async fn sync_news(
    State(app): State<App>,
    may: May<permit::SendNews>,
    once: Once,
    prefer: Prefer,
    request: Request,
) -> Result<Response, Failure> {
    receive(&app, may.0, &once, prefer, request, Push::News).await
}

async fn receive(
    app: &App,
    context: Context,
    once: &Once,
    prefer: Prefer,
    request: Request,
    push: Push,
) -> Result<Response, Failure> {
    let answered = intake::receive(app, &context, once, request, push).await?;
    if answered.answer.job.is_none() {
        return answer_all(app, &context, answered, prefer).await;
    }
    if push == Push::News {
        return answer_news(app, &context, answered, prefer).await;
    }
    answer(app, &context, answered, prefer, Patience::SYNC).await
}
