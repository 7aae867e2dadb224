//! Orders that a warehouse may have under a number that is not known here, since Postgres was set back
//! (`docs/reference/orders.md#after-a-set-back`).
//!
//! What was handed over, held, edited and sent again after a backup is there with a higher number and other goods; what was made or sent
//! after it is there, and is a draft here; what was canceled after it, and is not here, is gone there. [`begin`] puts *in doubt* each
//! order that this may be true of: its number is then the floor, which is higher than any that a warehouse knows (`handover_floor()`).
//!
//! An order in doubt goes on as any other. Before it is held, cancelled or handed over, its warehouse is asked for it, by the lane and as in
//! any withdrawal: an answer that it does not have it is about every number up to the floor.
//!
//! | status here | [`begin`] | held | cancelled | sent, or due | given back | stays there |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | `on_hold`, `incorrect` | in doubt | asked | asked | booked at once; asked when it is `awaiting_processing` | what was asked; without: where it was | `accepted`, contents unknown; sent, it is not handed over again |
//! | `awaiting_reservation`, `waiting_for_goods` | in doubt | asked | asked | asked when it is `awaiting_processing` | the same | the same; it goes on waiting for its pieces |
//! | `stock_ok` | in doubt | asked | asked | asked | the same | `awaiting_processing`, `accepted`, contents unknown |
//! | `awaiting_processing`, by hand | in doubt | asked | asked | – | the same | `accepted`, contents unknown |
//! | …, `pending` or `sending` | asked at once | as any | as any | – | handed over with the next number | `accepted`, contents unknown |
//! | …, `accepted` | in doubt | as any | as any | – | as any | contents unknown |
//! | …, `withdrawing` | asked again, by the floor | as any | as any | – | as any | contents unknown |
//! | …, `refused` or `withdrawn` | in doubt | asked | asked | asked | the same | `accepted`, contents unknown |
//! | `take_out`, `completion` | in doubt | – | as any | – | as any | contents unknown |
//! | `waiting_for_cancel` | asked, or asked again, by the floor | – | – | – | `canceled` | where it was, contents unknown |
//! | packed, up to `delivered` | not in doubt: it has left | – | – | – | – | – |
//! | `canceled` since then | asked at once | – | asked again if it stays there | – | `canceled` | `canceled` and `accepted`, contents unknown |
//! | `canceled` before | not in doubt | – | – | – | – | – |
//!
//! "As any" is what happens without a set-back ([`super::outcome`]). Orders that were made after it was seen, and those of a wms that has, and had since then, no active
//! setting, are not in doubt. Where the setting of an order is not active when its warehouse is asked, nobody answers: there is a line in
//! the attention, and an operator says what the warehouse says (`{"cancel": "accepted"}` or `"refused"` as its status by hand).
//!
//! The wish that counts is the last one: sent, an order that is being asked back to be cancelled is handed over again.

use chrono::{DateTime, Utc};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use longshore_kernel::problem::Problem;

/// Orders that one transaction looks at.
const BATCH: i64 = 5_000;

/// How far the floor is above the highest number that is known here: more than any order was handed over in what was lost. Once more for
/// each earlier set-back: the same backup may be restored twice.
const GAP: i32 = 1_000_000;

/// What [`begin`] has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// The numbers of hand-overs are higher from now on.
    pub floor: i32,
    /// Orders that were put in doubt.
    pub in_doubt: u64,
    /// Those of them whose warehouse is asked at once.
    pub asked: u64,
}

