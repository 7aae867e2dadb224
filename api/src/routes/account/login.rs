//! Logins: a token for an address and a password (`docs/reference/accounts.md#login`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::login;
use longshore_domain::account::visitor::Door;
use longshore_http::extract::login::Fields;
use longshore_http::extract::may::MayRefresh;
use longshore_http::extract::{At, Failure, May, permit};
use longshore_kernel::services::Services;

use crate::routes::view;

/// `POST /api/login/admin`: 200 with a token.
pub async fn login_admin(
    State(services): State<Arc<Services>>,
    At(visitor): At,
    fields: Fields,
) -> Result<Response, Failure> {
    Ok(view::answer(&login::login(&services, Door::Admin, &visitor, fields.required()?).await?)?)
}

/// `POST /api/login/user`: 200 with a token.
pub async fn login_user(
    State(services): State<Arc<Services>>,
    At(visitor): At,
    fields: Fields,
) -> Result<Response, Failure> {
    Ok(view::answer(&login::login(&services, Door::BusinessUser, &visitor, fields.required()?).await?)?)
}

/// `POST /api/refresh-token`: 200 with another token.
pub async fn refresh_token(
    State(services): State<Arc<Services>>,
    MayRefresh(context): MayRefresh,
) -> Result<Response, Failure> {
    Ok(view::answer(&login::refresh(&services, &context).await?)?)
}

/// `POST /api/logout`: 204, the session has ended.
pub async fn logout(
    State(services): State<Arc<Services>>,
    may: May<permit::OwnAccount>,
) -> Result<Response, Failure> {
    Ok(view::answer(&login::logout(&services, &may).await?)?)
}
