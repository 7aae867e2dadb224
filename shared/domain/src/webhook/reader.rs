//! Readers: those who cannot be called read events (`docs/reference/event-readers.md#reader`).
//!
//! A reader is a name for a place in the events of its e-shop or organisation. A change writes an event where some reader listens, and
//! costs the same with a hundred of them: who reads what is decided when it is read ([`feed`]).

mod begin;
mod cursor;
pub mod feed;
mod watch;

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;

pub use self::begin::{keep, thin};
use self::cursor::{Cursor, Line};
pub use self::watch::{Come, EventWatch};
use super::subscription::choice::{Choice, Named, Source, Whose, of_source};
use super::subscription::filter::Filter;
use super::subscription::room;
use super::subscription::stored::Subscribed;
use crate::list;
use crate::list::document::Condition;
use crate::list::fields::event_reader::EVENT_READER;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::database::Database;
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::{EshopId, EventReaderId, OrganisationId, TokenId};
use longshore_kernel::input::{Object, Reader, Schema, object, text, timestamp};
use longshore_kernel::problem::{Problem, UNAVAILABLE, Violation};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Readers of an organisation.
pub const MOST: i64 = 32;

/// Days after which a reader that nobody reads is removed.
pub const UNREAD_DAYS: i32 = 30;

/// How long a creation waits until the reader has begun.
const SETTLES_WITHIN: Duration = Duration::from_secs(2);

/// The entity type, in the audit and on tombstones.
const ENTITY: &str = "event_reader";

/// A reader as it is stored.
#[derive(Clone, Debug)]
struct Stored {
    id: EventReaderId,
    organisation: OrganisationId,
    eshop: Option<EshopId>,
    name: String,
    subscribed: Subscribed,
    filter: Filter,
    matches: Option<String>,
    /// It is told of no record that a connector of its e-shop may not see.
    bound: bool,
    settled: bool,
    /// Of its beginning; nothing: it never began.
    line: Option<Line>,
    beginning: Option<String>,
    position: Option<String>,
    version: i64,
    /// That of the service.
    now_in: Line,
    /// By the clock of Postgres.
    now: DateTime<Utc>,
}

/// What a body says of a reader.
struct Given {
    whose: Whose,
    name: Option<String>,
    choice: Choice,
    echo: Echo,
}

/// What the body of a creation or of an update accepts.
#[must_use]
pub fn schema(is_new: bool) -> Schema {
    Object::schema(|object| {
        if is_new {
            beginning(object);
        }
        Given::members(object, is_new)
    })
}

fn beginning(object: &mut Object<'_>) -> Option<DateTime<Utc>> {
    object.nullable("from", timestamp()).value()
}

/// What the body of a position accepts.
#[must_use]
pub fn position_schema() -> Schema {
    Object::schema(next)
}

fn next(object: &mut Object<'_>) -> Option<String> {
    object.required("next", text(1..=cursor::LONGEST))
}

impl Given {
    fn members(object: &mut Object<'_>, is_new: bool) -> Self {
        Self {
            whose: Whose::members(object, is_new),
            name: object.required_if(is_new, "name", text(1..=255)),
            choice: Choice::members_or_all(object, is_new),
            echo: Echo::of(object, is_new, |name| EVENT_READER.shows(name)),
        }
    }
}

struct New {
    name: String,
    /// Nothing: now.
    from: Option<DateTime<Utc>>,
    subscribed: Subscribed,
    filter: Filter,
    conditions: Vec<Condition>,
}

impl New {
    fn read(body: Value) -> (Option<Self>, Option<Named>, Vec<Violation>) {
        let rule = object(|object| {
            let given = Given::members(object, true);
            let from = beginning(object);
            let named = given.whose.named();
            let choice = given.choice.judge(object, named);
            let new = || {
                let (subscribed, filter, conditions) = choice?;
                Some(Self { name: given.name?, from, subscribed, filter, conditions })
            };
            Some((named, new()))
        });
        let ((named, new), refused) = Reader::draft(body, rule);
        (new.filter(|_| refused.is_empty()), named, refused)
    }
}

