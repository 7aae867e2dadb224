//! Lanes that stay leased although nothing is due.

use chrono::{DateTime, Utc};

use super::found::Due;
use super::lease::Lease;
use crate::calling::{LEASE, Renewed};
use crate::webhook::event::Event;
use longshore_kernel::database::Database;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Notice;

/// What renewing a lease and looking at its lane has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Looked {
    /// What became of the lease; [`Renewed::No`] if it is lost.
    pub renewed: Renewed,
    /// In how many seconds its first delivery is due: 0 or less if one is due now, nothing if there is none.
    pub due_in: Option<f64>,
}

/// Renews leases and looks for what is due in their lanes, in the order of the leases. Nothing for a lane that is locked
/// just now: its lease is as it was.
///
/// It waits for no lane, so that one which is being changed does not cost the others their leases. As [`lease`](super::lease())
/// it does not wait for the disk.
pub async fn look(db: &Database, leases: &[&Lease]) -> Result<Vec<Option<Looked>>, Problem> {
    let mut sorted: Vec<&Lease> = leases.to_vec();
    // locked in the order of their keys, the common order of locks
    sorted.sort_unstable_by_key(|lease| lease.webhook);
    let webhooks: Vec<WebhookId> = sorted.iter().map(|lease| lease.webhook).collect();
    let tokens: Vec<i64> = sorted.iter().map(|lease| lease.token).collect();
    let versions: Vec<DateTime<Utc>> = sorted.iter().map(|lease| lease.version).collect();
    let rotations: Vec<i32> = sorted.iter().map(|lease| lease.rotations).collect();
    let rows = sqlx::query!(
        r#"WITH given AS MATERIALIZED (
               SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::int[])
                   AS g (webhook_id, token, version, rotations)
           ), held AS MATERIALIZED (
               SELECT l.webhook_id FROM given g CROSS JOIN LATERAL (
                   SELECT webhook_id FROM webhook_lane
                   -- not one that was released meanwhile
                   WHERE webhook_lane.webhook_id = g.webhook_id AND webhook_lane.token = g.token
                     AND webhook_lane.leased_until > '-infinity'
                   FOR NO KEY UPDATE SKIP LOCKED
               ) l
           ), renewed AS (
               -- as `renew` does: what the lane says is read under its lock
               UPDATE webhook_lane l SET leased_until = now() + make_interval(secs => $5)
               FROM given g
               WHERE l.webhook_id = ANY (ARRAY(SELECT webhook_id FROM held)) AND l.webhook_id = g.webhook_id AND l.token = g.token
               RETURNING l.webhook_id, l.token, l.nothing_before,
                   l.rotations = g.rotations AND l.probe_at IS NULL AND coalesce(l.held_until <= now(), true) AND EXISTS (
                       SELECT FROM webhook w WHERE w.id = l.webhook_id AND w.active AND w.changed_at = g.version) AS as_leased
           )
           SELECT g.webhook_id AS "webhook!: WebhookId", g.token AS "token!", renewed.as_leased AS "as_leased?",
                  renewed.nothing_before AS "nothing_before?",
                  (SELECT l.token FROM webhook_lane l WHERE l.webhook_id = g.webhook_id) IS NOT DISTINCT FROM g.token AS "is_theirs!",
                  (SELECT extract(epoch FROM d.next_attempt_at - clock_timestamp())::float8 FROM delivery d
                   WHERE d.webhook_id = g.webhook_id AND d.next_attempt_at >= renewed.nothing_before
                   ORDER BY d.next_attempt_at, d.id LIMIT 1) AS due_in
           FROM given g LEFT JOIN renewed USING (webhook_id, token)"#,
        &webhooks as &[WebhookId],
        &tokens,
        &versions,
        &rotations,
        LEASE.as_secs_f64(),
    )
    .fetch_all(&db.leases)
    .await?;
    let of = |lease: &&Lease| {
        let row = rows.iter().find(|row| (row.webhook, row.token) == (lease.webhook, lease.token))?;
        let renewed = match row.as_leased {
            // what became due before the beginning that the lease knows is found under a new one
            Some(true) if row.nothing_before.is_none_or(|beginning| beginning >= lease.nothing_before) => {
                Renewed::Yes
            }
            Some(_) => Renewed::ToEnd,
            None if row.is_theirs => return None,
            None => Renewed::No,
        };
        Some(Looked { renewed, due_in: row.due_in })
    };
    Ok(leases.iter().map(of).collect())
}

/// What a notice says is due. It is the first attempt: an entry is put once, when the delivery is recorded.
impl From<Notice> for Due {
    fn from(notice: Notice) -> Self {
        let Notice { delivery, event: id, kind, entity, at, data, eshops, request_id, traceparent, .. } =
            notice;
        // a test is announced without its contents
        let event = Event { id, kind, entity, is_test: false, at, data, eshops, request_id, traceparent };
        Self { id: delivery, event: Some(event), attempts: 0 }
    }
}
