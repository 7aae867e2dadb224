//! Calls that are due: found in turn, recorded as begun, and read as the system of the warehouse gets them.
//!
//! A call is recorded before it begins, under the lock of its order: from then on the order is handed over, independent of
//! the worker. Until [`IN_CALL`] later, or until its outcome is recorded, nothing else is called of the order, so a withdrawal
//! follows the call that it withdraws, also where the worker that made it has died.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::lane::Lease;
use crate::list;
use crate::list::fields::expedition::{EXPEDITION, HandoverState};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;

/// How long a recorded call keeps others away: it begins within [`BEGIN_WITHIN`] and has a time limit of 15 s.
pub const IN_CALL: Duration = Duration::from_secs(30);

/// A recorded call that has not begun by then does not begin.
pub const BEGIN_WITHIN: Duration = Duration::from_secs(10);

/// What is asked of the system of the warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To take the order (`PUT`).
    Take,
    /// To give it back (`DELETE`).
    GiveBack,
}

/// A call that is recorded as begun.
#[derive(Clone, Debug)]
pub struct Due {
    /// The order.
    pub expedition: ExpeditionId,
    /// Which hand-over of it.
    pub number: i32,
    /// What is asked.
    pub ask: Ask,
    /// Which attempt in this state, from 1.
    pub attempt: usize,
    /// Until when nothing else is called of the order; no other call of it has the same.
    pub in_call_until: DateTime<Utc>,
    /// The JSON that is sent: the order, or the number of what is withdrawn, since receivers of signed calls expect JSON.
    pub body: Bytes,
}

impl Due {
    /// The key of the hand-over: `{id}.{number}`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}.{}", self.expedition, self.number)
    }
}

/// Records up to `most` calls as begun: what was called before and is due again, then what is new, in turn. Nothing without a live
/// lease, once the breaker has opened, or while a [set-back](longshore_kernel::set_back) is not mended. A locked order is left for the
/// next look.
pub async fn begin(db: &Database, lease: &Lease, most: usize) -> Result<Vec<Due>, Problem> {
    let rows = sqlx::query!(
        r#"WITH lane AS MATERIALIZED (
               -- Every second probe asks for an order that was never called: orders that the system answers with errors, each
               -- time, hold up no others.
               SELECT l.probe_at IS NOT NULL AND l.probes % 2 = 1 AND EXISTS (
                          SELECT FROM expedition_handover p
                          WHERE p.handover_wms_id = $1 AND p.handover_state = 'pending' AND p.handover_next_attempt_at <= now()
                            AND p.handover_created_at >= s.since AND handover_is_covered(p.id)) AS probes_fresh,
                      s.since
               FROM wms_lane l JOIN wms_setting s ON s.wms_id = l.wms_id
               WHERE l.wms_id = $1 AND l.token = $2 AND s.active AND NOT s.paused AND s.changed_at = $5
                 AND coalesce(greatest(l.probe_at, l.held_until) <= now(), true)
                 AND NOT EXISTS (SELECT FROM set_back WHERE mended_at IS NULL)
           ), again AS MATERIALIZED (
               SELECT h.id FROM expedition_handover h JOIN expedition e ON e.id = ANY (ARRAY[h.id])
               WHERE h.handover_wms_id = $1 AND h.handover_state IN ('sending', 'withdrawing')
                 AND h.handover_next_attempt_at <= now() AND EXISTS (SELECT FROM lane)
               ORDER BY h.handover_next_attempt_at, h.id
               LIMIT CASE WHEN (SELECT probes_fresh FROM lane) THEN 0 ELSE $3::bigint END FOR NO KEY UPDATE OF e SKIP LOCKED
           ), fresh AS MATERIALIZED (
               SELECT h.id FROM expedition_handover h JOIN expedition e ON e.id = ANY (ARRAY[h.id])
               WHERE h.handover_wms_id = $1 AND h.handover_state = 'pending' AND h.handover_next_attempt_at <= now()
                 AND e.status = 'awaiting_processing' AND handover_is_covered(h.id)
                 AND h.handover_created_at >= (SELECT since FROM lane)
               ORDER BY h.handover_priority DESC, h.handover_created_at, h.id
               LIMIT greatest(0, $3::bigint - (SELECT count(*) FROM again)) FOR NO KEY UPDATE OF e SKIP LOCKED
           ), due AS (
               SELECT id FROM again UNION ALL SELECT id FROM fresh
           ), begun AS (
               UPDATE expedition_handover h
               SET handover_state = CASE h.handover_state WHEN 'pending' THEN 'sending' ELSE h.handover_state END,
                   handover_since = CASE h.handover_state WHEN 'pending' THEN now() ELSE h.handover_since END,
                   handover_attempts = h.handover_attempts + 1,
                   handover_in_call_until = now() + make_interval(secs => $4),
                   handover_next_attempt_at = now() + make_interval(secs => $4)
               FROM due
               -- what was changed before its order was locked is looked at as it is now
               WHERE h.id = ANY (ARRAY[due.id]) AND h.handover_wms_id = $1
                 AND h.handover_state IN ('pending', 'sending', 'withdrawing') AND h.handover_next_attempt_at <= now()
               RETURNING h.id, h.handover_number, h.handover_state, h.handover_attempts, h.handover_in_call_until,
                         h.handover_priority, h.handover_created_at
           )
           SELECT id AS "id!", handover_number AS "number!", handover_state AS "state!: HandoverState",
                  handover_attempts AS "attempts!", handover_in_call_until AS "in_call_until!"
           FROM begun ORDER BY handover_priority DESC, handover_created_at, id"#,
        lease.wms.get(),
        lease.token,
        i64::try_from(most).map_err(Problem::internal)?,
        IN_CALL.as_secs_f64(),
        lease.version,
    )
    .fetch_all(&db.main)
    .await?;
    let taken: Vec<Uuid> =
        rows.iter().filter(|row| row.state == HandoverState::Sending).map(|row| row.id).collect();
    let mut orders = if taken.is_empty() { HashMap::new() } else { orders(db, &taken).await? };
    let due = rows.into_iter().map(|row| {
        let ask = if row.state == HandoverState::Sending { Ask::Take } else { Ask::GiveBack };
        let mut body = orders.remove(&row.id).unwrap_or_default();
        body.insert("number".to_owned(), json!(row.number));
        Due {
            expedition: row.id.into(),
            number: row.number,
            ask,
            attempt: usize::try_from(row.attempts).unwrap_or(1),
            in_call_until: row.in_call_until,
            body: Bytes::from(Value::Object(body).to_string()),
        }
    });
    Ok(due.collect())
}

