//! Who hears of events late: webhooks whose backlog takes long at their own rate, and readers that cannot be read yet, or that nobody
//! reads (`docs/reference/attention.md#lines`).

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::job::shares::LISTED;
use longshore_domain::webhook::lane::backlog;
use longshore_domain::webhook::reader::UNREAD_DAYS;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{seconds, up_to};
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;
use uuid::Uuid;

/// Days before the removal of a reader that nobody reads in which it has a line.
const WARNED_DAYS: i32 = 7;

/// A webhook or a reader that has a line.
#[derive(Debug)]
struct Late {
    /// Why: `backlog`, `starting` or `unread`.
    kind: String,
    id: Uuid,
    organisation: OrganisationId,
    /// Where it calls, or its name.
    name: String,
    /// Of what it hears.
    source: String,
    /// What waits at a webhook, up to [`backlog::COUNTED`].
    waiting: i64,
    /// Events that it takes in an hour at its own rate.
    hour: Option<f64>,
    /// The session that keeps a reader from being read.
    session: Option<i32>,
    since: DateTime<Utc>,
}

/// The lines about them.
pub(super) async fn lines(db: &Database, scope: &Scope, now: DateTime<Utc>) -> Result<Vec<Line>, Problem> {
    let found = sqlx::query_as!(
        Late,
        r#"WITH behind AS (
               -- what has waited for a minute; the oldest of each by its index
               SELECT w.id, w.organisation_id, w.source_id, w.destination, oldest.since,
                      (3600 * w.max_per_second * coalesce(w.batch_events, 1))::float8 AS hour
               FROM webhook w
               -- one whose destination fails waits for that
               JOIN webhook_lane l ON l.webhook_id = w.id AND l.failures = 0 AND coalesce(l.held_until < now(), true)
               CROSS JOIN LATERAL (
                   SELECT next_attempt_at AS since FROM delivery WHERE webhook_id = ANY (ARRAY[w.id])
                   ORDER BY webhook_id, next_attempt_at, delivery.id LIMIT 1
               ) AS oldest
               WHERE w.max_per_second IS NOT NULL AND w.active AND oldest.since < now() - interval '1 minute'
                 AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
               ORDER BY oldest.since, w.id LIMIT 1000
           ), backlog AS (
               -- more waits than an hour takes; of a fast one, more than is counted, and for an hour
               SELECT * FROM behind WHERE (hour < $3::int OR since < now() - interval '1 hour') AND (
                   SELECT true FROM delivery WHERE webhook_id = ANY (ARRAY[behind.id])
                   ORDER BY webhook_id, next_attempt_at, delivery.id OFFSET least(hour, $3::int - 1)::bigint LIMIT 1)
           ), late AS (
               SELECT 'backlog' AS kind, id, organisation_id, source_id, destination AS name, hour, NULL::int AS session, since
               FROM backlog
               UNION ALL
               SELECT 'unread', r.id, r.organisation_id, r.source_id, r.name, NULL, NULL, coalesce(p.read_at, r.created_at)
               FROM event_reader r JOIN event_reader_position p ON p.reader_id = r.id
               WHERE in_scope($1, r.organisation_id) AND in_eshop($2, r.eshop_id)
                 AND coalesce(p.read_at, r.created_at) < now() - make_interval(days => $4)
               UNION ALL
               SELECT 'starting', r.id, r.organisation_id, r.source_id, r.name, NULL, l.pid, r.changed_at
               FROM event_reader r JOIN event_reader_position p ON p.reader_id = r.id
               CROSS JOIN LATERAL (
                   SELECT pid FROM pg_locks WHERE relation = 'event_reader'::regclass AND virtualtransaction = ANY (p.writers)
                   ORDER BY pid LIMIT 1) AS l
               WHERE in_scope($1, r.organisation_id) AND in_eshop($2, r.eshop_id)
                 AND NOT p.settled AND r.changed_at < now() - interval '1 minute'
           ), turns AS (
               SELECT *, row_number() OVER (PARTITION BY organisation_id, kind ORDER BY since, id) AS turn FROM late
           ), listed AS (
               SELECT *, row_number() OVER (PARTITION BY kind ORDER BY turn, since, id) AS place FROM turns
           )
           SELECT l.kind AS "kind!", l.id AS "id!", l.organisation_id AS "organisation!: OrganisationId", l.name AS "name!",
                  s.name AS "source!", l.hour, l.session, l.since AS "since!",
                  (SELECT count(*) FROM (SELECT FROM delivery WHERE l.hour IS NOT NULL AND webhook_id = ANY (ARRAY[l.id]) LIMIT $3::int) AS d)
                      AS "waiting!"
           FROM listed l JOIN webhook_source s ON s.id = l.source_id WHERE l.place <= $5 ORDER BY l.kind, l.place"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        i32::try_from(backlog::COUNTED).map_err(Problem::internal)?,
        UNREAD_DAYS - WARNED_DAYS,
        LISTED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found.iter().map(|late| line(late, now)).collect())
}

fn line(late: &Late, now: DateTime<Utc>) -> Line {
    let past = (now - late.since).as_seconds_f64().max(0.0);
    let since = seconds(past);
    let (kind, record, word) = match late.kind.as_str() {
        "backlog" => (Kind::SlowWebhook, "webhook", "slow"),
        "starting" => (Kind::StartingReader, "event_reader", "starting"),
        _ => (Kind::UnreadReader, "event_reader", "unread"),
    };
    let name = format!("{} ({})", late.name, late.source);
    let sentence = match kind {
        Kind::SlowWebhook => {
            let many = if late.waiting == 1 { "event waits" } else { "events wait" };
            let waiting = up_to(late.waiting, backlog::COUNTED);
            let counted = f64::from(i32::try_from(late.waiting).unwrap_or(i32::MAX));
            let takes = seconds(counted * 3_600.0 / late.hour.unwrap_or(1.0));
            let least = if late.waiting < backlog::COUNTED { "" } else { "at least " };
            format!(
                "{name}: {waiting} {many}, the first for {since}; at its own rate they take {least}{takes}."
            )
        }
        Kind::StartingReader => {
            let session = late.session.unwrap_or_default();
            format!(
                "The reader {name} has been starting for {since}: session {session} of Postgres has not ended since."
            )
        }
        _ => {
            let left = seconds((f64::from(UNREAD_DAYS) * 86_400.0 - past).max(1.0));
            format!("Nobody has read the reader {name} for {since}; it is removed in {left}.")
        }
    };
    let owner = Owner::Organisation(late.organisation);
    let line = Line::new(kind, &late.id.to_string(), owner, sentence, Page::Record(record, late.id));
    Line { severity: Severity::Warning, word, cause: Some(late.since), ..line }
}