/// Puts orders in doubt whose warehouse may know more of them than we do, since what happened after `since` may be lost. Of all of them
/// that it can, it asks the warehouses at once if `ask_warehouses`.
///
/// It runs as the role that owns the tables, in batches, each a transaction of its own unless the caller has begun one. It may be
/// interrupted, and be run again: the floor of a set-back is chosen once, and orders that were asked back, or handed over, with a number
/// above it are left alone.
///
/// # Errors
/// When Postgres is away, the login may not, or the numbers are used up.
pub async fn begin(
    connection: &mut PgConnection,
    since: DateTime<Utc>,
    ask_warehouses: bool,
) -> Result<Begun, Problem> {
    // first: what becomes due meanwhile has a number above it, and is looked at like all others
    let (floor, seen_at) = raise_floor(connection).await?;
    let mut begun = Begun { floor, ..Begun::default() };
    let mut last = Uuid::nil();
    while let Some(batch) = doubt(connection, last, floor, (since, seen_at), ask_warehouses).await? {
        begun.in_doubt += u64::try_from(batch.in_doubt).map_err(Problem::internal)?;
        begun.asked += u64::try_from(batch.asked).map_err(Problem::internal)?;
        last = batch.last;
    }
    Ok(begun)
}

/// The floor of the last set-back; chosen, and set, unless that was done before. And when that was seen: no warehouse was called since.
async fn raise_floor(connection: &mut PgConnection) -> Result<(i32, DateTime<Utc>), Problem> {
    let mut tx = connection.begin().await?;
    let chosen = sqlx::query!(
        r#"WITH last AS MATERIALIZED (
               SELECT epoch, handover_floor, seen_at FROM set_back ORDER BY epoch DESC LIMIT 1 FOR UPDATE
           )
           SELECT (SELECT epoch FROM last) AS "epoch!", (SELECT handover_floor FROM last) AS floor,
                  (SELECT seen_at FROM last) AS "seen_at!",
                  greatest((SELECT max(handover_number) FROM expedition_handover), handover_floor()) AS "highest!""#,
    )
    .fetch_one(&mut *tx)
    .await?;
    let floor = match chosen.floor {
        Some(floor) => floor,
        None => GAP
            .checked_mul(chosen.epoch - 1)
            .and_then(|gap| gap.checked_add(chosen.highest))
            .ok_or_else(|| {
                Problem::internal("the numbers of hand-overs are used up: no floor above them can be chosen")
            })?,
    };
    sqlx::query!("UPDATE set_back SET handover_floor = $2 WHERE epoch = $1", chosen.epoch, floor)
        .execute(&mut *tx)
        .await?;
    let replaced = format!(
        "CREATE OR REPLACE FUNCTION handover_floor() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN {floor}"
    );
    sqlx::query(sqlx::AssertSqlSafe(replaced)).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok((floor, chosen.seen_at))
}

/// What one transaction has looked at.
struct Batch {
    /// The last of the orders that it looked at.
    last: Uuid,
    in_doubt: i64,
    asked: i64,
}

