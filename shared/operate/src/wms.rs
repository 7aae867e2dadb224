//! Wms as operators see them: how the system of each is called, how far its hand-overs are behind, and what it refused.
//!
//! Each look is bounded, however many orders there are: an index says which are looked at, and at most so many.

use chrono::{DateTime, Utc};

use super::order;
use super::order::attention::{UNANSWERED_SECONDS, WAITING};
use longshore_domain::list::criteria::containing;
use longshore_domain::list::fields::expedition::HandoverState;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{ExpeditionId, OrganisationId, WmsId};
use longshore_kernel::problem::Problem;
use longshore_kernel::words;
use uuid::Uuid;

/// Wms a page.
pub const PAGE: usize = 50;
/// Reasons of refusals that are shown of a wms.
pub const REASONS: i64 = 20;
/// Calls that are shown of a wms: those that wait, and the last answers; and orders that only it has.
pub const CALLS: i64 = 20;

words! {
    /// How the hand-over of a wms is.
    pub enum Course ("state of a wms") {
        /// The last calls of its system failed.
        Failing = "failing",
        /// An operator paused the calls.
        Paused = "paused",
        /// Its system is called.
        Healthy = "healthy",
        /// Its setting is switched off: orders go on by hand.
        Inactive = "inactive",
        /// It has no setting: orders go on by hand.
        ByHand = "by_hand",
    }
}

impl Course {
    /// Whether its system is called, now or when a pause ends.
    #[must_use]
    pub fn is_called(self) -> bool {
        matches!(self, Self::Failing | Self::Paused | Self::Healthy)
    }
}

/// A wms.
#[derive(Clone, Debug)]
pub struct Wms {
    /// Its id.
    pub id: WmsId,
    /// Its name.
    pub name: String,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of that.
    pub organisation: String,
    /// How it is.
    pub course: Course,
    /// Whether its setting is paused.
    pub paused: bool,
    /// Where its system is; absent without a setting.
    pub base_url: Option<String>,
    /// Calls at once.
    pub max_in_flight: Option<i32>,
    /// When the setting was stored.
    pub changed_at: Option<DateTime<Utc>>,
    /// Failures since the last success.
    pub failures: i32,
    /// Since when there was nothing else.
    pub failing_since: Option<DateTime<Utc>>,
    /// When the next probe is due, where the breaker is open.
    pub probe_at: Option<DateTime<Utc>>,
    /// Probes that have failed since it opened.
    pub probes: i32,
    /// Until when the system asked to be left alone.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether nothing is called since Postgres was set back, and that is not mended.
    pub set_back: bool,
    /// Whether a worker calls it at this moment.
    pub leased: bool,
    /// The last failure, until a call succeeds or the setting is stored again.
    pub error: Option<String>,
    /// When.
    pub error_at: Option<DateTime<Utc>>,
    /// Of which order.
    pub error_order: Option<ExpeditionId>,
    /// Its number.
    pub error_order_number: Option<String>,
    /// Orders that wait for their first call, up to [`WAITING`].
    pub pending: i64,
    /// Orders that were called, or asked back, and are not settled: no call was answered, or answered with an error; up to [`WAITING`].
    pub called: i64,
    /// Since when the oldest of both waits.
    pub waiting_since: Option<DateTime<Utc>>,
    /// Cancels without an answer for over an hour, up to [`WAITING`].
    pub unanswered: i64,
    /// The oldest order of these.
    pub first_unanswered: Option<ExpeditionId>,
}

impl Wms {
    /// Whether it has a setting.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.base_url.is_some()
    }
}

/// What is wanted of a list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// As it is.
    pub course: Option<Course>,
    /// With this in its name, that of its organisation, or its address.
    pub text: Option<String>,
    /// Behind this one, by name.
    pub after: Option<WmsId>,
}

