//! Switches and deletes many admins: all or nothing, executed as jobs
//! (`docs/reference/jobs.md#bulk-operations`).

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::admin::bulk::{self, ActivateAdmins, DeactivateAdmins, DeleteAdmins};
use longshore_domain::job::acceptance;
use longshore_domain::job::kind::{Job, Within};
use longshore_http::app::App;
use longshore_http::extract::{Failure, JsonBody, May, Once, Prefer, permit};
use longshore_kernel::ids::AdminId;

use crate::routes::job::answer::answer_when_done;
use crate::routes::job::chosen::{self, BODY_LIMIT};

/// `PUT /api/admin/activate`: an array of ids.
pub async fn activate_admins(
    app: State<App>,
    may: May<permit::WriteAdmins>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
) -> Result<Response, Failure> {
    change_admins(app, may, once, prefer, body, ActivateAdmins).await
}

/// `PUT /api/admin/deactivate`: an array of ids.
pub async fn deactivate_admins(
    app: State<App>,
    may: May<permit::WriteAdmins>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
) -> Result<Response, Failure> {
    change_admins(app, may, once, prefer, body, DeactivateAdmins).await
}

/// `PUT /api/admin/delete`: an array of ids; permanent.
pub async fn delete_admins(
    app: State<App>,
    may: May<permit::WriteAdmins>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
) -> Result<Response, Failure> {
    change_admins(app, may, once, prefer, body, DeleteAdmins).await
}

async fn change_admins<J: Job>(
    State(app): State<App>,
    may: May<permit::WriteAdmins>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
    job: fn(Within) -> J,
) -> Result<Response, Failure> {
    let answered = chosen::accept(&app, &may, &once, body, acceptance::ids(), async |context, ids| {
        let ids = ids.into_iter().map(AdminId::from).collect();
        bulk::accept(&app.services, context, job, ids).await
    })
    .await?;
    answer_when_done(&app, &may, answered, prefer).await
}
