//! Answers of operations that start a job: at once, or after waiting for its end (RFC 7240).

use std::time::{Duration, Instant};

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use longshore_domain::job::item_error;
use longshore_domain::job::kind::JobState;
use longshore_domain::list::Record;
use longshore_domain::list::fields::job::JobOutcome;
use longshore_http::app::App;
use longshore_http::extract::once::Answered;
use longshore_http::extract::{Failure, Once, Prefer};
use longshore_kernel::answer::Answer;
use longshore_kernel::context::Context;
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::{CONFLICT, Problem};
use serde::Deserialize;

use crate::routes::view;

/// How long an operation waits by default, and its status if it did not wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    wait: Duration,
    at_once: StatusCode,
}

impl Patience {
    /// A bulk change of products: waits up to 10 seconds.
    pub const BULK: Self = Self { wait: Duration::from_secs(10), at_once: StatusCode::ACCEPTED };
    /// A sync: 200 with the job, at once.
    pub const SYNC: Self = Self { wait: Duration::ZERO, at_once: StatusCode::OK };
    /// A retry, a recovery, a redelivery: 202 with the job, at once.
    pub const LATER: Self = Self { wait: Duration::ZERO, at_once: StatusCode::ACCEPTED };
}

/// Answers with the accepted job: 200 if it ended in time, 202 if not.
pub async fn answer(
    app: &App,
    context: &Context,
    answered: Answered,
    prefer: Prefer,
    patience: Patience,
) -> Result<Response, Failure> {
    let (record, ended) = settle(app, context, &answered, prefer.wait(patience.wait)).await?;
    let status = if ended {
        StatusCode::OK
    } else if prefer.0.is_some() {
        StatusCode::ACCEPTED
    } else {
        patience.at_once
    };
    finish((status, view::json(record.json)).into_response(), &answered, prefer)
}

/// Has a use-case accept a job unless its answer is stored ([`Once::answer`]): 202 with the job, at once, unless the caller prefers
/// to wait.
pub async fn accepted<F>(
    app: &App,
    context: &Context,
    once: &Once,
    prefer: Prefer,
    body_hash: &[u8],
    use_case: F,
) -> Result<Response, Failure>
where
    F: AsyncFnOnce(&Context) -> Result<Answer, Problem>,
{
    let answered = once.answer(&app.services, context.clone(), body_hash, use_case).await?;
    answer(app, context, answered, prefer, Patience::LATER).await
}

/// Answers with the jobs accepted for an array, in its order: at once, or when all have ended in time.
pub async fn answer_all(
    app: &App,
    context: &Context,
    answered: Answered,
    prefer: Prefer,
) -> Result<Response, Failure> {
    let ids: Vec<JobId> =
        serde_json::from_str(answered.answer.body.as_deref().unwrap_or("[]")).map_err(Problem::internal)?;
    let end = Instant::now() + prefer.wait(Duration::ZERO);
    let (mut jobs, mut all_ended) = (Vec::with_capacity(ids.len()), true);
    for id in ids {
        let wait = end.saturating_duration_since(Instant::now());
        all_ended &= !wait.is_zero() && app.jobs.ended(id, wait).await;
        jobs.push(view::job(app, context.scope(), id).await?.json);
    }
    let status = if prefer.0.is_some() && !all_ended { StatusCode::ACCEPTED } else { StatusCode::OK };
    finish((status, view::json(format!("[{}]", jobs.join(",")))).into_response(), &answered, prefer)
}

/// How a job ended, as its caller sees it.
#[derive(Deserialize)]
struct End {
    state: JobState,
    error: Option<String>,
}

/// Answers for an operation that is all or nothing: 204 if its job succeeded in time, 409 if it was refused,
/// and 202 with the job if it has not ended.
pub async fn answer_when_done(
    app: &App,
    context: &Context,
    answered: Answered,
    prefer: Prefer,
) -> Result<Response, Failure> {
    let (record, ended) = settle(app, context, &answered, prefer.wait(Patience::BULK.wait)).await?;
    if !ended {
        return finish((StatusCode::ACCEPTED, view::json(record.json)).into_response(), &answered, prefer);
    }
    let end: End = serde_json::from_str(&record.json).map_err(Problem::internal)?;
    if end.state != JobState::Succeeded {
        let reason = end.error.unwrap_or_else(|| format!("the job is {}", end.state));
        return Err(Problem::new(&CONFLICT, reason).into());
    }
    finish(StatusCode::NO_CONTENT.into_response(), &answered, prefer)
}

