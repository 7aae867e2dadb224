//! Reading: the events of an organisation, in one order for all.
//!
//! What is read next is a *window*: what was committed between two moments ([`begin`]), in the order of the ids. Version
//! n+1 of a record is written after n was committed, or in its transaction, so windows, and ids within one, keep the order of versions. A
//! transaction that hangs is in the window in which it ends, and delays nobody.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::begin::{self, KEPT_DAYS};
use super::cursor::{Cursor, Tick};
use super::{Stored, must_be_settled, stored};
use crate::webhook::event::Event;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, EventId, EventReaderId, OrganisationId};
use longshore_kernel::problem::{GONE, Problem, Violation};
use longshore_kernel::services::Services;

/// Events of an answer at most.
pub const MOST: u64 = 10_000;

/// Events of an answer without a limit.
pub const USUAL: u64 = 1_000;

/// Bytes of an answer; the last event may go past them.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// How long one answer looks at events that its reader does not hear of.
const LOOKS_FOR: Duration = Duration::from_secs(2);

/// Events that one statement reads: their data is in memory.
const AT_ONCE: usize = 500;

/// What a request asks for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Where it goes on; nothing: at the stored position, or at the beginning.
    pub after: Option<String>,
    /// Events at most.
    pub limit: u64,
    /// Each in a line of its own, and in the last one where to read on, instead of one answer.
    pub are_lines: bool,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Page {
    /// The answer: `{"events", "next", "behindMs"}`, or its lines.
    pub json: String,
    /// How many events it has.
    pub events: usize,
    /// Whose they are.
    pub organisation: OrganisationId,
    /// Nothing more is there.
    pub is_end: bool,
    /// Where the next one goes on.
    pub next: String,
}

struct Row {
    id: EventId,
    kind: String,
    entity: Uuid,
    at: DateTime<Utc>,
    data: String,
    eshops: Vec<Uuid>,
}

