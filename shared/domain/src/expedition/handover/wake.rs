//! What follows when a setting is stored anew, or a test finds that the system works: orders whose calls failed before are
//! called again soon, and not after the quarter of an hour that they may wait.
//!
//! It is done in steps, since as many may wait as the wms has orders, and twice: at once, and after every call has ended that may have
//! begun under a former setting. A step takes what is not locked. What fails again between two steps may be called early once more.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::call::IN_CALL;
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Orders of one statement.
const MOST: i64 = 1_000;

/// Makes orders whose calls failed due, and the next probe of the breaker, and ends a pause that the system asked for: a test has found
/// that it works.
pub async fn ask(tx: &mut PgConnection, wms: WmsId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH waking AS (
             UPDATE wms_setting SET wakes_at = now(), wakes_again = true WHERE wms_id = $1 AND active
         )
         UPDATE wms_lane SET probe_at = least(probe_at, now()), held_until = NULL
         WHERE wms_id = $1 AND (probe_at > now() OR held_until > now())",
        wms.get(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// One step for each wms whose orders are to become due; returns how many orders became due.
pub async fn wake(services: &Services) -> Result<u64, Problem> {
    let waking = sqlx::query!(
        r#"SELECT wms_id AS "wms: WmsId", wakes_at AS "since!" FROM wms_setting WHERE active AND wakes_at <= now()"#,
    )
    .fetch_all(&services.db.main)
    .await?;
    let mut due = 0;
    for row in waking {
        due += wake_one(services, row.wms, row.since).await?;
    }
    Ok(due)
}

async fn wake_one(services: &Services, wms: WmsId, since: DateTime<Utc>) -> Result<u64, Problem> {
    let db = &services.db.main;
    let found = sqlx::query_scalar!(
        r#"WITH waiting AS MATERIALIZED (
             SELECT h.id FROM expedition_handover h JOIN expedition e ON e.id = ANY (ARRAY[h.id])
             WHERE h.handover_wms_id = $1 AND h.handover_state IN ('sending', 'withdrawing') AND h.handover_next_attempt_at > now()
               -- what is being called is due again by its outcome
               AND coalesce(h.handover_in_call_until <= now(), true)
             ORDER BY h.handover_next_attempt_at, h.id LIMIT $2 FOR NO KEY UPDATE OF e SKIP LOCKED
         ), woken AS (
             UPDATE expedition_handover h SET handover_next_attempt_at = now()
             FROM waiting w
             WHERE h.id = ANY (ARRAY[w.id]) AND h.handover_state IN ('sending', 'withdrawing') AND h.handover_next_attempt_at > now()
               AND coalesce(h.handover_in_call_until <= now(), true)
         )
         -- also what another worker has woken meanwhile: more may wait behind it
         SELECT count(*) AS "found!" FROM waiting"#,
        wms.get(),
        MOST,
    )
    .fetch_one(db)
    .await?;
    if found < MOST {
        // not of a setting that is being stored once more, or was meanwhile
        sqlx::query!(
            "UPDATE wms_setting
             SET wakes_at = CASE WHEN wakes_again THEN wakes_at + make_interval(secs => $3) END, wakes_again = false
             WHERE wms_id = ANY (ARRAY(SELECT wms_id FROM wms_setting WHERE wms_id = $1 AND wakes_at = $2
                                       FOR NO KEY UPDATE SKIP LOCKED))",
            wms.get(),
            since,
            IN_CALL.as_secs_f64(),
        )
        .execute(db)
        .await?;
    }
    u64::try_from(found).map_err(Problem::internal)
}
