//! `/api/account`: the caller's own account, after a login (`docs/reference/accounts.md#passwords`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::{own, second_factor};
use longshore_http::app::App;
use longshore_http::extract::{At, Failure, JsonBody, May, OptionalJson, permit};
use longshore_kernel::services::Services;

use crate::routes::view;

/// `PUT /api/account/password`: 200 with the tokens that live on; the other sessions end.
pub async fn change_password(
    State(services): State<Arc<Services>>,
    may: May<permit::OwnAccount>,
    At(visitor): At,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&own::change_password(&services, &may, &visitor, body.value).await?)?)
}

/// `POST /api/account/totp`: 200 with a secret, which is not in effect yet.
pub async fn set_up_totp(
    State(services): State<Arc<Services>>,
    may: May<permit::SecondFactor>,
    At(visitor): At,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    Ok(view::answer(&second_factor::set_up(&services, &may, &visitor, body).await?)?)
}

/// `PUT /api/account/totp`: 200 with the recovery codes, which are shown only once.
pub async fn switch_on_totp(
    State(app): State<App>,
    may: May<permit::SecondFactor>,
    At(visitor): At,
    body: JsonBody,
) -> Result<Response, Failure> {
    let answer = second_factor::switch_on(&app.services, &may, &visitor, body.value).await?;
    if let Some(account) = may.caller.actor.id {
        app.tokens.forget(account);
    }
    Ok(view::answer(&answer)?)
}

/// `DELETE /api/account/totp`: 204.
pub async fn remove_totp(
    State(services): State<Arc<Services>>,
    may: May<permit::SecondFactor>,
    At(visitor): At,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&second_factor::remove(&services, &may, &visitor, body.value).await?)?)
}
