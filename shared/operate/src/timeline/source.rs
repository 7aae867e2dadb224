//! What each record of the past has of a thing: the audit, the movements of stock, the news of warehouses, and the deliveries.

use longshore_domain::webhook::delivery::DeliveryState;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, ExpeditionId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

use super::{About, Delivery, Movement, News, Record, SHOWN};

/// Waiting deliveries of a webhook among which those of the thing are looked for: the next ones.
const WAITING: i64 = 500;
/// Movements of a product that are looked at to tell what its stocks came to: the newest.
const COUNTED_BACK: i64 = 2_000;
/// Records of each order of a product that are read: the newest.
const OF_AN_ORDER: i64 = 20;

pub(super) async fn records(db: &Database, scope: &Scope, about: &About) -> Result<Vec<Record>, Problem> {
    let found = sqlx::query_as!(
        Record,
        r#"SELECT a.at AS "at!", a.action AS "action!", a.entity_type AS "entity_type!", a.entity_id AS "entity!",
                  NULL::text AS name,
                  CASE WHEN a.entity_type = 'expedition'
                       THEN (SELECT order_number FROM expedition_detail d WHERE d.id = a.entity_id) END AS order,
                  a.actor_type AS "actor_type!", a.actor_name AS "actor!", a.changes AS "changes!", a.request_id,
                  a.job_id AS "job: JobId", (SELECT kind FROM job j WHERE j.id = a.job_id) AS job_kind
           FROM (SELECT r.* FROM unnest($2::uuid[]) AS e (id) CROSS JOIN LATERAL (
                     SELECT * FROM audit
                     WHERE entity_id = ANY (ARRAY[e.id]) AND in_scope($1, organisation_id)
                       AND ($4::timestamptz IS NULL OR id >= uuid_v7_floor($4))
                       AND ($5::timestamptz IS NULL OR id < uuid_v7_floor($5))
                     ORDER BY entity_id DESC, id DESC LIMIT $6
                 ) AS r
                 UNION ALL
                 SELECT r.* FROM unnest($3::uuid[]) AS e (id) CROSS JOIN LATERAL (
                     SELECT * FROM audit
                     WHERE entity_id = ANY (ARRAY[e.id]) AND in_scope($1, organisation_id)
                       AND ($4::timestamptz IS NULL OR id >= uuid_v7_floor($4))
                       AND ($5::timestamptz IS NULL OR id < uuid_v7_floor($5))
                     ORDER BY entity_id DESC, id DESC LIMIT $7
                 ) AS r WHERE r.changes ? 'status') AS a
           ORDER BY a.id DESC LIMIT $6"#,
        scope.organisations() as Option<&[OrganisationId]>,
        &about.entities,
        &about.orders,
        about.since,
        about.until,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
        OF_AN_ORDER,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// A product and its stocks may be of several e-shops. A caller that is bound to one sees all movements, but
/// the order and the actor only of its own orders.
pub(super) async fn movements(db: &Database, scope: &Scope, about: &About) -> Result<Vec<Movement>, Problem> {
    if about.product.is_none() && about.expedition.is_none() {
        return Ok(Vec::new());
    }
    let found = sqlx::query_as!(
        Movement,
        r#"WITH moved AS (
               SELECT id, product_id, warehouse_id, wms_id,
                      sum(quantity) OVER (PARTITION BY warehouse_id, wms_id ORDER BY id DESC) - quantity AS later
               FROM (SELECT * FROM stock_movement WHERE product_id = $2 ORDER BY id DESC LIMIT $8) AS newest
           )
           SELECT m.at AS "at!", m.kind AS "kind!", m.quantity AS "quantity!", m.incoming AS "incoming!",
                  (SELECT k.quantity - l.later FROM moved l
                   JOIN product_stock k ON (k.product_id, k.warehouse_id, k.wms_id) = (l.product_id, l.warehouse_id, l.wms_id)
                   WHERE l.id = m.id) AS came_to,
                  (SELECT name FROM warehouse w WHERE w.id = m.warehouse_id) AS warehouse,
                  (SELECT name FROM wms w WHERE w.id = m.wms_id) AS wms,
                  (SELECT product_sku FROM product p WHERE p.id = m.product_id) AS sku,
                  (SELECT internal_id FROM stock_advice a WHERE a.id = m.stock_advice_id) AS advice,
                  CASE WHEN o.is_seen THEN m.expedition_id END AS "expedition: ExpeditionId",
                  CASE WHEN o.is_seen THEN (SELECT order_number FROM expedition_detail d WHERE d.id = m.expedition_id) END AS order,
                  CASE WHEN o.is_seen THEN m.actor_name END AS actor
           FROM (
               (SELECT * FROM stock_movement m
                WHERE m.product_id = $2 AND in_scope($1, m.organisation_id)
                  AND ($3::timestamptz IS NULL OR m.id >= uuid_v7_floor($3))
                  AND ($4::timestamptz IS NULL OR m.id < uuid_v7_floor($4))
                ORDER BY m.id DESC LIMIT $5)
               UNION ALL
               (SELECT * FROM stock_movement m
                WHERE m.expedition_id = $6 AND in_scope($1, m.organisation_id)
                  AND ($3::timestamptz IS NULL OR m.id >= uuid_v7_floor($3))
                  AND ($4::timestamptz IS NULL OR m.id < uuid_v7_floor($4))
                ORDER BY m.id DESC LIMIT $5)
           ) AS m
           CROSS JOIN LATERAL (
               SELECT in_eshop($7, (SELECT eshop_id FROM expedition e WHERE e.id = m.expedition_id)) AS is_seen
           ) AS o
           ORDER BY m.id DESC LIMIT $5"#,
        scope.organisations() as Option<&[OrganisationId]>,
        about.product,
        about.since,
        about.until,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
        about.expedition as Option<ExpeditionId>,
        scope.eshop() as Option<EshopId>,
        COUNTED_BACK,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// What its warehouses reported about an order.
pub(super) async fn news(db: &Database, about: &About) -> Result<Vec<News>, Problem> {
    let Some(order) = about.expedition else { return Ok(Vec::new()) };
    let found = sqlx::query_as!(
        News,
        r#"SELECT n.received_at AS at, n.id, (SELECT name FROM wms w WHERE w.id = n.wms_id) AS wms,
                  EXISTS (SELECT FROM wms_contradiction c
                          WHERE c.expedition_id = n.expedition_id AND c.wms_id = n.wms_id AND c.news_id = n.id) AS "contradicts!"
           FROM wms_news n
           WHERE n.expedition_id = $1 AND ($2::timestamptz IS NULL OR n.received_at >= $2)
             AND ($3::timestamptz IS NULL OR n.received_at < $3)
           ORDER BY n.received_at DESC LIMIT $4"#,
        order.get(),
        about.since,
        about.until,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// What has ended, by the index of entities; what waits, among the next deliveries of each webhook of the e-shops.
pub(super) async fn deliveries(
    db: &Database,
    scope: &Scope,
    about: &About,
) -> Result<Vec<Delivery>, Problem> {
    let found = sqlx::query_as!(
        Delivery,
        r#"SELECT d.created_at AS "at!", d.id AS "id!", d.event AS "event!", d.webhook_id AS "webhook!",
                  w.destination AS "destination?", d.state AS "state!: DeliveryState", d.attempt_count AS "attempts!", d.last,
                  d.finished_at
           FROM (
               SELECT h.* FROM unnest($3::uuid[]) AS e (id) CROSS JOIN LATERAL (
                   SELECT id, event_type AS event, webhook_id, state, attempt_count, attempts -> -1 AS last, created_at, finished_at
                   FROM delivery_history
                   WHERE entity_id = e.id AND in_scope($1, organisation_id) AND in_eshop($2, eshop_id)
                     AND ($5::timestamptz IS NULL OR id >= uuid_v7_floor($5))
                     AND ($6::timestamptz IS NULL OR id < uuid_v7_floor($6))
                   ORDER BY id DESC LIMIT $7
               ) AS h
               UNION ALL
               SELECT d.id, v.type, d.webhook_id, 'pending', d.attempt_count, d.attempts -> -1, d.created_at, NULL
               FROM webhook w CROSS JOIN LATERAL (
                   SELECT * FROM delivery d WHERE d.webhook_id = ANY (ARRAY[w.id])
                   ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT $8
               ) AS d
               -- each by its key, although all of them may be believed to be few
               CROSS JOIN LATERAL (SELECT type, entity_id FROM event WHERE id = d.event_id OFFSET 0) AS v
               WHERE w.source_id = ANY ($4 || ARRAY(SELECT organisation_id FROM eshop WHERE id = ANY ($4))) AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
                 AND v.entity_id = ANY ($3) AND ($5::timestamptz IS NULL OR d.created_at >= $5)
                 AND ($6::timestamptz IS NULL OR d.created_at < $6)
           ) AS d LEFT JOIN webhook w ON w.id = d.webhook_id
           ORDER BY d.id DESC LIMIT $7"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        &about.entities,
        &about.eshops as &[EshopId],
        about.since,
        about.until,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
        WAITING,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