/// A page of wms, by name; one more than [`PAGE`] says that there are more.
pub async fn page(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Vec<Wms>, Problem> {
    read(db, scope, None, wanted).await
}

/// The wms of that id, if it is in the scope.
pub async fn find(db: &Database, scope: &Scope, id: WmsId) -> Result<Option<Wms>, Problem> {
    Ok(read(db, scope, Some(id), &Filter::default()).await?.pop())
}

async fn read(
    db: &Database,
    scope: &Scope,
    only: Option<WmsId>,
    wanted: &Filter,
) -> Result<Vec<Wms>, Problem> {
    let pattern = wanted.text.as_deref().map(containing);
    let found = sqlx::query_as!(
        Wms,
        r#"WITH shown AS MATERIALIZED (
               SELECT * FROM (
                   SELECT m.id, m.name, m.organisation_id, o.name AS organisation, s.base_url, s.max_in_flight, s.changed_at,
                          coalesce(s.paused, false) AS paused, l.failures, l.failing_since, l.probe_at, l.probes, l.held_until,
                          l.leased_until, l.error, l.error_at, l.error_expedition_id,
                          CASE WHEN s.wms_id IS NULL THEN 'by_hand' WHEN NOT s.active THEN 'inactive'
                               WHEN l.failures > 0 THEN 'failing' WHEN s.paused THEN 'paused' ELSE 'healthy' END AS course
                   FROM wms m
                   JOIN organisation o ON o.id = m.organisation_id
                   LEFT JOIN wms_setting s ON s.wms_id = m.id
                   LEFT JOIN wms_lane l ON l.wms_id = m.id
                   WHERE in_scope($1, m.organisation_id) AND ($2::uuid IS NULL OR m.id = $2)
               ) AS m
               WHERE ($3::text IS NULL OR m.name ILIKE $3 OR m.organisation ILIKE $3 OR m.base_url ILIKE $3)
                 AND ($4::uuid IS NULL OR (m.name, m.id) > ((SELECT name FROM wms WHERE id = $4), $4))
                 AND ($5::text IS NULL OR m.course = $5)
               ORDER BY m.name, m.id LIMIT $6
           )
           SELECT m.id AS "id!", m.name AS "name!", m.organisation_id AS "organisation_id!", m.organisation AS "organisation!",
                  m.course AS "course!: Course", m.paused AS "paused!", m.base_url AS "base_url?",
                  m.max_in_flight AS "max_in_flight?", m.changed_at AS "changed_at?", coalesce(m.failures, 0) AS "failures!",
                  m.failing_since AS "failing_since?", m.probe_at AS "probe_at?", coalesce(m.probes, 0) AS "probes!",
                  m.held_until AS "held_until?", EXISTS (SELECT FROM set_back WHERE mended_at IS NULL) AS "set_back!",
                  coalesce(m.leased_until > now(), false) AS "leased!", m.error AS "error?",
                  m.error_at AS "error_at?", m.error_expedition_id AS "error_order?: ExpeditionId",
                  (SELECT order_number FROM expedition_detail d WHERE d.id = m.error_expedition_id) AS error_order_number,
                  p.orders AS "pending!", c.orders AS "called!", least(p.since, c.since) AS waiting_since,
                  u.orders AS "unanswered!", u.first AS "first_unanswered?: ExpeditionId"
           FROM shown m
           CROSS JOIN LATERAL (
               SELECT count(*) AS orders, min(h.handover_since) AS since FROM (
                   SELECT handover_since FROM expedition_handover
                   WHERE handover_wms_id = m.id AND handover_state = 'pending' LIMIT $7) AS h
           ) AS p
           CROSS JOIN LATERAL (
               SELECT count(*) AS orders, min(h.handover_since) AS since FROM (
                   SELECT handover_since FROM expedition_handover
                   WHERE handover_wms_id = m.id AND handover_state IN ('sending', 'withdrawing') LIMIT $7) AS h
           ) AS c
           CROSS JOIN LATERAL (
               SELECT count(*) AS orders, (array_agg(e.id ORDER BY e.status_since))[1] AS first FROM (
                   SELECT id, status_since FROM expedition
                   WHERE organisation_id = m.organisation_id AND status = 'waiting_for_cancel' AND wms_id = m.id
                     AND status_since < now() - make_interval(secs => $8)
                   ORDER BY status_since LIMIT $7) AS e
           ) AS u
           ORDER BY m.name, m.id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        only as Option<WmsId>,
        pattern.as_deref(),
        wanted.after as Option<WmsId>,
        wanted.course.map(Course::as_str),
        i64::try_from(PAGE + 1).map_err(Problem::internal)?,
        WAITING,
        UNANSWERED_SECONDS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Orders that the warehouse of a wms refused for the same reason.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The wms.
    pub wms: WmsId,
    /// The code of the error.
    pub code: String,
    /// Its place in the order, without the number of an item.
    pub path: String,
    /// What it says.
    pub message: String,
    /// Orders with it.
    pub orders: i64,
    /// The one that was refused first.
    pub first: ExpeditionId,
    /// Its number.
    pub first_number: String,
    /// When.
    pub since: DateTime<Utc>,
}

/// What their warehouses refused and what was not corrected since, by reason, the most frequent first, up to [`REASONS`] of each wms; of
/// [`order::COUNTED`] incorrect orders of each organisation. The caller must have access to the wms.
pub async fn refused(db: &Database, wms: &[WmsId]) -> Result<Vec<Refused>, Problem> {
    let found = sqlx::query_as!(
        Refused,
        r#"WITH looked_at AS (
               SELECT e.* FROM (SELECT DISTINCT organisation_id FROM wms WHERE id = ANY ($1)) AS o
               CROSS JOIN LATERAL (
                   SELECT e.id, e.wms_id, e.errors, e.status_since FROM expedition e
                   WHERE e.organisation_id = o.organisation_id AND e.status = 'incorrect' ORDER BY e.status_since LIMIT $2
               ) AS e
               JOIN expedition_handover h ON h.id = e.id AND h.handover_state = 'refused'
               WHERE e.wms_id = ANY ($1)
           ), error AS (
               SELECT l.id, l.wms_id, l.status_since, coalesce(x ->> 'code', '') AS code,
                      regexp_replace(coalesce(x ->> 'propertyPath', ''), '\[[0-9]+\]', '[]', 'g') AS path,
                      left(coalesce(x ->> 'message', ''), 200) AS message
               FROM looked_at l CROSS JOIN LATERAL jsonb_array_elements(l.errors) AS x
           ), reason AS (
               SELECT wms_id, code, path, message, count(DISTINCT id) AS orders,
                      (array_agg(id ORDER BY status_since))[1] AS first, min(status_since) AS since,
                      row_number() OVER (PARTITION BY wms_id ORDER BY count(DISTINCT id) DESC, code, path, message) AS place
               FROM error GROUP BY wms_id, code, path, message
           )
           SELECT wms_id AS "wms!: WmsId", code AS "code!", path AS "path!", message AS "message!", orders AS "orders!",
                  first AS "first!: ExpeditionId", since AS "since!",
                  (SELECT order_number FROM expedition_detail d WHERE d.id = reason.first) AS "first_number!"
           FROM reason WHERE place <= $3 ORDER BY wms_id, place"#,
        wms as &[WmsId],
        order::COUNTED,
        REASONS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// An order that only its warehouse has.
#[derive(Clone, Debug)]
pub struct LostOrder {
    /// The record of it.
    pub id: Uuid,
    /// Its warehouse.
    pub wms: WmsId,
    /// The id that the order had.
    pub expedition: Uuid,
    /// The highest number of a hand-over that was reported.
    pub number: Option<i32>,
    /// The last report, up to 500 characters.
    pub report: String,
    /// When the first report came.
    pub first: DateTime<Utc>,
    /// When the last one came.
    pub last: DateTime<Utc>,
}

/// Reads orders that only a warehouse has; of those, `$1` is an id and `$2` how many are shown.
macro_rules! lost_orders {
    ($which:literal, $id:expr, $scope:expr, $db:expr) => {
        sqlx::query_as!(
            LostOrder,
            r#"SELECT id, wms_id AS "wms: WmsId", expedition_id AS expedition, number, left(report::text, 500) AS "report!",
                      created_at AS first, changed_at AS last
               FROM wms_lost_order WHERE "#
                + $which
                + " AND in_scope($3, organisation_id) ORDER BY created_at DESC, id LIMIT $2",
            $id,
            CALLS,
            $scope.organisations() as Option<&[OrganisationId]>,
        )
        .fetch_all(&$db.lists)
    };
}

/// Orders that only a warehouse has, the last ones first, up to [`CALLS`].
pub async fn lost_orders(db: &Database, scope: &Scope, wms: WmsId) -> Result<Vec<LostOrder>, Problem> {
    Ok(lost_orders!("wms_id = $1", wms.get(), scope, db).await?)
}

/// One of them.
pub async fn lost_order(db: &Database, scope: &Scope, id: Uuid) -> Result<Option<LostOrder>, Problem> {
    Ok(lost_orders!("id = $1", id, scope, db).await?.pop())
}

/// The secrets of a wms that were rotated away and still sign.
#[derive(Clone, Copy, Debug)]
pub struct Former {
    /// How many.
    pub secrets: i64,
    /// Until when the last of them does.
    pub until: Option<DateTime<Utc>>,
}

/// Counts them. The caller must have access to the wms.
pub async fn former(db: &Database, wms: WmsId) -> Result<Former, Problem> {
    let found = sqlx::query_as!(
        Former,
        r#"SELECT count(*) AS "secrets!", max(signs_until) AS "until?" FROM wms_former_secret
           WHERE wms_id = $1 AND signs_until > now()"#,
        wms.get(),
    )
    .fetch_one(&db.main)
    .await?;
    Ok(found)
}

/// A call of a wms, as the hand-over of its order shows it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The order.
    pub order: ExpeditionId,
    /// Its number.
    pub order_number: String,
    /// Which hand-over of it.
    pub number: i32,
    /// What it came to so far.
    pub state: HandoverState,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Calls in this state.
    pub attempts: i32,
    /// What went wrong.
    pub error: Option<String>,
    /// When the next call is due.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// What the warehouse calls the order.
    pub wms_internal_id: Option<String>,
}

/// Reads the calls of those orders, `$1` being the wms and `$2` how many are shown.
macro_rules! calls {
    ($orders:literal, $order:literal, $wms:expr, $db:expr) => {
        sqlx::query_as!(
            Call,
            "WITH found AS ("
            + $orders
            + r#")
               SELECT d.id AS "order!", d.order_number AS "order_number!", h.handover_number AS "number!",
                      h.handover_state AS "state!: HandoverState", h.handover_since AS "since!", h.handover_attempts AS "attempts!",
                      h.handover_error AS error, h.handover_next_attempt_at AS next_attempt_at, h.wms_internal_id
               FROM found f
               JOIN expedition_handover h ON h.id = ANY (ARRAY[f.id])
               JOIN expedition_detail d ON d.id = ANY (ARRAY[f.id])
               WHERE h.handover_state IS NOT NULL "#
            + $order
            + " LIMIT $2",
            $wms.get(),
            CALLS,
        )
        .fetch_all(&$db.lists)
    };
}

/// Orders that wait for the answer to a call, then those that wait for their first call; the next to be called first. The caller must
/// have access to the wms.
pub async fn waiting(db: &Database, wms: WmsId) -> Result<Vec<Call>, Problem> {
    let found = calls!(
        "(SELECT id, 1 AS part, row_number() OVER (ORDER BY handover_next_attempt_at, id) AS place FROM expedition_handover
          WHERE handover_wms_id = $1 AND handover_state IN ('sending', 'withdrawing')
          ORDER BY handover_next_attempt_at, id LIMIT $2)
         UNION ALL
         (SELECT id, 2, row_number() OVER (ORDER BY handover_priority DESC, handover_created_at, id) FROM expedition_handover
          WHERE handover_wms_id = $1 AND handover_state = 'pending'
          ORDER BY handover_priority DESC, handover_created_at, id LIMIT $2)",
        "ORDER BY f.part, f.place",
        wms,
        db
    );
    Ok(found.await?)
}

/// What the last calls of a wms came to, newest first: what it settled, among the thousand newest of each kind, and the calls that failed and
/// are made again. The caller must have access to the wms.
pub async fn last_calls(db: &Database, wms: WmsId) -> Result<Vec<Call>, Problem> {
    // a number rather than a parameter limits each look: of that the planner expects a tenth of all there is
    let found = calls!(
        "SELECT h.id FROM unnest(ARRAY['accepted', 'refused', 'withdrawn']) AS s (state)
         CROSS JOIN LATERAL (
             SELECT h.id, h.handover_wms_id FROM expedition_handover h
             WHERE h.handover_state = s.state ORDER BY h.handover_since DESC, h.id DESC LIMIT 1000
         ) AS h
         WHERE h.handover_wms_id = $1
         UNION ALL
         SELECT id FROM (
             SELECT id, handover_error FROM expedition_handover
             WHERE handover_wms_id = $1 AND handover_state IN ('sending', 'withdrawing')
             ORDER BY handover_next_attempt_at DESC, id DESC LIMIT 1000
         ) AS called WHERE handover_error IS NOT NULL",
        "ORDER BY h.handover_since DESC, h.id DESC",
        wms,
        db
    );
    Ok(found.await?)
}
