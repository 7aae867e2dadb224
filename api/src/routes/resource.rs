//! Creates and updates records through the common flow of `longshore_domain::record`.

use axum::response::Response;
use longshore_domain::record::{self, Editable};
use longshore_http::extract::{Failure, IfMatch, JsonBody, Once};
use longshore_kernel::context::Context;
use longshore_kernel::services::Services;
use uuid::Uuid;

use super::view;

/// 201 with the record, executed once for each idempotency key.
pub async fn create<R: Editable>(
    services: &Services,
    context: &Context,
    once: &Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(once, services, context.clone(), &body.hash, async |context| {
        record::create::<R>(services, context, body.value).await
    })
    .await
}

/// 200 with the record.
pub async fn update<R: Editable>(
    services: &Services,
    context: &Context,
    id: Uuid,
    if_match: &IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&record::update::<R>(services, context, id, body.value, check).await?)?)
}