/// Creates a reader (`POST /api/event-reader`). It waits for a moment until it has begun.
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let scope = context.scope();
    let (new, source) = of_source(services, scope, New::read(body)).await?;
    let Source { organisation, eshop, .. } = source;
    let id = EventReaderId::new();
    let mut change = Change::begin(services).await?;
    let earlier = match new.from {
        Some(from) => Some(begin::place_at(change.connection(), organisation, from).await?),
        None => None,
    };
    let (line, tick) = earlier.unzip();
    let beginning = line.zip(tick.clone()).map(|(line, tick)| Cursor::at(line, tick).to_string());
    room::of_readers(change.connection(), organisation, MOST).await?;
    room::of_maker(change.connection(), scope, "readers").await?;
    let matches = new.filter.compiled(change.connection(), &new.conditions).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "event_reader.create",
        ENTITY,
        None,
        "WITH made AS (
             INSERT INTO event_reader (id, organisation_id, eshop_id, name, event, events, criteria, matches, selected,
                 created_by_type, created_by_id, created_by, made_by, bound)
             VALUES ($9, $10, $11, $12, $13, $14, $15, $16::text::jsonpath, $17, $1, $2, $3, $18, $19)
             RETURNING *
         ), place AS (
             INSERT INTO event_reader_position (reader_id, epoch, cluster, beginning, began_at)
             SELECT id, $20::int, $21::bigint, $22, $23::timestamptz FROM made
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('name', jsonb_build_array(NULL, name),
                        'eshop', jsonb_build_array(NULL, eshop_id),
                        'events', jsonb_build_array(NULL, to_jsonb(events)),
                        'criteria', jsonb_build_array(NULL, criteria),
                        'select', jsonb_build_array(NULL, to_jsonb(selected))) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id.get(),
        organisation.get(),
        eshop as Option<EshopId>,
        new.name,
        new.subscribed.event.as_deref(),
        &new.subscribed.events,
        new.filter.criteria.as_ref() as Option<&Value>,
        matches,
        new.filter.select.as_deref() as Option<&[String]>,
        scope.maker() as Option<TokenId>,
        scope.eshop().is_some(),
        line.map(|line| line.epoch),
        line.map(|line| line.cluster),
        beginning,
        tick.map(|tick| tick.at),
    )
    .await?;
    change.note(recorded);
    let shown = shown(change.connection(), scope, id).await?;
    let answer =
        change.answer(context.claim, Answer::created(location(id), shown.version, shown.json)).await?;
    match begun(services, scope, id, organisation).await {
        Some(now) => Ok(Answer::created(location(id), now.version, now.json)),
        None => Ok(answer),
    }
}

/// Changes a reader (`PUT /api/event-reader/{id}`): the given fields. What it hears of holds for what is read from then on.
pub async fn update(
    services: &Services,
    context: &Context,
    id: EventReaderId,
    body: Value,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let scope = context.scope();
    let given = Reader::read(body, object(|object| Some(Given::members(object, false))))?;
    let mut change = Change::begin(services).await?;
    lock(change.connection(), id).await?;
    let old = find(change.connection(), scope, id).await?;
    check(old.version)?;
    if !given.echo.is_empty() {
        Problem::refuse(given.echo.judge(&shown(change.connection(), scope, id).await?.json)?)?;
    }
    given.whose.must_be_of(old.organisation, old.eshop)?;
    let (subscribed, filter, conditions) =
        given.choice.changed(&old.subscribed, &old.filter, old.eshop.is_none())?;
    let matches = match &conditions {
        Some(conditions) => filter.compiled(change.connection(), conditions).await?,
        None => None,
    };
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "event_reader.update",
        ENTITY,
        None,
        "WITH old AS (
             SELECT * FROM event_reader WHERE id = $9
         ), made AS (
             UPDATE event_reader r
             SET name = $10, event = $11, events = $12, criteria = $13, selected = $15, version = r.version + 1,
                 matches = CASE WHEN $16 THEN $14::text::jsonpath ELSE r.matches END
             FROM old
             WHERE r.id = old.id AND (old.name, old.event, old.events, old.criteria, old.selected)
                 IS DISTINCT FROM ($10, $11, $12, $13::jsonb, $15::text[])
             RETURNING r.*
         ), starting AS (
             -- who did not know of these types may still write changes that are no events
             UPDATE event_reader_position p SET settled = false, writers = NULL
             FROM made JOIN old USING (id) WHERE p.reader_id = made.id AND NOT made.events <@ old.events
         ), changed AS (
             SELECT made.id AS entity, made.version, made.changed_at AS at, made.organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    (SELECT jsonb_object_agg(field, jsonb_build_array(was, becomes)) FROM (VALUES
                        ('name', to_jsonb(old.name), to_jsonb(made.name)),
                        ('event', to_jsonb(old.event), to_jsonb(made.event)),
                        ('events', to_jsonb(old.events), to_jsonb(made.events)),
                        ('criteria', old.criteria, made.criteria),
                        ('select', to_jsonb(old.selected), to_jsonb(made.selected))
                     ) AS f (field, was, becomes) WHERE was IS DISTINCT FROM becomes) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN old USING (id)
         )",
        id.get(),
        given.name.unwrap_or(old.name),
        subscribed.event.as_deref(),
        &subscribed.events,
        filter.criteria.as_ref() as Option<&Value>,
        matches,
        filter.select.as_deref() as Option<&[String]>,
        conditions.is_some(),
    )
    .await?;
    change.note(recorded);
    let shown = shown(change.connection(), scope, id).await?;
    let answer = Answer::updated(location(id), shown.version, shown.json);
    let answer = change.answer(context.claim, answer).await?;
    match begun(services, scope, id, old.organisation).await {
        Some(now) => Ok(Answer::updated(location(id), now.version, now.json)),
        None => Ok(answer),
    }
}