/// Answers for an operation on many records: 204 if all was done in time, 200 with the job if items were refused or it was only
/// tried, and 202 with the job if it has not ended.
pub async fn answer_unless_refused(
    app: &App,
    context: &Context,
    answered: Answered,
    prefer: Prefer,
) -> Result<Response, Failure> {
    #[derive(Deserialize)]
    struct Job {
        outcome: Option<JobOutcome>,
        of: Option<String>,
    }
    let (record, ended) = settle(app, context, &answered, prefer.wait(Patience::BULK.wait)).await?;
    if !ended {
        return finish((StatusCode::ACCEPTED, view::json(record.json)).into_response(), &answered, prefer);
    }
    let job: Job = serde_json::from_str(&record.json).map_err(Problem::internal)?;
    if job.outcome == Some(JobOutcome::Complete) && job.of.is_none() {
        return finish(StatusCode::NO_CONTENT.into_response(), &answered, prefer);
    }
    finish(view::json(record.json), &answered, prefer)
}

/// Reports that are done within the request, and item errors in its answer.
pub const AT_ONCE: i64 = 100;

/// Answers for reports of a warehouse, whose role reads no jobs: the job, with its first item errors. A few reports are waited
/// for.
pub async fn answer_news(
    app: &App,
    context: &Context,
    answered: Answered,
    prefer: Prefer,
) -> Result<Response, Failure> {
    #[derive(Deserialize)]
    struct Job {
        id: JobId,
        state: JobState,
        progress: Progress,
    }
    #[derive(Deserialize)]
    struct Progress {
        total: i64,
    }
    let read = |record: &Record| serde_json::from_str::<Job>(&record.json).map_err(Problem::internal);
    let (mut record, _) = settle(app, context, &answered, Duration::ZERO).await?;
    let mut job = read(&record)?;
    if !job.state.is_ended() {
        let few = if job.progress.total <= AT_ONCE { Patience::BULK.wait } else { Duration::ZERO };
        (record, _) = settle(app, context, &answered, prefer.wait(few)).await?;
        job = read(&record)?;
    }
    let errors = item_error::first(&app.services, job.id, AT_ONCE).await?;
    let errors = serde_json::to_string(&errors).map_err(Problem::internal)?;
    let body = record.json.strip_suffix('}').ok_or_else(|| Problem::internal("a record is an object"))?;
    let status = if job.state.is_ended() { StatusCode::OK } else { StatusCode::ACCEPTED };
    finish((status, view::json(format!("{body},\"errors\":{errors}}}"))).into_response(), &answered, prefer)
}

/// Waits for a job; returns its record after the wait, and whether it has ended.
async fn settle(
    app: &App,
    context: &Context,
    answered: &Answered,
    wait: Duration,
) -> Result<(Record, bool), Failure> {
    let job = answered
        .answer
        .job
        .ok_or_else(|| Problem::internal("the response does not contain the accepted job"))?;
    let ended = !wait.is_zero() && app.jobs.ended(job, wait).await;
    Ok((view::job(app, context.scope(), job).await?, ended))
}

fn finish(mut response: Response, answered: &Answered, prefer: Prefer) -> Result<Response, Failure> {
    let headers = response.headers_mut();
    if let Some(location) = &answered.answer.location {
        headers.insert(http::header::LOCATION, HeaderValue::from_str(location).map_err(Problem::internal)?);
    }
    if let Some(applied) = prefer.applied() {
        let applied = HeaderValue::from_str(&applied).map_err(Problem::internal)?;
        headers.insert(HeaderName::from_static("preference-applied"), applied);
    }
    Ok(answered.mark(response))
}
