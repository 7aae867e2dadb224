//! The sources of a search: what waits, what has ended, and what of that did not succeed. Each returns what matches, and the last
//! delivery that it looked at if there may be more behind it.
//!
//! Lists are planned for their values, so `CASE WHEN $n THEN id END, CASE WHEN NOT $n THEN id END DESC` is the order of an index in
//! one direction or the other.

use super::{Inner, Line, UNSUCCESSFUL_WINDOW, WAITING_WINDOW, WEBHOOKS_WINDOW, WINDOW, Waits};
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use uuid::Uuid;

/// The deliveries that wait. Few criteria have an index: the others are looked up for each delivery.
pub(super) async fn waiting(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    let found = sqlx::query_as!(
        Line,
        r#"SELECT d.id AS "id!", d.webhook_id AS "webhook_id!",
                  (SELECT destination FROM webhook w WHERE w.id = d.webhook_id) AS destination,
                  d.eshop_id AS "eshop_id: EshopId", (SELECT name FROM eshop s WHERE s.id = d.eshop_id) AS eshop,
                  'pending' AS "state!: DeliveryState", (SELECT e.type FROM event e WHERE e.id = d.event_id) AS event,
                  (SELECT e.entity_id FROM event e WHERE e.id = d.event_id) AS entity,
                  (SELECT coalesce(e.data ->> 'productSku', e.data ->> 'orderNumber')
                   FROM event e WHERE e.id = d.event_id) AS name,
                  d.attempt_count AS "attempt_count!", d.attempts -> -1 AS last, d.created_at AS "created_at!",
                  d.next_attempt_at AS "next_attempt_at?", NULL::timestamptz AS finished_at,
                  coalesce(d.matches, false) AS "matches!",
                  d.place = $12 AS "is_edge!"
           FROM (
               SELECT *, row_number() OVER (ORDER BY CASE WHEN $10 THEN id END, CASE WHEN NOT $10 THEN id END DESC) AS place,
                      in_eshop($1, eshop_id) AND ($2::uuid[] IS NULL OR webhook_id = ANY ($2))
                      AND in_eshop($3, (SELECT w.organisation_id FROM webhook w WHERE w.id = webhook_id))
                      AND in_scope($4, (SELECT w.organisation_id FROM webhook w WHERE w.id = webhook_id))
                      AND ($5::text IS NULL OR (SELECT e.type FROM event e WHERE e.id = event_id) = $5)
                      AND ($6::uuid[] IS NULL OR (SELECT e.entity_id FROM event e WHERE e.id = event_id) = ANY ($6))
                      AND ($7::timestamptz IS NULL OR created_at >= $7)
                      AND ($8::timestamptz IS NULL OR created_at < $8)
                      AND ($13::text IS NULL OR ((SELECT w.active FROM webhook w WHERE w.id = webhook_id)
                           AND CASE WHEN $13 = 'due' THEN next_attempt_at <= now()
                                    ELSE attempt_count > 0 AND next_attempt_at > now() END)) AS matches
               FROM (
                   SELECT * FROM delivery
                   WHERE ($7::timestamptz IS NULL OR id >= uuid_v7_floor($7))
                     AND ($8::timestamptz IS NULL OR id < uuid_v7_floor($8 + interval '10 minutes'))
                     AND ($9::uuid IS NULL OR CASE WHEN $10 THEN id > $9 ELSE id < $9 END)
                   ORDER BY CASE WHEN $10 THEN id END, CASE WHEN NOT $10 THEN id END DESC LIMIT $12
               ) AS looked_at
           ) AS d
           WHERE d.matches OR d.place = $12
           ORDER BY CASE WHEN $10 THEN d.id END, CASE WHEN NOT $10 THEN d.id END DESC LIMIT $11"#,
        inner.eshop as Option<EshopId>,
        inner.webhooks.as_deref() as Option<&[WebhookId]>,
        inner.organisation as Option<OrganisationId>,
        inner.organisations as Option<&[OrganisationId]>,
        inner.wanted.event.as_deref(),
        inner.wanted.entities.as_deref(),
        inner.wanted.since,
        inner.wanted.until,
        inner.wanted.after.map(|place| place.id) as Option<DeliveryId>,
        inner.wanted.oldest,
        inner.limit,
        WAITING_WINDOW,
        inner.wanted.waits.map(Waits::as_str),
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// The ended deliveries of each `$of`, by the index that has the condition `$index`, in the order of their ids.
macro_rules! ended {
    ($of:literal, $index:literal, $inner:expr, $window:expr, $db:expr) => {
        sqlx::query_as!(
            Line,
            r#"SELECT h.id AS "id!", h.webhook_id AS "webhook_id!",
                      (SELECT destination FROM webhook w WHERE w.id = h.webhook_id) AS destination, h.eshop_id AS "eshop_id: EshopId",
                      (SELECT name FROM eshop s WHERE s.id = h.eshop_id) AS eshop, h.state AS "state!: DeliveryState",
                      h.event_type AS event, h.entity_id AS entity,
                      (SELECT coalesce(e.data ->> 'productSku', e.data ->> 'orderNumber')
                       FROM event e WHERE e.id = h.event_id) AS name,
                      h.attempt_count AS "attempt_count!", h.attempts -> -1 AS last, h.created_at AS "created_at!",
                      NULL::timestamptz AS next_attempt_at, h.finished_at, h.matches AS "matches!",
                      h.place = $13 AS "is_edge!"
               FROM "#
                + $of
                + r#" (
                 SELECT * FROM (
                   SELECT *, row_number() OVER (ORDER BY CASE WHEN $11 THEN id END, CASE WHEN NOT $11 THEN id END DESC) AS place,
                          ($5::uuid[] IS NULL OR entity_id = ANY ($5)) AND ($6::text IS NULL OR state = $6)
                          AND ($7::text IS NULL OR event_type = $7) AND ($8::timestamptz IS NULL OR created_at >= $8)
                          AND ($9::timestamptz IS NULL OR created_at < $9) AS matches
                   FROM (
                       SELECT * FROM delivery_history
                       WHERE in_eshop($1, organisation_id) AND in_scope($2, organisation_id) AND in_eshop($3, eshop_id)
                         AND ($8::timestamptz IS NULL OR id >= uuid_v7_floor($8))
                         AND ($9::timestamptz IS NULL OR id < uuid_v7_floor($9 + interval '10 minutes'))
                         AND ($10::uuid IS NULL OR CASE WHEN $11 THEN id > $10 ELSE id < $10 END) AND "#
                + $index
                + r#"
                       ORDER BY CASE WHEN $11 THEN id END, CASE WHEN NOT $11 THEN id END DESC LIMIT (SELECT $13::bigint)
                   ) AS looked_at
                 ) AS numbered
                 WHERE matches OR place = $13
                 ORDER BY CASE WHEN $11 THEN id END, CASE WHEN NOT $11 THEN id END DESC LIMIT $12
               ) AS h
               ORDER BY CASE WHEN $11 THEN h.id END, CASE WHEN NOT $11 THEN h.id END DESC LIMIT $12"#,
            $inner.organisation as Option<OrganisationId>,
            $inner.organisations as Option<&[OrganisationId]>,
            $inner.eshop as Option<EshopId>,
            $inner.webhooks.as_deref() as Option<&[WebhookId]>,
            $inner.wanted.entities.as_deref() as Option<&[Uuid]>,
            $inner.wanted.state.map(DeliveryState::as_str),
            $inner.wanted.event.as_deref(),
            $inner.wanted.since,
            $inner.wanted.until,
            $inner.wanted.after.map(|place| place.id) as Option<DeliveryId>,
            $inner.wanted.oldest,
            $inner.limit,
            $window,
        )
        .fetch_all(&$db.lists)
        .await
    };
}

/// The ended deliveries: of the webhooks that are wanted, each by its index, or by the index of what else is.
pub(super) async fn ended(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    let Some(webhooks) = &inner.webhooks else {
        let found = ended!(
            "",
            "$4::uuid[] IS NULL AND ($5::uuid[] IS NULL OR entity_id = ANY ($5))",
            inner,
            WINDOW,
            db
        )?;
        return Ok(found);
    };
    // together they look at as many as one search may
    let each = WEBHOOKS_WINDOW / i64::try_from(webhooks.len().max(1)).map_err(Problem::internal)?;
    let window = each.max(inner.limit);
    let found = ended!(
        "unnest($4::uuid[]) AS hook (id) CROSS JOIN LATERAL",
        "webhook_id = hook.id",
        inner,
        window,
        db
    )?;
    Ok(found)
}

/// Those of the wanted webhooks that did not succeed, by their end.
pub(super) async fn unsuccessful(
    db: &Database,
    inner: &Inner<'_>,
    size: usize,
) -> Result<Vec<Line>, Problem> {
    let (at, id) = inner.wanted.after.map(|place| (place.at, place.id)).unzip();
    let found = sqlx::query_as!(
        Line,
        r#"SELECT h.id AS "id!", h.webhook_id AS "webhook_id!",
                  (SELECT destination FROM webhook w WHERE w.id = h.webhook_id) AS destination,
                  h.eshop_id AS "eshop_id: EshopId", (SELECT name FROM eshop s WHERE s.id = h.eshop_id) AS eshop,
                  h.state AS "state!: DeliveryState", h.event_type AS event, h.entity_id AS entity,
                  (SELECT coalesce(e.data ->> 'productSku', e.data ->> 'orderNumber')
                   FROM event e WHERE e.id = h.event_id) AS name,
                  h.attempt_count AS "attempt_count!", h.attempts -> -1 AS last, h.created_at AS "created_at!",
                  NULL::timestamptz AS next_attempt_at, h.finished_at, h.matches AS "matches!",
                  h.place = $12 AS "is_edge!"
           FROM unnest($1::uuid[]) AS hook (id) CROSS JOIN LATERAL (
             SELECT * FROM (
               SELECT *, row_number() OVER (ORDER BY CASE WHEN $10 THEN finished_at END, CASE WHEN $10 THEN id END,
                                                     CASE WHEN NOT $10 THEN finished_at END DESC,
                                                     CASE WHEN NOT $10 THEN id END DESC) AS place,
                      ($4::text IS NULL OR state = $4) AND ($5::text IS NULL OR event_type = $5) AS matches
               FROM (
                   SELECT * FROM delivery_history
                   WHERE webhook_id = hook.id AND state <> 'delivered' AND in_scope($2, organisation_id)
                     AND in_eshop($3, eshop_id) AND ($6::timestamptz IS NULL OR finished_at >= $6)
                     AND ($7::timestamptz IS NULL OR finished_at < $7)
                     AND ($8::timestamptz IS NULL OR CASE WHEN $10 THEN (finished_at, id) > ($8, $9)
                                                          ELSE (finished_at, id) < ($8, $9) END)
                   ORDER BY CASE WHEN $10 THEN finished_at END, CASE WHEN $10 THEN id END,
                            CASE WHEN NOT $10 THEN finished_at END DESC, CASE WHEN NOT $10 THEN id END DESC LIMIT $12
               ) AS looked_at
             ) AS numbered
             WHERE matches OR place = $12
             ORDER BY CASE WHEN $10 THEN finished_at END, CASE WHEN $10 THEN id END,
                      CASE WHEN NOT $10 THEN finished_at END DESC, CASE WHEN NOT $10 THEN id END DESC LIMIT $11
           ) AS h
           ORDER BY CASE WHEN $10 THEN h.finished_at END, CASE WHEN $10 THEN h.id END,
                    CASE WHEN NOT $10 THEN h.finished_at END DESC, CASE WHEN NOT $10 THEN h.id END DESC LIMIT $11"#,
        inner.webhooks.as_deref().unwrap_or_default() as &[WebhookId],
        inner.organisations as Option<&[OrganisationId]>,
        inner.eshop as Option<EshopId>,
        inner.wanted.state.map(DeliveryState::as_str),
        inner.wanted.event.as_deref(),
        inner.wanted.since,
        inner.wanted.until,
        at,
        id as Option<DeliveryId>,
        inner.wanted.oldest,
        inner.limit,
        i64::try_from(UNSUCCESSFUL_WINDOW.max(size + 1)).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
