//! The search for webhooks, those that are not well first.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{COUNTED, Health, PAGE};
use crate::list::criteria::containing;
use longshore_kernel::access::Scope;
use longshore_kernel::activity::CALLS_HOURS;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;

/// A webhook as a list shows it.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id.
    pub id: WebhookId,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of that.
    pub organisation: String,
    /// Its e-shop; nothing: it is one of the organisation.
    pub eshop_id: Option<EshopId>,
    /// Name of what it hears of.
    pub eshop: String,
    /// What it listens to.
    pub event: String,
    /// Where it goes.
    pub destination: String,
    /// Whether it is sent to.
    pub active: bool,
    /// Why it was disabled.
    pub disabled_reason: Option<String>,
    /// When it was disabled.
    pub disabled_at: Option<DateTime<Utc>>,
    /// Failures since the last success.
    pub failures: i32,
    /// Since when there was nothing else.
    pub failing_since: Option<DateTime<Utc>>,
    /// When the next probe is due, where the breaker is open.
    pub probe_at: Option<DateTime<Utc>>,
    /// Until when nothing is sent because the destination asked for that.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether something is due, and so would be the probe.
    pub due: bool,
    /// Calls of the last day.
    pub calls: i64,
    /// Of these, those that delivered.
    pub delivered: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

impl Line {
    /// How it is.
    #[must_use]
    pub fn health(&self) -> Health {
        Health::of(self.active, self.disabled_at.is_some(), self.failures)
    }
}

/// What is wanted of a list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// As it is.
    pub health: Option<Health>,
    /// With this in its destination, or in the name of its e-shop.
    pub text: Option<String>,
    /// Of this e-shop, or of this organisation itself.
    pub source: Option<Uuid>,
    /// Behind this one in the order.
    pub after: Option<WebhookId>,
    /// The order.
    pub sort: Sort,
    /// Webhooks a page; nothing: [`PAGE`].
    pub size: Option<usize>,
}

/// Orders of a list of webhooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Those that fail first, then those that were disabled, then the others; of each, the newest first.
    #[default]
    Health,
    /// The newest first.
    Newest,
    /// The oldest first.
    Oldest,
}

