//! Makes due what was `awaiting_processing` in a wms before its setting was switched on.
//!
//! A transaction that was running when the switch was committed may have looked at the setting before that, and then makes its order
//! due by hand, as it were: nobody would call it. No order pays for this with a lock. Instead the filling of a wms remembers, once
//! it sees the switch, which transactions have begun (`fills_before`), and ends with a look that finds nothing and is newer than the
//! end of the last of these.

use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Orders of one statement.
const MOST: i64 = 1_000;

/// One step for each wms that is being filled; returns how many orders became due.
pub async fn fill(services: &Services) -> Result<u64, Problem> {
    let filling = sqlx::query_scalar!(
        r#"UPDATE wms_setting SET fills_before = coalesce(fills_before, pg_snapshot_xmax(pg_current_snapshot()))
           WHERE wms_id = ANY (ARRAY(SELECT wms_id FROM wms_setting WHERE fills AND active FOR NO KEY UPDATE SKIP LOCKED))
           RETURNING wms_id AS "id: WmsId""#,
    )
    .fetch_all(&services.db.main)
    .await?;
    let mut due = 0;
    for wms in filling {
        due += fill_one(services, wms).await?;
    }
    Ok(due)
}

async fn fill_one(services: &Services, wms: WmsId) -> Result<u64, Problem> {
    let made = sqlx::query!(
        "WITH waiting AS MATERIALIZED (
             SELECT e.id, e.priority, e.created_at FROM wms_setting s
             JOIN expedition e ON e.organisation_id = s.organisation_id AND e.status = 'awaiting_processing' AND e.wms_id = s.wms_id
             LEFT JOIN expedition_handover h ON h.id = e.id
             WHERE s.wms_id = $1 AND s.active AND coalesce(h.handover_state IN ('refused', 'withdrawn'), true)
             ORDER BY e.id LIMIT $2 FOR NO KEY UPDATE OF e SKIP LOCKED
         )
         INSERT INTO expedition_handover AS h (id, handover_wms_id, handover_state, handover_number, handover_next_attempt_at,
                                               handover_priority, handover_created_at)
         SELECT id, $1, 'pending', 1, now(), priority, created_at FROM waiting
         ON CONFLICT (id) DO UPDATE
         SET handover_wms_id = excluded.handover_wms_id, handover_state = 'pending', handover_number = h.handover_number + 1,
             handover_since = now(), handover_attempts = 0, handover_next_attempt_at = now(), handover_in_call_until = NULL,
             handover_error = NULL, wms_internal_id = NULL, handover_priority = excluded.handover_priority,
             handover_created_at = excluded.handover_created_at
         WHERE h.handover_state IS NULL OR h.handover_state IN ('refused', 'withdrawn')",
        wms.get(),
        MOST,
    )
    .execute(&services.db.main)
    .await?
    .rows_affected();
    if made == 0 {
        // one that is locked is found, too
        sqlx::query!(
            "UPDATE wms_setting s SET fills = false, fills_before = NULL
             WHERE s.wms_id = $1 AND s.fills AND s.fills_before <= pg_snapshot_xmin(pg_current_snapshot())
               AND NOT EXISTS (
                   SELECT FROM expedition e LEFT JOIN expedition_handover h ON h.id = e.id
                   WHERE e.organisation_id = s.organisation_id AND e.status = 'awaiting_processing' AND e.wms_id = s.wms_id
                     AND coalesce(h.handover_state IN ('refused', 'withdrawn'), true))",
            wms.get(),
        )
        .execute(&services.db.main)
        .await?;
    }
    Ok(made)
}
