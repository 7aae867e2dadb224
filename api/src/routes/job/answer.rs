//! How an operation that started a job answers: at once, or after waiting for its end (RFC 7240).

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use longshore_shared::platform::context::Context;
use longshore_shared::platform::problem::Problem;

use crate::app::App;
use crate::extract::once::Told;
use crate::extract::{Failure, Prefer};
use crate::routes::view;

/// How long an operation waits by itself, and what it answers when it did not wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    wait: Duration,
    at_once: StatusCode,
}

impl Patience {
    /// A bulk change of products: waits up to 10 seconds.
    pub const BULK: Self = Self { wait: Duration::from_secs(10), at_once: StatusCode::ACCEPTED };
    /// A sync: the specified 200 with the job, at once.
    pub const SYNC: Self = Self { wait: Duration::ZERO, at_once: StatusCode::OK };
    /// A retry: 202 with the job, at once.
    pub const RETRY: Self = Self { wait: Duration::ZERO, at_once: StatusCode::ACCEPTED };
}

/// Answers with the job that was accepted: 200 when it has ended in time, 202 when it has not.
pub async fn answer(
    app: &App,
    context: &Context,
    told: Told,
    prefer: Prefer,
    patience: Patience,
) -> Result<Response, Failure> {
    let job = told.answer.job.ok_or_else(|| Problem::internal("an accepted job is not in its answer"))?;
    let wait = prefer.wait(patience.wait);
    let ended = !wait.is_zero() && app.jobs.ended(job, wait).await;
    let status = if ended {
        StatusCode::OK
    } else if prefer.0.is_some() {
        StatusCode::ACCEPTED
    } else {
        patience.at_once
    };
    let record = view::job(app, context.scope(), job).await?;
    let mut response = (status, view::json(record.json)).into_response();
    let headers = response.headers_mut();
    if let Some(location) = &told.answer.location {
        headers.insert(http::header::LOCATION, HeaderValue::from_str(location).map_err(Problem::internal)?);
    }
    if let Some(applied) = prefer.applied() {
        let applied = HeaderValue::from_str(&applied).map_err(Problem::internal)?;
        headers.insert(HeaderName::from_static("preference-applied"), applied);
    }
    Ok(told.mark(response))
}
