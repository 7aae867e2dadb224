//! `/api/attention`: what needs attention, acknowledgements and mutes (`docs/reference/attention.md#lines`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_console::address;
use longshore_http::extract::{Failure, Id, JsonBody, May, OptionalJson, permit};
use longshore_kernel::services::Services;
use longshore_operate::attention;

use crate::routes::view;

/// `GET /api/attention`: works without Redis, too.
pub async fn list_attention(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadQueues>,
) -> Result<Response, Failure> {
    Ok(view::json(attention::list(&services, may.scope(), address::of).await?))
}

/// `PUT /api/attention/{id}/acknowledge`. The body may be absent.
pub async fn acknowledge_attention(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAttention>,
    Id(id): Id,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    Ok(view::answer(&attention::acknowledge(&services, &may, id, body).await?)?)
}

/// `PUT /api/attention/{id}/mute`.
pub async fn mute_attention(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAttention>,
    Id(id): Id,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&attention::mute(&services, &may, id, body.value).await?)?)
}

/// `DELETE /api/attention/{id}/silence`.
pub async fn end_silence(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAttention>,
    Id(id): Id,
) -> Result<Response, Failure> {
    Ok(view::answer(&attention::end(&services, &may, id).await?)?)
}
