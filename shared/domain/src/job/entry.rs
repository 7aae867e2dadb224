//! The row of a job, as every way of accepting one records it.

use sqlx::PgConnection;
use tracing::field::Empty;
use uuid::Uuid;

use super::kind::{JobState, Stored};
use super::preview::{self, BEHIND};
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::trace;

/// A receiver that has not staged a chunk or renewed itself for this long is gone, in seconds.
pub(super) const PATIENCE_SECONDS: f64 = 60.0;

/// A job that is about to be recorded.
#[derive(Clone, Debug)]
pub(super) struct NewJob {
    pub(super) id: JobId,
    pub(super) stored: Stored,
    /// The organisations of the job: one; several, visible to callers who may see all of them; or none, visible to callers
    /// who see everything.
    pub(super) organisations: Vec<OrganisationId>,
    pub(super) eshop: Option<EshopId>,
    pub(super) sequence: Option<Uuid>,
    /// The inventory or warehouse of the partner that it reads or writes.
    pub(super) source: Option<String>,
}

impl NewJob {
    /// Its organisation, if it has only one.
    pub(super) fn organisation(&self) -> Option<OrganisationId> {
        match self.organisations.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// Its organisations, if it has several.
    pub(super) fn several(&self) -> Option<&[OrganisationId]> {
        (self.organisations.len() > 1).then_some(self.organisations.as_slice())
    }
}

/// Records a job. One that is `receiving` has no acceptance number yet, and a receiver that must renew itself.
pub(super) async fn insert(
    tx: &mut PgConnection,
    job: &NewJob,
    origin: &Origin,
    state: JobState,
    total: i32,
    chunks: i32,
) -> Result<(), sqlx::Error> {
    let traceparent = accepted(job).or_else(|| origin.traceparent.clone());
    sqlx::query!(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, parameters, total, chunks_open,
             actor_type, actor_id, actor_name, request_id, traceparent, source, organisations, acceptance,
             receiving_until, in_order, preview_of, preview)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $16, $17,
             CASE WHEN $3 = 'receiving' THEN NULL WHEN $19::text IS NULL THEN nextval('acceptance') ELSE nextval('acceptance') + $21 END,
             CASE WHEN $3 = 'receiving' THEN now() + make_interval(secs => $15) END, $18, $19, $20)",
        job.id.get(),
        job.stored.job_kind().as_str(),
        state.as_str(),
        job.organisation() as Option<OrganisationId>,
        job.eshop as Option<EshopId>,
        job.sequence,
        job.stored.parameters,
        total,
        chunks,
        origin.actor.kind,
        origin.actor.id,
        origin.actor.name,
        origin.request_id,
        traceparent,
        PATIENCE_SECONDS,
        job.source,
        job.several() as Option<&[OrganisationId]>,
        job.stored.in_order,
        job.stored.is_dry_run.then_some(job.stored.kind.as_str()),
        job.stored.is_dry_run.then(preview::nothing),
        BEHIND,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The acceptance as a separate span, which the chunks continue; nothing without traces.
fn accepted(job: &NewJob) -> Option<String> {
    if !trace::is_on() {
        return None;
    }
    let span = tracing::info_span!(
        "job", job.id = %job.id, job.kind = job.stored.job_kind().as_str(), otel.kind = "producer", trace.id = Empty
    );
    trace::begin(&span, None);
    trace::of(&span)
}

/// Counts are stored as 32 bit integers; what is past that was refused long before.
pub(super) fn to_i32(count: usize) -> Result<i32, Problem> {
    i32::try_from(count).map_err(Problem::internal)
}
