//! Cancelling and retrying several jobs in one request: what can be done is done, the rest is named with its reason. Each job has
//! its own audit record.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::{end, lock_all, take_back_now};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::JobId;
use longshore_kernel::input::{Reader, Rule, array, id};
use longshore_kernel::problem::{CONFLICT, Kind, NOT_FOUND, Problem, SHARE_USED};
use longshore_kernel::services::Services;

/// Jobs of one request.
pub const AT_ONCE: usize = 500;

/// Why a job is left: it is not there, its state does not allow it, or its organisation has no room for one more.
static REASONS: [&Kind; 3] = [&NOT_FOUND, &CONFLICT, &SHARE_USED];

/// Their codes.
#[must_use]
pub fn codes() -> [&'static str; 3] {
    REASONS.map(|reason| reason.code)
}

/// The ids of a request.
pub fn ids() -> impl Rule<Out = Vec<Uuid>> {
    array(1..=AT_ONCE, id())
}

/// What became of the jobs of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Those that were changed.
    pub done: Vec<JobId>,
    /// Those that were left as they are.
    pub left: Vec<Left>,
}

/// A job that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The job.
    pub id: JobId,
    /// One of [`codes`].
    pub code: &'static str,
    /// Why, for people.
    pub message: String,
}

impl Report {
    fn leave(&mut self, id: JobId, problem: &Problem) {
        self.left.push(Left { id, code: problem.kind().code, message: problem.detail().to_owned() });
    }

    fn answer(&self) -> Result<Answer, Problem> {
        Ok(Answer::shown(serde_json::to_string(self).map_err(Problem::internal)?))
    }
}

/// Cancels jobs (`PUT /api/job/cancel`).
pub async fn cancel(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let ids = distinct(Reader::read(body, ids())?);
    let (change, report) = cancelled(services, context, &ids).await?;
    let answer = change.answer(context.claim, report.answer()?).await?;
    take_back_now(&services.db.main, &report.done).await;
    Ok(answer)
}

/// The same for ids that were found.
pub async fn cancel_all(services: &Services, context: &Context, ids: &[JobId]) -> Result<Report, Problem> {
    let (change, report) = cancelled(services, context, ids).await?;
    change.commit().await?;
    take_back_now(&services.db.main, &report.done).await;
    Ok(report)
}

async fn cancelled<'s>(
    services: &'s Services,
    context: &Context,
    ids: &[JobId],
) -> Result<(Change<'s>, Report), Problem> {
    let mut change = Change::begin(services).await?;
    let found = lock_all(change.connection(), context.scope(), ids).await?;
    let mut report = Report::default();
    for id in ids {
        match found.iter().find(|job| job.id == *id) {
            Some(job) if !job.state.is_ended() => report.done.push(*id),
            Some(job) => report.leave(*id, &Problem::new(&CONFLICT, job.has_ended())),
            None => report.leave(*id, &Problem::not_found("job")),
        }
    }
    let open: Vec<_> = found.into_iter().filter(|job| !job.state.is_ended()).collect();
    if !open.is_empty() {
        end(&mut change, &context.origin, &open, None).await?;
    }
    Ok((change, report))
}

/// Retries jobs (`PUT /api/job/retry`), in the order of the ids.
pub async fn retry(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let ids = distinct(Reader::read(body, ids())?);
    let report = retry_all(services, context, &ids).await?;
    Change::begin(services).await?.answer(context.claim, report.answer()?).await
}

/// The same for ids that were found: each in its own transaction, like a retry of that job.
pub async fn retry_all(services: &Services, context: &Context, ids: &[JobId]) -> Result<Report, Problem> {
    // the answer to the key is the report
    let context = Context { claim: None, ..context.clone() };
    let mut report = Report::default();
    for id in ids {
        match super::retry(services, &context, *id).await {
            Ok(_) => report.done.push(*id),
            Err(problem) if REASONS.iter().any(|reason| std::ptr::eq(*reason, problem.kind())) => {
                report.leave(*id, &problem);
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(report)
}

fn distinct(ids: Vec<Uuid>) -> Vec<JobId> {
    let mut distinct: Vec<JobId> = Vec::with_capacity(ids.len());
    for id in ids.into_iter().map(JobId::from) {
        if !distinct.contains(&id) {
            distinct.push(id);
        }
    }
    distinct
}
