//! `/api/business-user`: the accounts of people who work in an organisation
//! (`docs/reference/accounts.md#business-users`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::business_user;
use longshore_domain::list::fields::business_user::BUSINESS_USER;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, ListRequest, May, Once, permit};
use longshore_kernel::ids::BusinessUserId;
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/business-user`: 201 with the record.
pub async fn create_business_user(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteBusinessUsers>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    let hash = business_user::body_hash(&body.value);
    view::once(&once, &services, may.0, &hash, async |context| {
        business_user::create(&services, context, body.value).await
    })
    .await
}

/// `GET /api/business-user/{id}`.
pub async fn get_business_user(
    State(app): State<App>,
    may: May<permit::ReadBusinessUsers>,
    Id(id): Id<BusinessUserId>,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &BUSINESS_USER, may.scope(), id, &if_none_match).await?)
}

/// `POST /api/business-user/list`.
pub async fn list_business_users(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadBusinessUsers>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &BUSINESS_USER, may.scope(), asked).await
}

/// `PUT /api/business-user/{id}`: changes the given fields.
pub async fn update_business_user(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteBusinessUsers>,
    Id(id): Id<BusinessUserId>,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&business_user::update(&services, &may, id, body.value, check).await?)?)
}

/// `PUT /api/business-user/activate/{id}`: 204.
pub async fn activate_business_user(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteBusinessUsers>,
    Id(id): Id<BusinessUserId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&business_user::set_active(&services, &may, id, true).await?)?)
}

/// `PUT /api/business-user/deactivate/{id}`: 204; its sessions end.
pub async fn deactivate_business_user(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteBusinessUsers>,
    Id(id): Id<BusinessUserId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&business_user::set_active(&services, &may, id, false).await?)?)
}

/// `DELETE /api/business-user/{id}`: permanent.
pub async fn delete_business_user(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteBusinessUsers>,
    Id(id): Id<BusinessUserId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&business_user::delete(&services, &may, id).await?)?)
}