/// Reads what comes next (`GET /api/event-reader/{id}/events`).
///
/// # Errors
/// `gone` for a cursor of before a restore, or older than events are kept; `unavailable` while the reader is starting.
pub async fn read(
    services: &Services,
    scope: &Scope,
    id: EventReaderId,
    asked: &Asked,
) -> Result<Page, Problem> {
    let reader = stored(&services.db, scope, id).await?;
    let reader = must_be_settled(services, scope, reader).await?;
    let mut cursor = place(&reader, "after", asked.after.as_deref())?;
    let mut connection = services.db.main.acquire().await?;
    let mut body = Body { between: if asked.are_lines { '\n' } else { ',' }, ..Body::default() };
    let (mut is_end, began) = (false, Instant::now());
    let wanted = usize::try_from(asked.limit).map_err(Problem::internal)?;
    while body.count < wanted && !body.is_full() && began.elapsed() < LOOKS_FOR {
        let (until, last) = match cursor.within.take() {
            Some((until, last)) => (until, last),
            None => match begin::first_after(&mut connection, reader.organisation, cursor.done.n).await? {
                Some(until) => (until, EventId::nil()),
                // at the end of a quiet organisation, it does not become too old
                None if reader.now - cursor.done.at > TimeDelta::days(1)
                    || is_anything_new(&mut connection, &reader, &cursor.done).await? =>
                {
                    // the lock of a moment is not waited for with a connection in hand
                    drop(connection);
                    // it is large, and rare
                    let next = Box::pin(begin::next(&services.db, reader.organisation, Some(cursor.done.n)));
                    let until = services.db.standby.patiently(next).await?;
                    connection = services.db.main.acquire().await?;
                    (until, EventId::nil())
                }
                None => {
                    is_end = true;
                    break;
                }
            },
        };
        let most = wanted - body.count;
        let found = window(&mut connection, &reader, &cursor.done, &until, last, most).await?;
        let read_to = body.take(&mut connection, &reader, &found).await?;
        if found.len() < most && read_to == found.last().copied() {
            cursor.done = until;
        } else {
            cursor.within = Some((until, read_to.unwrap_or(last)));
        }
    }
    let read_to = cursor.within.as_ref().map_or(&cursor.done, |(until, _)| until).at;
    note_read(&mut connection, id, body.count, if is_end { reader.now } else { read_to }).await?;
    let behind = if is_end { 0 } else { (reader.now - read_to).num_milliseconds().max(1) };
    let next = cursor.to_string();
    let rest = format!(r#""next":{},"behindMs":{behind}}}"#, json!(next));
    let json = match (asked.are_lines, body.count) {
        (false, _) => format!(r#"{{"events":[{}],{rest}"#, body.events),
        (true, 0) => format!("{{{rest}\n"),
        (true, _) => format!("{}\n{{{rest}\n", body.events),
    };
    Ok(Page { json, events: body.count, organisation: reader.organisation, is_end, next })
}

/// The events of an answer.
#[derive(Default)]
struct Body {
    events: String,
    /// What is between two events.
    between: char,
    count: usize,
}

impl Body {
    fn is_full(&self) -> bool {
        self.events.len() >= MOST_BYTES
    }

    /// Takes events, in their order, until it is full; returns the last one that it took.
    async fn take(
        &mut self,
        connection: &mut PgConnection,
        reader: &Stored,
        ids: &[EventId],
    ) -> Result<Option<EventId>, sqlx::Error> {
        let mut last = None;
        for some in ids.chunks(AT_ONCE) {
            for row in contents(connection, some).await? {
                if self.is_full() {
                    return Ok(last);
                }
                last = Some(row.id);
                self.push(reader, row);
            }
        }
        Ok(last)
    }

    fn push(&mut self, reader: &Stored, row: Row) {
        if self.count > 0 {
            self.events.push(self.between);
        }
        let Row { id, kind, entity, at, data, eshops } = row;
        let mut event = Event { id, kind, entity, at, data, eshops: Some(eshops), ..Event::default() };
        event.narrow(reader.eshop.is_none(), reader.filter.select.as_deref());
        event.write_with_id(&mut self.events);
        self.count += 1;
    }
}

/// Where it goes on: after what is asked for, at the stored position, or at the beginning.
pub(super) fn place(reader: &Stored, field: &str, after: Option<&str>) -> Result<Cursor, Problem> {
    let beginning = reader.beginning.as_deref();
    let text = after.or(reader.position.as_deref()).or(beginning).unwrap_or_default();
    let cursor: Cursor = text.parse().map_err(|()| {
        Problem::violation(field, "invalid_cursor", "must be a `next` that an answer of a reader had")
    })?;
    let begins: Option<Cursor> = beginning.and_then(|text| text.parse().ok());
    let is_older = begins.as_ref().is_some_and(|begins| cursor.done.n < begins.done.n);
    let is_past = reader.now - cursor.done.at > TimeDelta::days(KEPT_DAYS.into());
    let why = match () {
        () if Some(cursor.line) != reader.line => {
            ("restored", "is of before the service was restored from a backup".to_owned())
        }
        () if is_older => ("expired", "is of before the reader was made".to_owned()),
        () if is_past => ("expired", format!("is older than {KEPT_DAYS} days, for which events are kept")),
        () => return Ok(cursor),
    };
    let detail = format!("the cursor {}: read a snapshot, and go on from its `next`", why.1);
    Err(Problem::new(&GONE, detail).with_violations(vec![Violation::new(field, why.0, why.1)]))
}

/// Events that became visible between two moments, behind this one, in their order.
async fn window(
    connection: &mut PgConnection,
    reader: &Stored,
    done: &Tick,
    until: &Tick,
    last: EventId,
    most: usize,
) -> Result<Vec<EventId>, Problem> {
    let found = sqlx::query_scalar!(
        // each part by its index, whatever is believed of how many there are
        r#"SELECT id AS "id!: EventId"
           FROM (
               SELECT written.* FROM pg_snapshot_xip($2::text::pg_snapshot) AS running (id)
               CROSS JOIN LATERAL (
                   SELECT * FROM event WHERE organisation_id = $1 AND written_by = running.id AND event.id > $4
                     AND as_it_says(xmin, written_by) OFFSET 0) AS written
               UNION ALL
               (SELECT * FROM event
                WHERE organisation_id = $1 AND written_by >= pg_snapshot_xmax($2::text::pg_snapshot)
                  AND written_by < pg_snapshot_xmax($3::text::pg_snapshot) AND id > $4
                  AND as_it_says(xmin, written_by) OFFSET 0)
           ) AS written
           -- a sub-select: read once, and not for each
           WHERE pg_visible_in_snapshot(written_by, (SELECT $3::text::pg_snapshot))
             AND type = ANY ($5) AND entity_type <> 'webhook' AND type <> 'restored'
             -- a job without an e-shop is told to all
             AND ($6::uuid IS NULL OR $6 = ANY (eshops) OR (eshops = '{}' AND type = 'job_finished'))
             AND (NOT $9 OR seen_by IS NULL OR $6 = ANY (seen_by))
             AND ($7::text IS NULL OR coalesce(jsonb_path_match(data, $7::text::jsonpath,
                      jsonb_build_object('type', type, 'eshop', nullif(eshops, '{}')), true), false))
           ORDER BY id LIMIT $8"#,
        reader.organisation.get(),
        done.snapshot,
        until.snapshot,
        last.get(),
        &reader.subscribed.events,
        reader.eshop as Option<EshopId>,
        reader.matches,
        i64::try_from(most).map_err(Problem::internal)?,
        reader.bound,
    )
    .fetch_all(connection)
    .await?;
    Ok(found)
}

/// Events with what they say, in their order.
async fn contents(connection: &mut PgConnection, ids: &[EventId]) -> Result<Vec<Row>, sqlx::Error> {
    sqlx::query_as!(
        Row,
        r#"SELECT id AS "id: EventId", type AS kind, entity_id AS entity, at, data::text AS "data!", eshops
           FROM event WHERE id = ANY ($1) ORDER BY id"#,
        ids as &[EventId],
    )
    .fetch_all(connection)
    .await
}

/// Whether the organisation has an event that a moment does not show.
async fn is_anything_new(
    connection: &mut PgConnection,
    reader: &Stored,
    done: &Tick,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT has_events_since($1, $2::text::pg_snapshot) AS "is_new!""#,
        reader.organisation.get(),
        done.snapshot,
    )
    .fetch_one(connection)
    .await
}

/// Remembers that somebody reads, and how far and how fast; at the end, once a minute.
async fn note_read(
    connection: &mut PgConnection,
    id: EventReaderId,
    events: usize,
    read_to: DateTime<Utc>,
) -> Result<(), Problem> {
    sqlx::query!(
        "UPDATE event_reader_position
         SET read_at = now(), read_to = $2, read_rate = faded(read_rate, read_at) + $3::float8 / 60
         WHERE reader_id = $1 AND ($3::float8 > 0 OR read_at IS NULL OR read_at < now() - interval '1 minute')
           -- nobody waits for the disk to know that
           AND set_config('synchronous_commit', 'off', true) IS NOT NULL",
        id.get(),
        read_to,
        f64::from(u32::try_from(events).map_err(Problem::internal)?),
    )
    .execute(connection)
    .await?;
    Ok(())
}
