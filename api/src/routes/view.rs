//! Answers of operations.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION};
use http::{HeaderValue, StatusCode};
use longshore_domain::list::fields::job::JOB;
use longshore_domain::list::resource::Resource;
use longshore_domain::list::{self, Record};
use longshore_http::app::App;
use longshore_http::extract::{Failure, IfNoneMatch, Once};
use longshore_http::fixed::not_modified;
use longshore_http::middleware::compress::StandsFor;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::{Answer, Outcome, etag};
use longshore_kernel::context::Context;
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;
use uuid::Uuid;

/// An answer from JSON text.
#[must_use]
pub fn json(text: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], Body::from(text)).into_response()
}

/// The current record of a job, if it is in the scope.
pub async fn job(app: &App, scope: &Scope, id: JobId) -> Result<Record, Problem> {
    list::find(&app.services.db.main, &JOB, scope, id).await?.ok_or_else(|| Problem::not_found(JOB.name))
}

/// The record with this id, and its version. For records whose content may differ by caller, or change
/// without a new version.
pub async fn record(
    app: &App,
    resource: &'static Resource,
    scope: &Scope,
    id: impl Into<Uuid>,
) -> Result<Response, Problem> {
    let record = find(app, resource, scope, id).await?;
    let version = HeaderValue::from_str(&etag(record.version)).map_err(Problem::internal)?;
    Ok(([(ETAG, version)], json(record.json)).into_response())
}

/// The same for records whose version changes with their content: 304 if the caller already has it.
pub async fn versioned(
    app: &App,
    resource: &'static Resource,
    scope: &Scope,
    id: impl Into<Uuid>,
    if_none_match: &IfNoneMatch,
) -> Result<Response, Problem> {
    let record = find(app, resource, scope, id).await?;
    let version = etag(record.version);
    let known = if_none_match.has(&version);
    let version = HeaderValue::from_str(&version).map_err(Problem::internal)?;
    let about = [(ETAG, version), (CACHE_CONTROL, HeaderValue::from_static("private, no-cache"))];
    if known {
        let mut unchanged = not_modified(about);
        unchanged.extensions_mut().insert(StandsFor(record.json.len()));
        return Ok(unchanged);
    }
    Ok((about, json(record.json)).into_response())
}

async fn find(
    app: &App,
    resource: &'static Resource,
    scope: &Scope,
    id: impl Into<Uuid>,
) -> Result<Record, Problem> {
    let (id, db) = (id.into(), &app.services.db.main);
    match list::find(db, resource, scope, id).await? {
        Some(record) => Ok(record),
        None => Err(tombstone::missing(db, scope, resource.name, id).await),
    }
}

/// Converts the answer of a use-case to HTTP.
pub fn answer(answer: &Answer) -> Result<Response, Problem> {
    let mut response = match &answer.body {
        Some(body) => json(body.clone()),
        None => Body::empty().into_response(),
    };
    *response.status_mut() = match answer.outcome {
        Outcome::Done => StatusCode::NO_CONTENT,
        Outcome::Shown => StatusCode::OK,
        Outcome::Created => StatusCode::CREATED,
        Outcome::Accepted => StatusCode::ACCEPTED,
    };
    let headers = [(LOCATION, &answer.location), (ETAG, &answer.etag)];
    for (name, value) in headers {
        if let Some(value) = value {
            response.headers_mut().insert(name, HeaderValue::from_str(value).map_err(Problem::internal)?);
        }
    }
    Ok(response)
}

/// Runs a use-case unless its answer is stored ([`Once::answer`]), and answers.
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
    let answered = once.answer(services, context, body_hash, use_case).await?;
    Ok(answered.mark(answer(&answered.answer)?))
}
