//! The end of jobs, told to webhooks: `job_finished` of every job but connection tests, and `sync_finished` of syncs
//! (`docs/reference/webhooks.md#events`).

use sqlx::PgConnection;

use super::kind::{JobKind, JobState};
use crate::list;
use crate::list::fields::event::{JOB_FINISHED, SYNC_FINISHED};
use crate::list::fields::job::JOB;
use longshore_kernel::access::Scope;
use longshore_kernel::change::{Change, RecordedRows};
use longshore_kernel::context::Origin;
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_each;

/// Item errors in a `job_finished`.
const ERRORS: i64 = 20;

/// A job that ends in a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// Its id.
    pub(super) job: JobId,
    /// What it does.
    pub(super) kind: JobKind,
    /// Its state before.
    pub(super) before: JobState,
}

/// Records the events of jobs that have just ended, in the transaction that ended them, and the audit of syncs.
///
/// # Errors
/// Those of the database.
pub(super) async fn tell(
    change: &mut Change<'_>,
    origin: &Origin,
    endings: impl IntoIterator<Item = Ending>,
) -> Result<(), Problem> {
    let endings: Vec<_> = endings.into_iter().filter(|ending| ending.kind.is_told()).collect();
    let ids: Vec<JobId> = endings.iter().map(|ending| ending.job).collect();
    let records = records(change.connection(), &ids).await?;
    if records.is_empty() && !endings.iter().any(|ending| ending.kind.is_sync()) {
        return Ok(());
    }
    let before: Vec<&str> = endings.iter().map(|ending| ending.before.as_str()).collect();
    let are_syncs: Vec<bool> = endings.iter().map(|ending| ending.kind.is_sync()).collect();
    let (heard, records): (Vec<JobId>, Vec<String>) = records.into_iter().unzip();
    let origins = [origin];
    let recorded: RecordedRows = record_each!(
        change.connection(),
        origins,
        "job.finish",
        "job",
        Some(SYNC_FINISHED),
        "WITH ended AS (
             SELECT job.id, version, changed_at AS at, organisation_id AS organisation, eshop_id, job.kind, state, e.was, e.is_sync,
                 jsonb_build_object('total', total, 'done', done,
                     'changed', changed, 'unchanged', unchanged, 'failed', failed, 'withheld', withheld) AS progress,
                 job_outcome(state, total, failed, withheld) AS outcome
             FROM unnest($9::uuid[], $10::text[], $11::bool[]) AS e (id, was, is_sync) JOIN job ON job.id = e.id
         ), changed AS (
             SELECT 1::bigint AS origin, id AS entity, version, at, organisation, ARRAY[eshop_id] AS eshops,
                    jsonb_build_object('state', jsonb_build_array(was, state)) AS changes,
                    event_data(id, jsonb_build_object('organisation', organisation, 'eshop', eshop_id, 'kind', kind),
                        '{state, progress, outcome}',
                        jsonb_build_object('state', state, 'progress', progress, 'outcome', outcome)) AS data,
                    NULL::text AS action, NULL::text AS kind, NULL::text AS event, NULL::uuid[] AS concerned,
                    NULL::uuid[] AS seen_by
             FROM ended WHERE is_sync
             UNION ALL
             SELECT 1, e.id, e.version, e.at, e.organisation,
                    CASE WHEN e.eshop_id IS NULL THEN ARRAY(SELECT s.id FROM eshop s WHERE s.organisation_id = e.organisation)
                         ELSE ARRAY[e.eshop_id] END,
                    NULL, h.record, NULL, NULL, $14, array_remove(ARRAY[e.eshop_id], NULL), array_remove(ARRAY[e.eshop_id], NULL)
             FROM unnest($12::uuid[], $13::text[]::jsonb[]) AS h (id, record) JOIN ended e ON e.id = h.id
         )",
        &ids as &[JobId],
        &before as &[&str],
        &are_syncs,
        &heard as &[JobId],
        &records,
        JOB_FINISHED.name,
    )
    .await?;
    change.note_lanes(recorded.lanes);
    Ok(())
}

/// The records of those jobs whose end a webhook or a reader hears of, each with its first item errors. A job of several organisations is
/// nobody's.
async fn records(tx: &mut PgConnection, ids: &[JobId]) -> Result<Vec<(JobId, String)>, Problem> {
    let heard = sqlx::query!(
        r#"SELECT j.id AS "id: JobId",
                  (SELECT coalesce(json_agg(e), '[]') FROM (
                       SELECT index, line, key, code, field AS "propertyPath" FROM job_item_error
                       WHERE job_id = j.id AND NOT notice ORDER BY index LIMIT $2) AS e)::text AS "errors!"
           FROM job j
           WHERE j.id = ANY ($1) AND EXISTS (
               SELECT FROM (
                   SELECT organisation_id, source_id, events FROM webhook UNION ALL SELECT organisation_id, source_id, events FROM event_reader
               ) AS w
               WHERE w.organisation_id = j.organisation_id AND (j.eshop_id IS NULL OR w.source_id IN (j.eshop_id, j.organisation_id))
                 AND $3 = ANY (w.events))"#,
        ids as &[JobId],
        ERRORS,
        JOB_FINISHED.name,
    )
    .fetch_all(&mut *tx)
    .await?;
    if heard.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = heard.iter().map(|job| job.id.get()).collect();
    let records = list::find_each(&mut *tx, &JOB, &Scope::Everything, &ids).await?;
    let with_errors = |record: list::Record| {
        let errors = heard.iter().find(|job| job.id.get() == record.id).map_or("[]", |job| &job.errors);
        let object = record.json.strip_suffix('}').unwrap_or("{");
        (JobId::from(record.id), format!("{object},\"errors\":{errors}}}"))
    };
    Ok(records.into_iter().map(with_errors).collect())
}
