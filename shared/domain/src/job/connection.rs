//! Jobs that test a connection (`docs/reference/jobs.md#connection-tests`): one call that changes nothing, of the partner of an
//! e-shop or of the system of a warehouse, and what it came to.
//!
//! The api makes no calls, so a test is a job: it is accepted with the audit record of who asked, a worker makes the call with the
//! guarded client and the stored credentials, and its result is kept with the job. It is in no line, waits for no sync, and is
//! not repeated: what fails is the result. The one item of the job is the connection: unchanged where it works, failed where not.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::chunk::{Claim, Count};
use super::dispatch;
use super::entry::{self, NewJob};
use super::execution;
use super::kind::{Job, JobKind, JobState, Stored};
use super::name::{CALLING, chunk_name};
use super::room;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::database::Database;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::record_change;

/// What a test found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the connection works.
    pub works: bool,
    /// What happened, in a sentence for an operator.
    pub message: String,
    /// How long that took.
    pub took: Duration,
}

/// A setting whose connection is tested.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its entity type and id, in the audit.
    pub(crate) entity: (&'static str, Uuid),
    /// What it is the setting of, and whose that is.
    pub(crate) of: Uuid,
    pub(crate) organisation: OrganisationId,
    pub(crate) eshop: Option<EshopId>,
}

/// Accepts a test of a setting that the caller has locked, or answers with the one that waits for its call; audits who asked.
pub(crate) async fn accept<J: Job>(
    mut change: Change<'_>,
    context: &Context,
    job: &J,
    setting: Setting,
) -> Result<Answer, Problem> {
    let job = job_of(&mut change, &context.origin, job, &setting).await?;
    let (entity, id) = setting.entity;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        &format!("{entity}.test"),
        entity,
        None,
        "WITH changed AS (
             SELECT $9::uuid AS entity, $10::uuid AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('test', jsonb_build_array(NULL, $11::uuid)) AS changes, '{}'::jsonb AS data
         )",
        id,
        setting.organisation.get(),
        job.get(),
    )
    .await?;
    change.note(recorded);
    change.answer(context.claim, Answer::accepted_job(job)).await
}

/// The test that waits for its call, or a new one.
async fn job_of<J: Job>(
    change: &mut Change<'_>,
    origin: &Origin,
    job: &J,
    setting: &Setting,
) -> Result<JobId, Problem> {
    let (tested, organisation) = (setting.of.to_string(), setting.organisation);
    let services = change.services();
    let tx = change.connection();
    if let Some(waiting) = waiting(tx, J::KIND, &tested).await? {
        return Ok(waiting);
    }
    room::make(tx, services, Some(organisation)).await?;
    let job = NewJob {
        id: JobId::new(),
        stored: Stored::new(job)?,
        organisations: vec![organisation],
        eshop: setting.eshop,
        sequence: None,
        source: Some(tested),
    };
    entry::insert(&mut *tx, &job, origin, JobState::Queued, 1, 1).await?;
    sqlx::query!(
        "INSERT INTO job_chunk (job_id, number, state, item_count, first_index, calls_partner)
         VALUES ($1, $2, 'queued', 1, 0, true)",
        job.id.get(),
        CALLING,
    )
    .execute(tx)
    .await?;
    dispatch::note(change, Queue::Partner, Some(organisation));
    Ok(job.id)
}

async fn waiting(tx: &mut PgConnection, kind: JobKind, tested: &str) -> Result<Option<JobId>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT id AS "id: JobId" FROM job
           WHERE kind IN ('integration.test', 'wms.test') AND source = $2 AND kind = $1 AND state = 'queued'
           ORDER BY created_at DESC LIMIT 1"#,
        kind.as_str(),
        tested,
    )
    .fetch_optional(tx)
    .await
}

/// Tests whose call is due, as chunks: the oldest of each organisation, at most so many.
pub async fn due(db: &PgPool, most: usize) -> Result<Vec<String>, Problem> {
    let due = sqlx::query_scalar!(
        r#"SELECT id AS "id!: JobId" FROM (
               SELECT DISTINCT ON (j.organisation_id) j.id, j.created_at
               FROM job j JOIN job_chunk c ON c.job_id = j.id AND c.number = $2
               WHERE j.kind IN ('integration.test', 'wms.test') AND j.state IN ('queued', 'running', 'retrying')
                 AND ((c.state = 'queued' AND c.next_attempt_at <= now()) OR (c.state = 'running' AND c.leased_until < now()))
               ORDER BY j.organisation_id, j.created_at) AS first
           ORDER BY created_at LIMIT $1"#,
        i64::try_from(most).unwrap_or(i64::MAX),
        CALLING,
    )
    .fetch_all(db)
    .await?;
    Ok(due.into_iter().map(|job| chunk_name(job, CALLING)).collect())
}

/// Ends a test with what it found out. If the claim is lost, the caller drops the transaction, and nothing is recorded.
pub async fn complete(change: &mut Change<'_>, claim: &Claim, finding: &Finding) -> Result<Hold, Problem> {
    let count =
        Count { unchanged: i32::from(finding.works), failed: i32::from(!finding.works), ..Count::default() };
    if execution::complete(change, claim, count, &[]).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    sqlx::query!(
        "UPDATE job SET connection_works = $2, connection_message = $3, connection_ms = $4 WHERE id = $1",
        claim.job.get(),
        finding.works,
        // no text of Postgres has it
        finding.message.replace('\0', "\u{fffd}"),
        i32::try_from(finding.took.as_millis()).unwrap_or(i32::MAX),
    )
    .execute(change.connection())
    .await?;
    Ok(Hold::Kept)
}

/// A test, as a page shows it.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its job.
    pub job: JobId,
    /// The state of that.
    pub state: JobState,
    /// Whether the connection works; absent until it is known.
    pub works: Option<bool>,
    /// What happened.
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: Option<i32>,
    /// Why the job failed, or waits.
    pub error: Option<String>,
    /// Who asked for it.
    pub actor: String,
    /// When it was accepted.
    pub created_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// The last test of what has this id. The caller must have access to it.
pub async fn last(db: &Database, kind: JobKind, tested: &str) -> Result<Option<Test>, Problem> {
    let found = sqlx::query_as!(
        Test,
        r#"SELECT id AS job, state AS "state: JobState", connection_works AS works, connection_message AS message,
                  connection_ms AS took_ms, error, actor_name AS actor, created_at, finished_at
           FROM job
           WHERE kind IN ('integration.test', 'wms.test') AND source = $2 AND kind = $1
           ORDER BY created_at DESC LIMIT 1"#,
        kind.as_str(),
        tested,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}
