//! Cancelling and retrying several jobs in one request, named by their ids or by criteria: what can be done is done, the rest is
//! named with its reason, or counted. Each job has its own audit record.

use serde::Serialize;
use serde_json::{Value, json};
use sqlx::Arguments as _;
use sqlx::postgres::PgArguments;
use uuid::Uuid;

use super::{end, lock_all, take_back_now};
use crate::job::chosen::{Chosen, chosen};
use crate::job::kind::JobState;
use crate::list::fields::job::JOB;
use crate::list::matching::Matching;
use crate::list::refused;
use longshore_kernel::access::Scope;
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

/// The body of a request.
pub fn body() -> impl Rule<Out = Chosen> {
    chosen(array(1..=AT_ONCE, id()), &JOB)
}

/// What is done with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Those that have not ended are cancelled.
    Cancel,
    /// Those that have ended, and not all of whose items succeeded, are retried.
    Retry,
}

impl Deed {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }

    /// The states in which it is possible.
    #[must_use]
    pub fn states(self) -> &'static [JobState] {
        match self {
            Self::Cancel => &[JobState::Receiving, JobState::Queued, JobState::Running, JobState::Retrying],
            Self::Retry => &[JobState::Failed, JobState::Succeeded],
        }
    }
}

/// Jobs that match criteria.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    /// How many match.
    pub matching: i64,
    /// Those of them with which it is possible: how many …
    pub possible: i64,
    /// … and the newest, at most [`AT_ONCE`], in the order in which it is done.
    pub ids: Vec<JobId>,
}

/// Finds the jobs that match, and what can be done with them.
pub async fn pick(
    services: &Services,
    scope: &Scope,
    deed: Deed,
    wanted: &Matching,
) -> Result<Picked, Problem> {
    let states: Vec<&str> = deed.states().iter().map(|state| state.as_str()).collect();
    let mut values = PgArguments::default();
    values.add(states).map_err(Problem::internal)?;
    values.add(i64::try_from(AT_ONCE).map_err(Problem::internal)?).map_err(Problem::internal)?;
    let before = "WITH found AS MATERIALIZED (
             SELECT {t}.id, {t}.created_at,
                    {t}.state = ANY ($1) AND ({t}.state <> 'succeeded' OR {t}.failed > 0) AS possible";
    let behind = ")
         SELECT (SELECT count(*) FROM found), (SELECT count(*) FROM found WHERE possible),
                ARRAY(SELECT id FROM found WHERE possible ORDER BY created_at DESC, id DESC LIMIT $2)";
    let mut tx = services.db.lists.transaction(None).await?;
    let found = wanted.one(&mut tx, scope, values, &[before], behind).await;
    let (matching, possible, mut ids): (i64, i64, Vec<JobId>) = found.map_err(refused)?;
    if deed == Deed::Retry {
        // a retry is a new acceptance: what is newer stays newer
        ids.reverse();
    }
    Ok(Picked { matching, possible, ids })
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

    /// What is said of it: of jobs that matched, how many are left, and of those that were tried, why.
    fn answer(&self, matching: Option<i64>) -> Result<Answer, Problem> {
        let text = match matching {
            None => serde_json::to_string(self).map_err(Problem::internal)?,
            Some(matching) => {
                let left = matching - i64::try_from(self.done.len()).map_err(Problem::internal)?;
                json!({"done": self.done, "left": left, "refused": self.left}).to_string()
            }
        };
        Ok(Answer::shown(text))
    }
}

/// The jobs of a request, and how many match where it has criteria.
async fn named(
    services: &Services,
    context: &Context,
    deed: Deed,
    body: Value,
) -> Result<(Vec<JobId>, Option<i64>), Problem> {
    match Reader::read(body, self::body())? {
        Chosen::Ids(ids) => Ok((distinct(ids), None)),
        Chosen::Matching(wanted) => {
            let picked = pick(services, context.scope(), deed, &wanted.matching).await?;
            wanted.check(picked.matching)?;
            Ok((picked.ids, Some(picked.matching)))
        }
    }
}

/// Cancels jobs (`PUT /api/job/cancel`).
pub async fn cancel(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let (ids, matching) = named(services, context, Deed::Cancel, body).await?;
    let (change, report) = cancelled(services, context, &ids).await?;
    let answer = change.answer(context.claim, report.answer(matching)?).await?;
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

/// Retries jobs (`PUT /api/job/retry`), in the order of the ids, or of their acceptance.
pub async fn retry(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let (ids, matching) = named(services, context, Deed::Retry, body).await?;
    let report = retry_all(services, context, &ids).await?;
    Change::begin(services).await?.answer(context.claim, report.answer(matching)?).await
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