/// Looks at the orders that come after one; `None` after the last. An order keeps its id, so none is missed that moves meanwhile.
async fn doubt(
    connection: &mut PgConnection,
    after: Uuid,
    floor: i32,
    (since, seen_at): (DateTime<Utc>, DateTime<Utc>),
    ask_warehouses: bool,
) -> Result<Option<Batch>, Problem> {
    let row = sqlx::query!(
        r#"WITH looked_at AS MATERIALIZED (
               SELECT id FROM expedition WHERE id > $1 ORDER BY id LIMIT $2
           ), doubtful AS MATERIALIZED (
               SELECT e.id, e.wms_id, e.status, e.priority, e.created_at,
                      e.status IN ('waiting_for_cancel', 'canceled') OR $5 AND coalesce(s.active, false)
                          AND e.status IN ('on_hold', 'incorrect', 'awaiting_reservation', 'waiting_for_goods', 'stock_ok',
                                           'awaiting_processing') AS is_asked
               FROM looked_at l JOIN expedition e ON e.id = ANY (ARRAY[l.id])
               LEFT JOIN wms_setting s ON s.wms_id = ANY (ARRAY[e.wms_id])
               WHERE e.status NOT IN ('waiting_for_the_carrier', 'carrier_picked_up', 'ready_to_takeover', 'probably_delivered',
                                      'delivered')
                 AND (e.status <> 'canceled' OR e.status_since >= $4) AND e.created_at <= $6
                 AND (s.active OR s.changed_at >= $4
                      OR EXISTS (SELECT FROM tombstone t
                                 WHERE t.entity_type = 'wms_setting' AND t.entity_id = e.wms_id AND t.deleted_at >= $4))
                 -- what is older than the setting says goes on by hand, unless it was handed over
                 AND (e.created_at >= coalesce(s.since, '-infinity')
                      OR EXISTS (SELECT FROM expedition_handover h WHERE h.id = e.id))
               ORDER BY e.id FOR NO KEY UPDATE OF e
           ), put AS (
               INSERT INTO expedition_handover AS h (id, handover_wms_id, handover_state, handover_number, handover_next_attempt_at,
                                                     handover_in_doubt, handover_then, handover_priority, handover_created_at)
               SELECT id, wms_id, CASE WHEN is_asked THEN 'withdrawing' END, $3, CASE WHEN is_asked THEN now() END, true,
                      CASE WHEN is_asked AND status = 'awaiting_processing' THEN status END, priority, created_at
               FROM doubtful
               ON CONFLICT (id) DO UPDATE
               SET (handover_wms_id, handover_state, handover_number, handover_next_attempt_at, handover_then, handover_since,
                    handover_attempts, handover_in_doubt, handover_contents_unknown, handover_known_number) = (
                   SELECT CASE WHEN is_handed_over('on_hold', h.handover_state) THEN h.handover_wms_id ELSE excluded.handover_wms_id END,
                          n.state, greatest(h.handover_number, $3),
                          CASE n.state WHEN 'withdrawing' THEN greatest(now(), h.handover_in_call_until) END,
                          CASE WHEN n.state IS DISTINCT FROM 'withdrawing' THEN NULL
                               WHEN h.handover_state = 'withdrawing' THEN h.handover_then
                               WHEN h.handover_state IN ('pending', 'sending') THEN 'awaiting_processing'
                               ELSE excluded.handover_then END,
                          CASE WHEN n.state IS DISTINCT FROM h.handover_state THEN now() ELSE h.handover_since END,
                          CASE WHEN n.state IS DISTINCT FROM h.handover_state THEN 0 ELSE h.handover_attempts END, true,
                          -- by an earlier set-back that it has not got over
                          h.handover_in_doubt AND h.handover_contents_unknown,
                          CASE WHEN h.handover_in_doubt THEN h.handover_known_number
                               WHEN h.handover_number < $3
                                   THEN nullif(h.handover_number - (coalesce(h.handover_state, '') = 'pending')::int, 0) END
                   FROM (SELECT CASE
                             WHEN h.handover_state IN ('sending', 'withdrawing') OR excluded.handover_state = 'withdrawing' THEN 'withdrawing'
                             WHEN h.handover_state <> 'pending' THEN h.handover_state
                             -- what nobody calls goes on by hand
                             WHEN EXISTS (SELECT FROM wms_setting s WHERE s.wms_id = excluded.handover_wms_id AND s.active)
                                 THEN 'withdrawing' END AS state) AS n)
               -- others are in doubt already, or a call with a number above the floor was made since
               WHERE h.handover_number < $3
                  OR NOT h.handover_in_doubt AND coalesce(h.handover_state, 'pending') = 'pending'
                  OR h.handover_in_doubt AND excluded.handover_state = 'withdrawing' AND h.handover_state IS DISTINCT FROM 'withdrawing'
               RETURNING h.handover_state = 'withdrawing' AS is_asked
           )
           SELECT (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last, count(*) AS "in_doubt!",
                  count(*) FILTER (WHERE is_asked) AS "asked!"
           FROM put"#,
        after,
        BATCH,
        floor,
        since,
        ask_warehouses,
        seen_at,
    )
    .fetch_one(connection)
    .await?;
    Ok(row.last.map(|last| Batch { last, in_doubt: row.in_doubt, asked: row.asked }))
}
