//! `/api/admin`: the accounts of people who run the service (`docs/reference/accounts.md#admins`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::{admin, second_factor};
use longshore_domain::list::fields::admin::ADMIN;
use longshore_http::app::App;
use longshore_http::extract::{
    Failure, Id, Ids, IfMatch, IfNoneMatch, JsonBody, ListRequest, May, Once, permit,
};
use longshore_kernel::ids::{AdminId, OrganisationId};
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/admin`: 201 with the record.
pub async fn create_admin(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    let hash = admin::body_hash(&body.value);
    view::once(&once, &services, may.0, &hash, async |context| {
        admin::create(&services, context, body.value).await
    })
    .await
}

/// `GET /api/admin/{id}`.
pub async fn get_admin(
    State(app): State<App>,
    may: May<permit::ReadAdmins>,
    Id(id): Id<AdminId>,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &ADMIN, may.scope(), id, &if_none_match).await?)
}

/// `POST /api/admin/list`.
pub async fn list_admins(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadAdmins>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &ADMIN, may.scope(), asked).await
}

/// `PUT /api/admin/{id}`: changes the given fields.
pub async fn update_admin(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    Id(id): Id<AdminId>,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&admin::update(&services, &may, id, body.value, check).await?)?)
}

/// `DELETE /api/admin/{id}`: permanent.
pub async fn delete_admin(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    Id(id): Id<AdminId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&admin::delete(&services, &may, id).await?)?)
}

/// `PUT /api/admin/activate/{id}`: 204.
pub async fn activate_admin(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    Id(id): Id<AdminId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&admin::set_active(&services, &may, id, true).await?)?)
}

/// `PUT /api/admin/deactivate/{id}`: 204; its tokens are revoked.
pub async fn deactivate_admin(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    Id(id): Id<AdminId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&admin::set_active(&services, &may, id, false).await?)?)
}

/// `PUT /api/admin/{id}/preferences`: replaces them completely.
pub async fn set_admin_preferences(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    Id(id): Id<AdminId>,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&admin::set_preferences(&services, &may, id, body.value, check).await?)?)
}

/// `PUT /api/admin/{id}/organisation/{orgId}`: 204, the admin was added.
pub async fn add_admin_to_organisation(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    Ids(id, organisation): Ids<AdminId, OrganisationId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&admin::join(&services, &may, id, organisation).await?)?)
}

/// `DELETE /api/admin/{id}/organisation/{orgId}`: 204, the admin was removed.
pub async fn remove_admin_from_organisation(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    Ids(id, organisation): Ids<AdminId, OrganisationId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&admin::leave(&services, &may, id, organisation).await?)?)
}

/// `DELETE /api/admin/{id}/totp`: 204, the second factor was removed.
pub async fn remove_admin_totp(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdmins>,
    Id(id): Id<AdminId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&second_factor::remove_of(&services, &may, id).await?)?)
}
