//! The release of what a job has withheld ([`withheld`](crate::job::withheld)).

use serde_json::Value;

use super::record_control;
use crate::job::dispatch;
use crate::job::kind::JobState;
use crate::job::withheld::decision::execute;
use longshore_kernel::access::{Permission, Scope};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::input::{Reader, Rule, integer, object};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

/// The body of a request.
pub fn body() -> impl Rule<Out = Option<i64>> {
    object(|body| Some(body.required("upTo", integer(0..=i64::from(i32::MAX)))))
}

/// How many rows a job of the scope withholds, that a release would execute.
///
/// # Errors
/// `not_found`; those of the database.
pub async fn left(services: &Services, scope: &Scope, id: JobId) -> Result<i64, Problem> {
    sqlx::query_scalar!(
        r#"SELECT (SELECT count(*) FROM withheld WHERE job_id = job.id) AS "left!" FROM job
           WHERE id = $1 AND in_scope($2, organisation_id, organisations) AND in_eshop($3, eshop_id)"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&services.db.main)
    .await?
    .ok_or_else(|| Problem::not_found("job"))
}

/// Executes what a job has withheld, with the acceptance that it came with (`POST /api/job/{id}/release`).
///
/// # Errors
/// `not_found`; `forbidden`; `conflict` where nothing is withheld; `count_differs` where more is withheld than the caller expects.
pub async fn release(
    services: &Services,
    context: &Context,
    id: JobId,
    body: Value,
) -> Result<Answer, Problem> {
    context.caller.must(Permission::ReleaseWithheld)?;
    let up_to = Reader::read(body, self::body())?.unwrap_or_default();
    let mut change = Change::begin(services).await?;
    let scope: &Scope = context.scope();
    let tx = change.connection();
    let job = sqlx::query!(
        r#"SELECT withheld, state AS "state: JobState", organisation_id AS "organisation: OrganisationId" FROM job
           WHERE id = $1 AND in_scope($2, organisation_id, organisations) AND in_eshop($3, eshop_id) FOR UPDATE"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&mut *tx)
    .await?
    .ok_or_else(|| Problem::not_found("job"))?;
    let left =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM withheld WHERE job_id = $1"#, id.get())
            .fetch_one(&mut *tx)
            .await?;
    let nothing = || Problem::new(&CONFLICT, "the job withholds nothing, or no longer");
    if left == 0 || !job.state.is_ended() {
        return Err(nothing());
    }
    if left > up_to {
        return Err(Problem::more_withheld(left, up_to));
    }
    let kept = i32::try_from(left).map_err(Problem::internal)?;
    let chunks = execute(tx, id).await?;
    if chunks == 0 {
        // a sync that has just ended has dropped it all
        return Err(nothing());
    }
    sqlx::query!(
        "UPDATE job SET state = 'queued', done = done - $2, unchanged = unchanged + withheld - $2, withheld = 0,
             chunks_open = $3, finished_at = NULL, error = NULL, changed_at = now(), out_of_line_until = NULL
         WHERE id = $1",
        id.get(),
        kept,
        chunks,
    )
    .execute(&mut *tx)
    .await?;
    record_control(tx, &context.origin, "job.release", &[id], &[job.state], JobState::Queued).await?;
    dispatch::note(&mut change, Queue::Chunk, job.organisation);
    change.answer(context.claim, Answer::accepted_job(id)).await
}
