//! Logins: a token for an address and a password (decisions, section 3).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_shared::account::login::{self, Door};
use longshore_shared::platform::services::Services;

use crate::extract::{At, Failure, JsonBody, May, permit};
use crate::routes::view;

/// `POST /api/login/admin`: 200 with a token.
pub async fn login_admin(
    State(services): State<Arc<Services>>,
    At(visitor): At,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&login::login(&services, Door::Admin, &visitor, body.value).await?)?)
}

/// `POST /api/login/user`: 200 with a token.
pub async fn login_user(
    State(services): State<Arc<Services>>,
    At(visitor): At,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&login::login(&services, Door::BusinessUser, &visitor, body.value).await?)?)
}

/// `POST /api/refresh-token`: 200 with another token.
pub async fn refresh_token(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
) -> Result<Response, Failure> {
    Ok(view::answer(&login::refresh(&services, &may).await?)?)
}

/// `POST /api/logout`: 204, the token is revoked.
pub async fn logout(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
) -> Result<Response, Failure> {
    Ok(view::answer(&login::logout(&services, &may).await?)?)
}
