//! What follows the switch of a setting: orders become due, or go on by hand.
//!
//! # On
//!
//! Makes due what was `awaiting_processing` in a wms before its setting was switched on, unless it was created before `since`; the same
//! when `since` changes. What is older and was not called goes on by hand.
//!
//! A transaction that was running when the switch was committed may have looked at the setting before that, and then makes its order
//! due by hand, as it were: no worker would call it. No order pays for this with a lock. Instead the filling of a wms remembers, once
//! it sees the switch, which transactions have begun (`fills_before`), and ends with a look that finds nothing and is newer than the
//! end of the last of these.
//!
//! # Off
//!
//! What is due and was not called goes on by hand, as everything in a wms without an active setting
//! (`docs/reference/orders.md#setting-of-a-wms`). A transaction that looked at the setting before it was switched off may make an order
//! due afterwards, so every look goes over all that is due, and not over settings. A look holds the lock that storing a setting
//! needs: what is switched on again at this moment is filled after it.

use longshore_kernel::database;
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use sqlx::PgConnection;

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
        empty_one(services, wms).await?;
        due += fill_one(services, wms).await?;
    }
    Ok(due)
}

/// Has every filling look anew which transactions have begun: after a restore their numbers begin again. Returns how many there are.
///
/// # Errors
/// Those of the database.
pub async fn look_anew(connection: &mut PgConnection) -> Result<u64, sqlx::Error> {
    let filling = sqlx::query!("UPDATE wms_setting SET fills_before = NULL WHERE fills_before IS NOT NULL")
        .execute(connection);
    Ok(filling.await?.rows_affected())
}

async fn fill_one(services: &Services, wms: WmsId) -> Result<u64, Problem> {
    let made = sqlx::query!(
        "WITH waiting AS MATERIALIZED (
             SELECT e.id, e.priority, e.created_at FROM wms_setting s
             JOIN expedition e ON e.organisation_id = s.organisation_id AND e.status = 'awaiting_processing' AND e.wms_id = s.wms_id
             LEFT JOIN expedition_handover h ON h.id = e.id
             WHERE s.wms_id = $1 AND s.active AND e.created_at >= s.since AND coalesce(h.handover_state IN ('refused', 'withdrawn'), true)
             ORDER BY e.id LIMIT $2 FOR NO KEY UPDATE OF e SKIP LOCKED
         )
         INSERT INTO expedition_handover AS h (id, handover_wms_id, handover_state, handover_number, handover_next_attempt_at,
                                               handover_priority, handover_created_at)
         SELECT id, $1, 'pending', handover_floor() + 1, now(), priority, created_at FROM waiting
         ON CONFLICT (id) DO UPDATE
         -- as `expedition_handover_follows`
         SET handover_wms_id = CASE WHEN h.handover_in_doubt THEN h.handover_wms_id ELSE excluded.handover_wms_id END,
             handover_state = CASE WHEN h.handover_in_doubt THEN 'withdrawing' ELSE 'pending' END,
             handover_then = CASE WHEN h.handover_in_doubt THEN 'awaiting_processing' END,
             handover_number = CASE WHEN h.handover_in_doubt THEN h.handover_number ELSE greatest(h.handover_number, handover_floor()) + 1 END,
             handover_since = now(), handover_attempts = 0, handover_next_attempt_at = greatest(now(), h.handover_in_call_until),
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
                     AND e.created_at >= s.since AND coalesce(h.handover_state IN ('refused', 'withdrawn'), true))
               AND NOT EXISTS (
                   SELECT FROM expedition_handover h
                   WHERE h.handover_wms_id = s.wms_id AND h.handover_state = 'pending' AND h.handover_created_at < s.since)",
            wms.get(),
        )
        .execute(&services.db.main)
        .await?;
    }
    Ok(made)
}

/// One step for each wms without an active setting that has something due; returns how many orders go on by hand.
pub async fn empty(services: &Services) -> Result<u64, Problem> {
    // from one wms to the next, by the index of what is due
    let off = sqlx::query_scalar!(
        r#"WITH RECURSIVE having_due (wms) AS (
               (SELECT handover_wms_id FROM expedition_handover WHERE handover_state = 'pending' ORDER BY handover_wms_id LIMIT 1)
               UNION ALL
               SELECT following.handover_wms_id FROM having_due d CROSS JOIN LATERAL (
                   SELECT handover_wms_id FROM expedition_handover
                   WHERE handover_state = 'pending' AND handover_wms_id > d.wms ORDER BY handover_wms_id LIMIT 1) AS following
           )
           SELECT d.wms AS "id!: WmsId" FROM having_due d
           WHERE NOT EXISTS (SELECT FROM wms_setting s WHERE s.wms_id = d.wms AND s.active)"#,
    )
    .fetch_all(&services.db.main)
    .await?;
    let mut by_hand = 0;
    for wms in off {
        by_hand += empty_one(services, wms).await?;
    }
    Ok(by_hand)
}

async fn empty_one(services: &Services, wms: WmsId) -> Result<u64, Problem> {
    let mut tx = database::begin(&services.db.main).await?;
    // storing and deleting a setting take this lock; where one is under way, the next look is soon enough
    let locked = sqlx::query!("SELECT FROM wms WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED", wms.get())
        .fetch_optional(&mut *tx)
        .await?;
    if locked.is_none() {
        return Ok(0);
    }
    // a statement of its own: its snapshot is newer than the lock
    let made = sqlx::query_scalar!(
        r#"WITH waiting AS MATERIALIZED (
               SELECT e.id FROM expedition_handover h JOIN expedition e ON e.id = ANY (ARRAY[h.id])
               WHERE h.handover_wms_id = $1 AND h.handover_state = 'pending'
                 AND NOT EXISTS (
                     SELECT FROM wms_setting s WHERE s.wms_id = $1 AND s.active AND h.handover_created_at >= s.since)
               ORDER BY h.handover_priority DESC, h.handover_created_at, h.id LIMIT $2 FOR NO KEY UPDATE OF e SKIP LOCKED
           ), gone AS (
               DELETE FROM expedition_handover h USING waiting w
               WHERE h.id = ANY (ARRAY[w.id]) AND h.handover_state = 'pending'
                 -- as `expedition_handover_follows`
                 AND h.handover_number IN (1, handover_floor() + 1)
               RETURNING h.id
           ), forgotten AS (
               -- its last number is remembered, as of an order that is no longer due
               UPDATE expedition_handover h
               SET handover_state = NULL, handover_since = now(), handover_attempts = 0, handover_number = h.handover_number - 1,
                   handover_next_attempt_at = NULL, handover_error = NULL
               FROM waiting w
               WHERE h.id = ANY (ARRAY[w.id]) AND h.handover_state = 'pending'
                 AND h.handover_number NOT IN (1, handover_floor() + 1)
               RETURNING h.id
           )
           SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM forgotten) AS "orders!""#,
        wms.get(),
        MOST,
    )
    .fetch_one(&mut *tx)
    .await?;
    tx.commit().await?;
    u64::try_from(made).map_err(Problem::internal)
}
