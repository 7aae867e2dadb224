//! Pausing, resuming and tuning a queue (`docs/reference/jobs.md#queues`), which the workers then obey ([`control`](longshore_kernel::queue::control)).
//!
//! A pause of `upkeep` ends automatically after an hour, by the clock of Postgres: it stops retention, schedules and
//! charts, which is easily overlooked. A trigger stores that time (`pause_of_upkeep_ends`); the first worker that finds it expired
//! resumes the queue, and the audit names the schedule.

use chrono::{DateTime, Utc};
use longshore_kernel::answer::{Answer, moment};
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::input::{Given, Reader, Rule, int32, object, or_null, text};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::queue::control::MAX_CONCURRENCY;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use serde_json::{Map, Value};

/// Ends the pauses whose time is over, as the schedule's doing, and says how many there were. Any number of workers may look
/// at once.
pub async fn end_overdue_pauses(services: &Services) -> Result<i64, Problem> {
    let origin = Origin::schedule("upkeep");
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        origin,
        "queue.resume",
        "queue",
        None,
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
    /// Why it is paused.
    reason: Option<String>,
}

/// Characters of the reason of a pause.
pub const REASON_LENGTH: usize = 200;

/// Pauses a queue (`PUT /api/queue/{name}/pause`); answers with the wish. The body may be absent; the audit keeps its reason.
pub async fn pause(
    services: &Services,
    context: &Context,
    name: &str,
    body: Option<Value>,
) -> Result<Answer, Problem> {
    let queue = find(name)?;
    let reason = Reader::read(body.unwrap_or_else(|| Value::Object(Map::new())), body_to_pause())?;
    let edit = Edit { paused: Some(true), reason, ..Edit::default() };
    set(services, context, "queue.pause", queue, edit).await
}

/// The body of a pause: why.
pub fn body_to_pause() -> impl Rule<Out = Option<String>> {
    object(|body| Some(body.nullable("reason", text(0..=REASON_LENGTH)).value()))
}

/// Resumes a queue (`PUT /api/queue/{name}/resume`); answers with the wish.
pub async fn resume(services: &Services, context: &Context, name: &str) -> Result<Answer, Problem> {
    let edit = Edit { paused: Some(false), ..Edit::default() };
    set(services, context, "queue.resume", find(name)?, edit).await
}

/// The pause of a queue, as the audit recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Which queue.
    pub queue: String,
    /// By whom.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
    /// Why.
    pub reason: Option<String>,
}

/// The pauses of the queues that are paused now.
pub async fn pauses(services: &Services) -> Result<Vec<Pause>, Problem> {
    let found = sqlx::query_as!(
        Pause,
        r#"SELECT q.name AS queue, a.actor_name AS "by!", a.at AS "at!", a.changes -> 'reason' ->> 1 AS reason
           FROM queue q CROSS JOIN LATERAL (
               SELECT actor_name, at, changes FROM audit
               WHERE entity_id = q.id AND action = 'queue.pause' ORDER BY id DESC LIMIT 1
           ) AS a WHERE q.paused"#,
    )
    .fetch_all(&services.db.lists)
    .await?;
    Ok(found)
}

/// Changes how much of a queue each worker runs at once (`PUT /api/queue/{name}`); null: what it was started with.
pub async fn update(
    services: &Services,
    context: &Context,
    name: &str,
    body: Value,
) -> Result<Answer, Problem> {
    let queue = find(name)?;
    let concurrency = match Reader::read(body, body_to_update())? {
        Some(number) => Given::Value(u16::try_from(number).map_err(Problem::internal)?),
        None => Given::Null,
    };
    set(services, context, "queue.update", queue, Edit { concurrency, ..Edit::default() }).await
}

/// The body of an update: how much each worker runs at once.
pub fn body_to_update() -> impl Rule<Out = Option<i32>> {
    object(|object| object.required("concurrency", or_null(int32(1..=i32::from(MAX_CONCURRENCY)))))
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
        None,
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
                        ('reason', NULL::jsonb, to_jsonb($13::text)),
                        ('concurrency', to_jsonb(old.concurrency), to_jsonb(made.concurrency))
                     ) AS f (field, was, becomes) WHERE was IS DISTINCT FROM becomes) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN old USING (id)
         )",
        queue.name(),
        edit.paused as Option<bool>,
        set_concurrency,
        concurrency as Option<i32>,
        edit.reason,
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
    change.answer(context.claim, Answer::shown(body.to_string())).await
}
