//! `/api/access-token`: tokens for connectors and scripts (`docs/reference/accounts.md#access-tokens`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::person;
use longshore_domain::account::token::issue;
use longshore_domain::list::fields::token::ACCESS_TOKEN;
use longshore_http::app::App;
use longshore_http::extract::{At, Failure, Id, JsonBody, ListRequest, May, Once, permit};
use longshore_kernel::ids::TokenId;
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/access-token`: the only answer that contains the token.
pub async fn create_access_token(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageTokens>,
    At(visitor): At,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    let hash = person::body_hash(&body.value);
    view::once(&once, &services, may.0, &hash, async |context| {
        issue::issue(&services, context, &visitor, body.value).await
    })
    .await
}

/// `GET /api/access-token/{id}`: the record, without the token.
pub async fn get_access_token(
    State(app): State<App>,
    may: May<permit::ManageTokens>,
    Id(id): Id<TokenId>,
) -> Result<Response, Failure> {
    Ok(view::record(&app, &ACCESS_TOKEN, may.scope(), id).await?)
}

/// `POST /api/access-token/list`.
pub async fn list_access_tokens(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageTokens>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &ACCESS_TOKEN, may.scope(), asked).await
}

/// `DELETE /api/access-token/{id}`: revokes it.
pub async fn delete_access_token(
    State(services): State<Arc<Services>>,
    may: May<permit::ManageTokens>,
    Id(id): Id<TokenId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&issue::delete(&services, &may, id).await?)?)
}
