//! The line of an e-shop's syncs: they run one after the other, in the order of acceptance. Product and stock syncs share one
//! line, since a stock may belong to a product that was sent just before it. Send-outs have another line.
//!
//! A chunk has the place of its job. The pages of a pull take their places when they arrive: each page has its own acceptance
//! number, behind everything that was accepted before it arrived. A pull has the place of its oldest page that has not been
//! executed. While it has none, it is **out of line** and blocks nothing, however long it waits for its partner. A send-out has
//! no pages: it leaves its line while it can only wait, and joins it again at the end.

use sqlx::{PgConnection, PgPool};

use uuid::Uuid;

use super::kind::JobKind;
use super::name::hash_of;
use longshore_kernel::database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId, WmsId};

/// Shorter waits of a send-out are waited for in the line.
const WORTH_IT_SECONDS: f64 = 5.0;

/// The line of jobs of a kind for an e-shop. Imports of orders have one of their own.
pub(super) fn sequence_of(kind: JobKind, eshop: EshopId) -> Uuid {
    match kind {
        JobKind::ExpeditionSync => hash_of(&format!("expeditions of {eshop}")),
        _ => eshop.get(),
    }
}

/// The line of what a wms reports of orders.
pub(super) fn of_wms(wms: WmsId) -> Uuid {
    hash_of(&format!("news of {wms}"))
}

/// What is numbered under one lock is committed in the order of its numbers: of syncs, all of an organisation, so that one which
/// is executed knows every earlier one of its organisation; of send-outs, those of an e-shop.
pub(super) async fn lock(
    tx: &mut PgConnection,
    kind: JobKind,
    organisation: OrganisationId,
    eshop: Option<EshopId>,
) -> Result<(), sqlx::Error> {
    let of = match eshop {
        Some(eshop) if kind == JobKind::StockSend => eshop.get(),
        _ => organisation.get(),
    };
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('job sequence ' || $1::text, 0))",
        of.to_string()
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Ends a page of a pull, in the transaction that has counted it: the pull now has the place of its oldest remaining page.
/// Returns whether another job may run now.
pub(super) async fn step(tx: &mut PgConnection, job: JobId) -> Result<bool, sqlx::Error> {
    // Its row is locked, and pages are recorded under that lock, so none arrives in between. A page that another version
    // recorded has no number.
    let moved = sqlx::query!(
        "WITH oldest AS (
             SELECT acceptance FROM job_chunk
             WHERE job_id = $1 AND state IN ('queued', 'running') AND NOT calls_partner
             -- of a page that was halved, one half has a number before those of earlier pages
             ORDER BY acceptance, number LIMIT 1
         )
         UPDATE job j
         SET acceptance = coalesce((SELECT acceptance FROM oldest), j.acceptance),
             out_of_line_until = CASE WHEN NOT EXISTS (SELECT FROM oldest) THEN 'infinity'::timestamptz END,
             -- its pages have made it running
             state = CASE WHEN EXISTS (SELECT FROM oldest)
                               OR NOT EXISTS (SELECT FROM job_chunk
                                              WHERE job_id = $1 AND calls_partner AND state = 'queued' AND error IS NOT NULL)
                          THEN j.state ELSE 'retrying' END
         WHERE j.id = $1
           AND (NOT EXISTS (SELECT FROM oldest) OR j.acceptance < (SELECT acceptance FROM oldest))",
        job.get(),
    )
    .execute(tx)
    .await?;
    Ok(moved.rows_affected() > 0)
}

/// Has a send-out step out, if its next call waits for its time.
pub(super) async fn leave(tx: &mut PgConnection, job: JobId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE job j
         SET out_of_line_until = c.next_attempt_at
         FROM job_chunk c
         WHERE j.id = $1 AND j.kind = 'stock.send' AND j.state IN ('running', 'retrying') AND c.job_id = j.id
           AND c.calls_partner AND c.state = 'queued' AND c.next_attempt_at > now() + make_interval(secs => $2)",
        job.get(),
        WORTH_IT_SECONDS,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Puts a send-out into the line again when its time has come: a new acceptance.
pub(super) async fn append(db: &PgPool, job: JobId) -> Result<(), sqlx::Error> {
    let found = sqlx::query!(
        r#"SELECT organisation_id AS "organisation!", eshop_id AS "eshop!" FROM job
           WHERE id = $1 AND kind = 'stock.send' AND out_of_line_until <= now()
             AND organisation_id IS NOT NULL AND eshop_id IS NOT NULL"#,
        job.get(),
    )
    .fetch_optional(db)
    .await?;
    let Some(found) = found else { return Ok(()) };
    let mut tx = database::begin(db).await?;
    lock(&mut tx, JobKind::StockSend, found.organisation.into(), Some(found.eshop.into())).await?;
    sqlx::query!(
        "UPDATE job SET acceptance = nextval('acceptance'), out_of_line_until = NULL
         WHERE id = $1 AND out_of_line_until <= now()",
        job.get(),
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await
}