/// Orders as the system of a warehouse gets them: their records, with what it needs to know of their products and carriers.
async fn orders(db: &Database, ids: &[Uuid]) -> Result<HashMap<Uuid, Map<String, Value>>, Problem> {
    let records = list::find_each(&db.main, &EXPEDITION, &Scope::Everything, ids).await?;
    let further = sqlx::query!(
        r#"SELECT d.id AS "id!", (SELECT c.code FROM carrier c WHERE c.id = d.carrier_id) AS carrier_code,
                  (SELECT v.code FROM carrier_service v WHERE v.id = d.carrier_service_id) AS carrier_service_code,
                  (SELECT jsonb_object_agg(p.id, jsonb_build_object(
                              'name', p.name, 'referenceNumbers', p.reference_numbers, 'workAroundSnIn', p.work_around_sn_in,
                              'workAroundEanSticker', p.work_around_ean_sticker,
                              'workAroundWarrantyInf', p.work_around_warranty_inf, 'workAroundLot', p.work_around_lot))
                   FROM product p
                   WHERE p.id = ANY (ARRAY(SELECT i.product_id FROM expedition_item i WHERE i.expedition_id = d.id)))
                      AS "products?: Value"
           FROM unnest($1::uuid[]) AS g (id) JOIN expedition_detail d ON d.id = ANY (ARRAY[g.id])"#,
        ids,
    )
    .fetch_all(&db.main)
    .await?;
    let mut further: HashMap<Uuid, _> = further.into_iter().map(|row| (row.id, row)).collect();
    let mut orders = HashMap::new();
    for record in records {
        let Value::Object(mut order) = serde_json::from_str(&record.json).map_err(Problem::internal)? else {
            continue;
        };
        // it differs from call to call, and a system may compare what comes again under the same key
        order.remove("handover");
        if let Some(row) = further.remove(&record.id) {
            order.insert("carrierCode".to_owned(), json!(row.carrier_code));
            order.insert("carrierServiceCode".to_owned(), json!(row.carrier_service_code));
            for item in order.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
                let of = item["product"].as_str().and_then(|id| row.products.as_ref()?.get(id)?.as_object());
                if let (Some(of), Some(item)) = (of.cloned(), item.as_object_mut()) {
                    item.extend(of);
                }
            }
        }
        orders.insert(record.id, order);
    }
    Ok(orders)
}
