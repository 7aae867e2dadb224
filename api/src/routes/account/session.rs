//! `/api/session`: what logins have opened (`docs/reference/accounts.md#sessions`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_shared::account::session;
use longshore_shared::list::fields::session::SESSION;
use longshore_shared::platform::services::Services;

use crate::extract::{Failure, Id, May, OptionalJson, permit};
use crate::routes::{list, view};

/// `POST /api/session/list`: one's own; a superadmin sees anybody's.
pub async fn list_sessions(
    State(services): State<Arc<Services>>,
    may: May<permit::OwnAccount>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &SESSION, &session::scope(&may.caller), body).await
}

/// `DELETE /api/session/{id}`: its tokens open nothing any more.
pub async fn end_session(
    State(services): State<Arc<Services>>,
    may: May<permit::OwnAccount>,
    Id(id): Id,
) -> Result<Response, Failure> {
    Ok(view::answer(&session::end(&services, &may, id).await?)?)
}
