//! What operations answer with.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, LOCATION};
use http::{HeaderValue, StatusCode};
use longshore_shared::account::access::Scope;
use longshore_shared::job::fields::JOB;
use longshore_shared::list::resource::Resource;
use longshore_shared::list::{self, Record};
use longshore_shared::platform::answer::{Answer, etag};
use longshore_shared::platform::context::Context;
use longshore_shared::platform::problem::Problem;
use longshore_shared::platform::services::Services;
use longshore_shared::platform::tombstone;
use uuid::Uuid;

use crate::app::App;
use crate::extract::{Failure, Once};

/// JSON that is text already.
#[must_use]
pub fn json(text: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], Body::from(text)).into_response()
}

/// A job as it stands, if it is in the scope.
pub async fn job(app: &App, scope: &Scope, id: Uuid) -> Result<Record, Problem> {
    list::find(&app.services.db.main, &JOB, scope, id).await?.ok_or_else(|| Problem::not_found(JOB.name))
}

/// The one record of that id, with its version.
pub async fn record(
    app: &App,
    resource: &'static Resource,
    scope: &Scope,
    id: Uuid,
) -> Result<Response, Problem> {
    let db = &app.services.db.main;
    let Some(record) = list::find(db, resource, scope, id).await? else {
        return Err(tombstone::missing(db, scope, resource.name, id).await);
    };
    let version = HeaderValue::from_str(&etag(record.changed_at)).map_err(Problem::internal)?;
    Ok(([(ETAG, version)], json(record.json)).into_response())
}

/// The answer of a use-case as HTTP.
pub fn answer(answer: &Answer) -> Result<Response, Problem> {
    let mut response = match &answer.body {
        Some(body) => json(body.clone()),
        None => Body::empty().into_response(),
    };
    *response.status_mut() = StatusCode::from_u16(answer.status).map_err(Problem::internal)?;
    let headers = [(LOCATION, &answer.location), (ETAG, &answer.etag)];
    for (name, value) in headers {
        if let Some(value) = value {
            response.headers_mut().insert(name, HeaderValue::from_str(value).map_err(Problem::internal)?);
        }
    }
    Ok(response)
}

/// Runs a use-case unless its answer is known already ([`Once::answer`]), and answers.
pub async fn once<F>(
    once: &Once,
    services: &Services,
    context: Context,
    body_hash: &[u8],
    use_case: F,
) -> Result<Response, Failure>
where
    F: AsyncFnOnce(&Context) -> Result<Answer, Problem>,
{
    let told = once.answer(services, context, body_hash, use_case).await?;
    Ok(told.mark(answer(&told.answer)?))
}
