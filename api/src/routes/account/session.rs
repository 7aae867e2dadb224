//! `/api/session`: sessions of logins (`docs/reference/accounts.md#sessions`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::session;
use longshore_domain::list::fields::session::SESSION;
use longshore_http::extract::{Failure, Id, ListRequest, May, permit};
use longshore_kernel::ids::SessionId;
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/session/list`: the caller's own; a superadmin sees all.
pub async fn list_sessions(
    State(services): State<Arc<Services>>,
    may: May<permit::OwnAccount>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &SESSION, &session::scope(&may.caller), asked).await
}

/// `DELETE /api/session/{id}`: revokes its tokens.
pub async fn end_session(
    State(services): State<Arc<Services>>,
    may: May<permit::OwnAccount>,
    Id(id): Id<SessionId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&session::end(&services, &may, id).await?)?)
}
