//! What the operator wishes of a queue (`docs/reference/jobs.md#queues`): paused or not, and how much at once. The wish is a
//! row, so that it outlives every Redis and every worker; each worker looks at it once a second and obeys.
//!
//! A pause of `upkeep` ends by itself after an hour, by the clock of Postgres: retention, schedules and charts stop with it,
//! which nobody notices in time. A trigger writes down when (migration 0010); the first worker that sees that the time is over
//! resumes the queue, and the audit names the schedule.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;
use sqlx::PgPool;

use super::Queue;
use crate::platform::answer::Answer;
use crate::platform::change::Change;
use crate::platform::context::{Actor, Context, Origin};
use crate::platform::input::{self, Given, Reader};
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::record_change;

/// No operator may ask for more at once than this, on one queue of one worker.
pub const MAX_CONCURRENCY: u16 = 4096;

/// The wish for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which queue.
    pub queue: Queue,
    /// Nothing is begun; what runs goes on.
    pub paused: bool,
    /// When the pause ends by itself, where it does.
    pub resumes_at: Option<DateTime<Utc>>,
    /// The pause has ended, and nobody has written that down yet.
    pub overdue: bool,
    /// What each worker runs at once; without it, what the worker was started with.
    pub concurrency: Option<u16>,
}

/// The wishes for all queues, in their order.
pub async fn wishes(db: &PgPool) -> Result<Vec<Wish>, Problem> {
    let rows = sqlx::query!(
        r#"SELECT name, paused, concurrency, resumes_at, coalesce(resumes_at <= now(), false) AS "overdue!" FROM queue"#
    )
    .fetch_all(db)
    .await?;
    let wish = |queue: Queue| {
        let row = rows.iter().find(|row| row.name == queue.name());
        let overdue = row.is_some_and(|row| row.overdue);
        Wish {
            queue,
            paused: row.is_some_and(|row| row.paused) && !overdue,
            resumes_at: row.and_then(|row| row.resumes_at).filter(|_| !overdue),
            overdue,
            concurrency: row.and_then(|row| row.concurrency).and_then(|n| u16::try_from(n).ok()),
        }
    };
    Ok(Queue::ALL.map(wish).to_vec())
}

/// Ends the pauses whose time is over, as the schedule's doing, and says how many there were. Any number of workers may look
/// at once.
pub async fn end_overdue_pauses(services: &Services) -> Result<i64, Problem> {
    let origin = Origin {
        actor: Actor { kind: "schedule".to_owned(), id: None, name: "upkeep".to_owned() },
        request_id: None,
        job: None,
        traceparent: None,
    };
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        origin,
        "queue.resume",
        "queue",
        "",
        "WITH old AS MATERIALIZED (
             SELECT id, resumes_at FROM queue WHERE paused AND resumes_at <= now() ORDER BY id FOR UPDATE
         ), made AS (
             UPDATE queue q SET paused = false, changed_at = now() FROM old WHERE q.id = old.id RETURNING q.id
         ), changed AS (
             SELECT id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('paused', jsonb_build_array(true, false),
                        'resumesAt', jsonb_build_array(old.resumes_at, NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN old USING (id)
         )",
    )
    .await?;
    let ended = change.note(recorded);
    change.commit().await?;
    Ok(ended)
}

/// What of a wish is to change.
#[derive(Clone, Debug, Default)]
struct Edit {
    paused: Option<bool>,
    concurrency: Given<u16>,
}

/// Pauses or resumes a queue (`PUT /api/queue/{name}/pause|resume`): 200 with the wish.
pub async fn set_paused(
    services: &Services,
    context: &Context,
    name: &str,
    paused: bool,
) -> Result<Answer, Problem> {
    let queue = find(name)?;
    let action = if paused { "queue.pause" } else { "queue.resume" };
    set(services, context, action, queue, Edit { paused: Some(paused), ..Edit::default() }).await
}

/// Changes how much of a queue each worker runs at once (`PUT /api/queue/{name}`); null: what it was started with.
pub async fn update(
    services: &Services,
    context: &Context,
    name: &str,
    body: Value,
) -> Result<Answer, Problem> {
    let queue = find(name)?;
    let concurrency = Reader::read(body, |reader, body| {
        let mut object = reader.object(body)?;
        if !object.has("concurrency") {
            object.refuse("concurrency", "required", "is required");
        }
        let concurrency = object.nullable("concurrency", input::int32(1..=i32::from(MAX_CONCURRENCY)));
        object.finish();
        Some(concurrency)
    })?;
    let concurrency = match concurrency {
        Given::Value(number) => Given::Value(u16::try_from(number).map_err(Problem::internal)?),
        Given::Null => Given::Null,
        Given::Absent => Given::Absent,
    };
    set(services, context, "queue.update", queue, Edit { paused: None, concurrency }).await
}

fn find(name: &str) -> Result<Queue, Problem> {
    Queue::from_name(name).ok_or_else(|| Problem::not_found("queue"))
}

async fn set(
    services: &Services,
    context: &Context,
    action: &str,
    queue: Queue,
    edit: Edit,
) -> Result<Answer, Problem> {
    let (set_concurrency, concurrency) = match edit.concurrency {
        Given::Absent => (false, None),
        Given::Null => (true, None),
        Given::Value(number) => (true, Some(i32::from(number))),
    };
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        action,
        "queue",
        "",
        "WITH old AS MATERIALIZED (
             SELECT * FROM queue WHERE name = $9 FOR UPDATE
         ), made AS (
             UPDATE queue q
             SET paused = coalesce($10, old.paused),
                 concurrency = CASE WHEN $11 THEN $12 ELSE old.concurrency END, changed_at = now()
             FROM old
             WHERE q.id = old.id AND (old.paused, old.concurrency) IS DISTINCT FROM
                 (coalesce($10, old.paused), CASE WHEN $11 THEN $12 ELSE old.concurrency END)
             RETURNING q.*
         ), changed AS (
             SELECT made.id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    (SELECT jsonb_object_agg(field, jsonb_build_array(was, becomes)) FROM (VALUES
                        ('paused', to_jsonb(old.paused), to_jsonb(made.paused)),
                        ('resumesAt', to_jsonb(old.resumes_at), to_jsonb(made.resumes_at)),
                        ('concurrency', to_jsonb(old.concurrency), to_jsonb(made.concurrency))
                     ) AS f (field, was, becomes) WHERE was IS DISTINCT FROM becomes) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN old USING (id)
         )",
        queue.name(),
        edit.paused as Option<bool>,
        set_concurrency,
        concurrency as Option<i32>,
    )
    .await?;
    change.note(recorded);
    let wish =
        sqlx::query!("SELECT paused, concurrency, resumes_at FROM queue WHERE name = $1", queue.name())
            .fetch_one(change.connection())
            .await?;
    let body = serde_json::json!({
        "name": queue.name(), "paused": wish.paused, "resumesAt": wish.resumes_at.map(moment),
        "concurrency": wish.concurrency,
    });
    change.answer(context.claim, Answer::ok(body.to_string())).await
}

/// A moment as answers have it: UTC, in microseconds.
pub(crate) fn moment(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, false)
}
