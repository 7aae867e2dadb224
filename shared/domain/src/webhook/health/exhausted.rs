//! Deliveries that were exhausted and not sent again: what an e-shop has missed.

use chrono::{DateTime, Utc};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use uuid::Uuid;

use super::LOOKED_AT;

/// Days that are looked at: an operator finds on Monday what was exhausted at the weekend.
pub const DAYS: i32 = 3;
/// The newest unsuccessful deliveries of a webhook that are looked at.
pub const COUNTED: i64 = 100;
/// Webhooks whose deliveries are looked at: the one of each organisation where one was exhausted last, then the next of each.
const COMPARED: i64 = 100;

/// A webhook with exhausted deliveries that were not sent again.
#[derive(Clone, Debug)]
pub struct Exhausted {
    /// Its id.
    pub id: WebhookId,
    /// Where it goes.
    pub destination: String,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// What it hears of: an e-shop, or its organisation.
    pub source_id: Uuid,
    /// Name of that.
    pub eshop: String,
    /// How many deliveries.
    pub deliveries: i64,
    /// There may be more: as many were looked at as [`COUNTED`].
    pub is_more: bool,
    /// When the last of them was exhausted.
    pub last_at: DateTime<Utc>,
    /// Since when every attempt fails, where the destination fails now.
    pub failing_since: Option<DateTime<Utc>>,
}

/// So many active webhooks of a scope that have such deliveries of the last [`DAYS`], with equal shares for organisations.
///
/// The counts of what was exhausted say where to look. An event counts once: a redelivery, on its way or ended, replaces what was before it.
pub async fn read(db: &Database, scope: &Scope, count: i64) -> Result<Vec<Exhausted>, Problem> {
    let found = sqlx::query_as!(
        Exhausted,
        r#"WITH RECURSIVE of_all (id, minute, nth) AS (
               -- where the scope does not name organisations
               (SELECT webhook_id, minute, 1::bigint FROM exhausted_activity
                WHERE $1::uuid[] IS NULL ORDER BY webhook_id DESC, minute DESC LIMIT 1)
               UNION ALL
               SELECT next.webhook_id, next.minute, o.nth + 1
               FROM of_all o CROSS JOIN LATERAL (
                   SELECT webhook_id, minute FROM exhausted_activity
                   WHERE webhook_id < o.id ORDER BY webhook_id DESC, minute DESC LIMIT 1) AS next
               WHERE o.nth < $6
           ), hook AS (
               SELECT id, minute FROM of_all
               UNION ALL
               SELECT w.id, last.minute
               FROM webhook w CROSS JOIN LATERAL (
                   SELECT minute FROM exhausted_activity
                   WHERE webhook_id = ANY (ARRAY[w.id]) ORDER BY webhook_id DESC, minute DESC LIMIT 1) AS last
               WHERE w.organisation_id = ANY ($1)
           ), oldest AS MATERIALIZED (
               SELECT uuid_v7_floor(now() - make_interval(days => $4)) AS id
           ), looked_at AS (
               SELECT w.id, w.destination, w.organisation_id, w.eshop_id, w.source_id, h.minute,
                      row_number() OVER (PARTITION BY w.organisation_id ORDER BY h.minute DESC, w.id) AS turn
               FROM hook h
               CROSS JOIN LATERAL (SELECT id, destination, organisation_id, eshop_id, source_id, active FROM webhook
                                   WHERE id = ANY (ARRAY[h.id]) LIMIT 1) AS w
               WHERE h.minute > now() - make_interval(days => $4) AND w.active
                 AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
               ORDER BY turn, h.minute DESC, w.id LIMIT (SELECT $5::bigint)
           ), missed AS (
               -- in the order of what is looked at: the look ends with the last that is listed
               SELECT l.*, of_it.* FROM looked_at l
               -- where nothing was ever sent again, no event is looked up; the bound of the events is for the index
               LEFT JOIN LATERAL (
                   SELECT true AS sent FROM delivery_history d
                   WHERE d.webhook_id = ANY (ARRAY[l.id]) AND d.event_id > '00000000-0000-0000-0000-000000000000'
                     AND d.redelivery_of IS NOT NULL
                   ORDER BY d.webhook_id DESC, d.event_id DESC LIMIT 1) AS redelivered ON true
               CROSS JOIN LATERAL (
                   SELECT count(*) FILTER (WHERE is_missed) AS deliveries, count(*) >= $3 AS is_more,
                          max(finished_at) FILTER (WHERE is_missed) AS last_at
                   FROM (
                       SELECT ended.finished_at, ended.state = 'exhausted' AND on_its_way.sent IS NULL AND later.sent IS NULL AS is_missed
                       FROM (
                           SELECT d.id, d.event_id, d.state, d.finished_at FROM delivery_history d
                           WHERE d.webhook_id = ANY (ARRAY[l.id]) AND d.state <> 'delivered'
                             AND d.finished_at > now() - make_interval(days => $4)
                           ORDER BY d.webhook_id DESC, d.finished_at DESC LIMIT (SELECT $3::bigint)) AS ended
                       LEFT JOIN LATERAL (
                           SELECT true AS sent FROM delivery d
                           WHERE d.webhook_id = l.id AND d.event_id = ended.event_id AND d.redelivery_of IS NOT NULL LIMIT 1
                       ) AS on_its_way ON true
                       -- it was made after the other had ended: the partitions before that are left out
                       LEFT JOIN LATERAL (
                           SELECT true AS sent FROM delivery_history d
                           WHERE redelivered.sent AND d.webhook_id = l.id AND d.event_id = ended.event_id AND d.redelivery_of IS NOT NULL
                             AND d.id > ended.id AND d.id > (SELECT id FROM oldest) LIMIT 1
                       ) AS later ON true) AS delivery
               ) AS of_it
               WHERE of_it.deliveries > 0
               ORDER BY l.turn, l.minute DESC, l.id LIMIT $7
           )
           SELECT m.id AS "id!: WebhookId", m.destination AS "destination!", m.organisation_id AS "organisation_id!: OrganisationId",
                  m.source_id AS "source_id!", s.name AS "eshop!", m.deliveries AS "deliveries!", m.is_more AS "is_more!",
                  m.last_at AS "last_at!",
                  (SELECT failing_since FROM webhook_lane WHERE webhook_id = ANY (ARRAY[m.id]) LIMIT 1) AS failing_since
           FROM missed m
           CROSS JOIN LATERAL (SELECT name FROM webhook_source WHERE id = ANY (ARRAY[m.source_id]) LIMIT 1) AS s
           ORDER BY m.last_at DESC, m.id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        DAYS,
        COMPARED,
        LOOKED_AT,
        count,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}