/// Deletes a reader (`DELETE /api/event-reader/{id}`).
pub async fn delete(services: &Services, context: &Context, id: EventReaderId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    lock(change.connection(), id).await?;
    find(change.connection(), context.scope(), id).await?;
    remove(&mut change, &context.origin, &[id]).await?;
    change.answer(context.claim, Answer::done()).await
}

/// Removes readers that nobody has read for [`UNREAD_DAYS`]: changes are events for them. Returns how many.
pub async fn forget(services: &Services) -> Result<u64, Problem> {
    let mut change = Change::begin(services).await?;
    let unread = sqlx::query_scalar!(
        r#"SELECT r.id AS "id: EventReaderId" FROM event_reader r JOIN event_reader_position p ON p.reader_id = r.id
           WHERE coalesce(p.read_at, r.created_at) < now() - make_interval(days => $1)
           ORDER BY r.id LIMIT $2 FOR UPDATE OF r SKIP LOCKED"#,
        UNREAD_DAYS,
        MOST,
    )
    .fetch_all(change.connection())
    .await?;
    if !unread.is_empty() {
        remove(&mut change, &Origin::schedule("upkeep"), &unread).await?;
    }
    change.commit().await?;
    Ok(unread.len() as u64)
}

async fn remove(change: &mut Change<'_>, origin: &Origin, ids: &[EventReaderId]) -> Result<(), Problem> {
    let recorded = record_change!(
        change.connection(),
        origin,
        "event_reader.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM event_reader WHERE id = ANY ($9) RETURNING *
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, eshop_id, made_by, deleted_by)
             SELECT $7, id, organisation_id, eshop_id, coalesce(made_by, '00000000-0000-0000-0000-000000000000'), $3 FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('name', jsonb_build_array(name, NULL),
                        'eshop', jsonb_build_array(eshop_id, NULL),
                        'events', jsonb_build_array(to_jsonb(events), NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        ids as &[EventReaderId],
    )
    .await?;
    change.note(recorded);
    Ok(())
}

/// Stores where a reader is (`PUT /api/event-reader/{id}/position`): reading without `after` goes on there.
pub async fn set_position(
    services: &Services,
    context: &Context,
    id: EventReaderId,
    body: Value,
) -> Result<Answer, Problem> {
    let next = Reader::read(body, object(next))?;
    let scope = context.scope();
    let reader = must_be_settled(services, scope, stored(&services.db, scope, id).await?).await?;
    let cursor = feed::place(&reader, "next", Some(&next))?;
    sqlx::query!(
        "UPDATE event_reader_position SET position = $2, position_at = $3 WHERE reader_id = $1",
        id.get(),
        next,
        cursor.done.at,
    )
    .execute(&services.db.main)
    .await?;
    Ok(Answer::done())
}

/// How many events a second were read lately, by a reader which the caller may see.
///
/// # Errors
/// Those of the database.
pub async fn rate(db: &Database, id: EventReaderId) -> Result<f32, Problem> {
    let rate = sqlx::query_scalar!(
        r#"SELECT faded(read_rate, read_at) AS "rate!" FROM event_reader_position WHERE reader_id = $1"#,
        id.get(),
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(rate.unwrap_or_default())
}

/// Where the feed goes on after what is read from now on: a record that a later snapshot shows is told once more.
///
/// # Errors
/// `unavailable` while the reader is starting.
pub async fn here(
    services: &Services,
    scope: &Scope,
    id: EventReaderId,
) -> Result<(String, OrganisationId, Option<EshopId>), Problem> {
    let reader = stored(&services.db, scope, id).await?;
    let reader = must_be_settled(services, scope, reader).await?;
    let tick = begin::next(&services.db, reader.organisation, None).await?;
    Ok((Cursor::at(reader.now_in, tick).to_string(), reader.organisation, reader.eshop))
}

/// Settles it, if that is possible; refuses what is still starting.
async fn must_be_settled(services: &Services, scope: &Scope, reader: Stored) -> Result<Stored, Problem> {
    if reader.settled && reader.line == Some(reader.now_in) {
        return Ok(reader);
    }
    if !begin::settle(&services.db, reader.id, reader.organisation).await? {
        let detail = "the reader is starting: changes that began before it heard of its event types have not ended yet";
        return Err(Problem::new(&UNAVAILABLE, detail).retry_after(Duration::from_secs(1)));
    }
    stored(&services.db, scope, reader.id).await
}

/// Waits for a moment until a reader has begun, and shows it as it is then. It is stored, whatever becomes of this: whoever reads
/// settles it.
async fn begun(
    services: &Services,
    scope: &Scope,
    id: EventReaderId,
    organisation: OrganisationId,
) -> Option<list::Record> {
    let until = Instant::now() + SETTLES_WITHIN;
    while !begin::settle(&services.db, id, organisation).await.ok()? && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    list::find(&services.db.main, &EVENT_READER, scope, id).await.ok()?
}

async fn shown(
    connection: &mut PgConnection,
    scope: &Scope,
    id: EventReaderId,
) -> Result<list::Record, Problem> {
    list::find(connection, &EVENT_READER, scope, id).await?.ok_or_else(|| Problem::not_found(ENTITY))
}

fn location(id: EventReaderId) -> String {
    format!("/api/event-reader/{id}")
}

async fn lock(connection: &mut PgConnection, id: EventReaderId) -> Result<(), Problem> {
    sqlx::query!("SELECT id FROM event_reader WHERE id = $1 FOR UPDATE", id.get())
        .fetch_optional(connection)
        .await?;
    Ok(())
}

async fn stored(db: &Database, scope: &Scope, id: EventReaderId) -> Result<Stored, Problem> {
    find(&mut *db.main.acquire().await?, scope, id).await
}

async fn find(connection: &mut PgConnection, scope: &Scope, id: EventReaderId) -> Result<Stored, Problem> {
    let found = sqlx::query!(
        r#"SELECT r.organisation_id AS "organisation: OrganisationId", r.eshop_id AS "eshop: EshopId", r.name, r.event, r.events,
                  r.criteria, r.matches::text AS matches, r.selected, r.bound, r.version,
                  p.settled, p.epoch, p.cluster, p.beginning, p.position,
                  u.epoch AS now_epoch, c.system_identifier AS "now_cluster!", clock_timestamp() AS "now!"
           FROM event_reader r JOIN event_reader_position p ON p.reader_id = r.id CROSS JOIN pulse u
           CROSS JOIN pg_control_system() c
           WHERE r.id = $3 AND in_scope($1, r.organisation_id) AND in_eshop($2, r.eshop_id) AND in_hands($4, r.made_by)"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        id.get(),
        scope.maker() as Option<TokenId>,
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = found else {
        return Err(tombstone::missing(connection, scope, ENTITY, id).await);
    };
    Ok(Stored {
        id,
        organisation: row.organisation,
        eshop: row.eshop,
        name: row.name,
        subscribed: Subscribed { events: row.events, event: row.event },
        filter: Filter { criteria: row.criteria, select: row.selected },
        matches: row.matches,
        bound: row.bound,
        settled: row.settled,
        line: row.epoch.zip(row.cluster).map(|(epoch, cluster)| Line { epoch, cluster }),
        beginning: row.beginning,
        position: row.position,
        version: row.version,
        now_in: Line { epoch: row.now_epoch, cluster: row.now_cluster },
        now: row.now,
    })
}