/// A page of webhooks; one more than a page has says that there are more.
///
/// Indexes find what is not well, up to [`COUNTED`] of each kind. The others are read in the order of their ids; these are all of
/// them, if there are more of a kind.
pub async fn page(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Vec<Line>, Problem> {
    let pattern = wanted.text.as_deref().map(containing);
    let found = sqlx::query_as!(
        Line,
        r#"WITH unwell AS MATERIALIZED (
               (SELECT w.id, 0 AS rank FROM webhook_lane l JOIN webhook w ON w.id = ANY (ARRAY[l.webhook_id])
                WHERE l.failures > 0 AND w.active AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id) LIMIT $11)
               UNION ALL
               (SELECT w.id, 1 FROM webhook w
                WHERE w.disabled_at IS NOT NULL AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id) LIMIT $11)
           ), known AS MATERIALIZED (
               SELECT coalesce(max(n), 0) < $11 AS are_all FROM (SELECT count(*) AS n FROM unwell GROUP BY rank) AS of_a_kind
           ), place AS MATERIALIZED (
               SELECT n.rank, CASE WHEN $5::uuid IS NOT NULL AND n.rank = 2 THEN $5::uuid
                                   WHEN $10 THEN '00000000-0000-0000-0000-000000000000'
                                   ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff' END AS others_from
               FROM (SELECT coalesce((SELECT u.rank FROM unwell u CROSS JOIN known k
                                      WHERE u.id = $5 AND k.are_all AND $9), 2) AS rank) AS n
           ), listed AS (
               SELECT u.id, CASE WHEN $9 THEN u.rank ELSE 2 END AS rank, true AS is_unwell FROM unwell u WHERE (SELECT are_all FROM known)
               UNION ALL
               (SELECT w.id, 2, false FROM webhook w JOIN webhook_lane l ON l.webhook_id = w.id JOIN webhook_source s ON s.id = w.source_id
                WHERE in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id) AND in_eshop($3, w.source_id)
                  AND ($4::text IS NULL OR w.destination ILIKE $4 OR s.name ILIKE $4)
                  AND CASE WHEN $10 THEN w.id > (SELECT others_from FROM place) ELSE w.id < (SELECT others_from FROM place) END
                  AND (NOT (SELECT are_all FROM known) OR $6::text IS NULL OR $6 IN ('inactive', 'healthy'))
                  AND (NOT (SELECT are_all FROM known) OR (w.disabled_at IS NULL AND NOT (w.active AND l.failures > 0)))
                  AND ($6::text IS NULL OR $6 <> 'disabled' OR w.disabled_at IS NOT NULL)
                  AND ($6::text IS NULL OR $6 <> 'failing' OR (w.active AND l.failures > 0))
                  AND ($6::text IS NULL OR $6 <> 'inactive' OR (NOT w.active AND w.disabled_at IS NULL))
                  AND ($6::text IS NULL OR $6 <> 'healthy' OR (w.active AND l.failures = 0))
                ORDER BY CASE WHEN $10 THEN w.id END, CASE WHEN NOT $10 THEN w.id END DESC LIMIT $7)
           ), page AS MATERIALIZED (
               SELECT n.id, n.rank FROM listed n JOIN webhook w ON w.id = ANY (ARRAY[n.id]) JOIN webhook_source s ON s.id = w.source_id
               WHERE ($5::uuid IS NULL OR n.rank > (SELECT rank FROM place)
                      OR (n.rank = (SELECT rank FROM place) AND CASE WHEN $10 THEN n.id > $5 ELSE n.id < $5 END))
                 AND in_eshop($3, w.source_id) AND ($4::text IS NULL OR w.destination ILIKE $4 OR s.name ILIKE $4)
                 AND ($6::text IS NULL OR NOT n.is_unwell OR $6 = CASE WHEN w.disabled_at IS NULL THEN 'failing' ELSE 'disabled' END)
               ORDER BY n.rank, CASE WHEN $10 THEN n.id END, CASE WHEN NOT $10 THEN n.id END DESC LIMIT $7
           )
           SELECT w.id AS "id!", w.organisation_id AS "organisation_id!", o.name AS "organisation!", w.eshop_id AS "eshop_id: EshopId", s.name AS "eshop!",
                  coalesce(w.event, array_to_string(w.events, ', ')) AS "event!", w.destination AS "destination!", w.active AS "active!", w.disabled_reason, w.disabled_at,
                  l.failures AS "failures!", l.failing_since, l.probe_at,
                  CASE WHEN l.held_until > now() THEN l.held_until END AS held_until,
                  coalesce((SELECT true FROM delivery d WHERE d.webhook_id = ANY (ARRAY[w.id]) AND d.next_attempt_at <= now()
                            ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1), false) AS "due!",
                  a.calls AS "calls!", a.delivered AS "delivered!", w.created_at AS "created_at!"
           FROM page
           JOIN webhook w ON w.id = ANY (ARRAY[page.id])
           JOIN webhook_lane l ON l.webhook_id = ANY (ARRAY[page.id])
           JOIN organisation o ON o.id = w.organisation_id
           JOIN webhook_source s ON s.id = w.source_id
           CROSS JOIN LATERAL (
               SELECT coalesce(sum(delivered + failed), 0)::bigint AS calls, coalesce(sum(delivered), 0)::bigint AS delivered
               FROM webhook_activity a
               -- by the key, although the index of minutes may be believed to have few
               WHERE a.webhook_id <= w.id AND (a.webhook_id, a.minute) > (w.id, now() - make_interval(hours => $8))
           ) a
           ORDER BY page.rank, CASE WHEN $10 THEN page.id END, CASE WHEN NOT $10 THEN page.id END DESC"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        wanted.source,
        pattern.as_deref(),
        wanted.after as Option<WebhookId>,
        wanted.health.map(Health::as_str),
        i64::try_from(wanted.size.unwrap_or(PAGE) + 1).map_err(Problem::internal)?,
        CALLS_HOURS,
        wanted.sort == Sort::Health,
        wanted.sort == Sort::Oldest,
        COUNTED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
