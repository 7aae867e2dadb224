//! The application of a dry run: a job of the kind that was tried, of the same chunks.

use serde_json::{Value, json};

use super::APPLICABLE_HOURS;
use crate::job::dispatch;
use crate::job::entry::{NewJob, insert};
use crate::job::kind::{JobKind, JobState, Stored};
use crate::job::line;
use crate::job::room;
use longshore_kernel::access::Permission;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::input::{Reader, Rule, boolean, object};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

/// The body of a request.
pub fn body() -> impl Rule<Out = bool> {
    object(|body| Some(body.optional_or("force", boolean(), false)))
}

/// What a caller must be allowed to do for what a job of a kind does.
fn permission(kind: JobKind) -> Permission {
    match kind {
        JobKind::ProductActivate | JobKind::ProductDeactivate => Permission::WriteProducts,
        JobKind::ProductSync | JobKind::StockSync => Permission::WriteJobs,
        JobKind::WebhookRedeliver => Permission::WriteWebhooks,
        _ => Permission::WriteExpeditions,
    }
}

/// Applies a dry run, once: a new job of the kind that was tried, over the same items. One whose record is no longer what it was
/// compared with is refused, unless that is `force`d.
///
/// # Errors
/// `not_found`; `forbidden`; `conflict` where it is no dry run that has succeeded lately, or was applied.
pub async fn apply(
    services: &Services,
    context: &Context,
    id: JobId,
    body: Value,
) -> Result<Answer, Problem> {
    let is_forced = Reader::read(body, self::body())?;
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    let found = sqlx::query!(
        r#"SELECT state AS "state: JobState", preview_of, parameters, in_order, total, applied_by AS "applied_by: JobId",
                  coalesce(preview_kept_until > now() AND finished_at > now() - make_interval(hours => $4), false) AS "is_applicable!",
                  coalesce(organisations, array_remove(ARRAY[organisation_id], NULL)) AS "organisations!: Vec<OrganisationId>",
                  eshop_id AS "eshop: EshopId", accepted_at
           FROM job
           WHERE id = $1 AND in_scope($2, organisation_id, organisations) AND in_eshop($3, eshop_id)
           FOR UPDATE"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        APPLICABLE_HOURS,
    )
    .fetch_optional(change.connection())
    .await?
    .ok_or_else(|| Problem::not_found("job"))?;
    let conflict = |why: &str| Err(Problem::new(&CONFLICT, why.to_owned()));
    let Some(of) = found.preview_of else { return conflict("only a dry run can be applied") };
    let kind: JobKind = of.parse().map_err(Problem::internal)?;
    context.caller.must(permission(kind))?;
    if let Some(job) = found.applied_by {
        return conflict(&format!("the dry run was already applied, by the job {job}"));
    }
    if found.state != JobState::Succeeded {
        return conflict(&format!(
            "only a dry run that has succeeded can be applied; this one is {}",
            found.state
        ));
    }
    if !found.is_applicable {
        return conflict("the dry run ended more than an hour ago: send the request again, with dryRun");
    }
    let mut parameters = found.parameters;
    // a caller that is bound to an e-shop reaches no more by it
    if let (Some(eshop), Value::Object(parameters)) = (scope.eshop(), &mut parameters) {
        parameters.insert("scopeEshop".to_owned(), json!(eshop));
    }
    let stored = Stored { kind, parameters, in_order: found.in_order, is_dry_run: false };
    let sequence = found.eshop.filter(|_| kind.is_sync()).map(|eshop| line::sequence_of(kind, eshop));
    let job = NewJob {
        id: JobId::new(),
        stored,
        organisations: found.organisations,
        eshop: found.eshop,
        sequence,
        source: None,
    };
    let tx = change.connection();
    room::make(tx, services, job.organisation()).await?;
    if let Some(organisation) = job.organisation().filter(|_| sequence.is_some()) {
        line::lock(tx, kind, organisation, job.eshop).await?;
    }
    let state = if found.total == 0 { JobState::Succeeded } else { JobState::Queued };
    insert(tx, &job, &context.origin, JobState::Queued, found.total, 0).await?;
    let chunks = sqlx::query!(
        "INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index, indexes, lines, duplicates, duplicates_of,
             compared)
         SELECT $2, number, 'queued', payload, item_count, first_index, indexes, lines, duplicates, duplicates_of,
                CASE WHEN NOT $3 THEN compared END
         FROM job_chunk WHERE job_id = $1",
        id.get(),
        job.id.get(),
        is_forced,
    )
    .execute(&mut *tx)
    .await?
    .rows_affected();
    sqlx::query!(
        "UPDATE job SET chunks_open = $2, state = $3,
             started_at = CASE WHEN $2 = 0 THEN now() END, finished_at = CASE WHEN $2 = 0 THEN now() END
         WHERE id = $1",
        job.id.get(),
        i32::try_from(chunks).map_err(Problem::internal)?,
        state.as_str(),
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "UPDATE job SET applied_by = $2, preview_kept_until = now() WHERE id = $1",
        id.get(),
        job.id.get(),
    )
    .execute(&mut *tx)
    .await?;
    dispatch::note(&mut change, Queue::Chunk, job.organisation());
    change.answer(context.claim, Answer::accepted_job(job.id)).await
}
