//! What the operator wishes of a queue (decisions, section 5): paused or not, and how much at once. The wish is a row, so
//! that it outlives every Redis and every worker; each worker looks at it once a second and obeys.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use sqlx::PgPool;

use super::{Queue, QueueStats};
use crate::platform::answer::Answer;
use crate::platform::change::Change;
use crate::platform::context::Context;
use crate::platform::input::{self, Given, Reader};
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::record_change;

/// No operator may ask for more at once than this, on one queue of one worker.
pub const MAX_CONCURRENCY: u16 = 1024;

/// How long Redis may take to say how a queue stands, before it counts as away.
const PATIENCE: Duration = Duration::from_secs(2);

/// The wish for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which queue.
    pub queue: Queue,
    /// Nothing is begun; what runs goes on.
    pub paused: bool,
    /// What each worker runs at once; without it, what the worker was started with.
    pub concurrency: Option<u16>,
}

/// The wishes for all queues, in their order.
pub async fn wishes(db: &PgPool) -> Result<Vec<Wish>, Problem> {
    let rows = sqlx::query!("SELECT name, paused, concurrency FROM queue").fetch_all(db).await?;
    let wish = |queue: Queue| {
        let row = rows.iter().find(|row| row.name == queue.name());
        Wish {
            queue,
            paused: row.is_some_and(|row| row.paused),
            concurrency: row.and_then(|row| row.concurrency).and_then(|n| u16::try_from(n).ok()),
        }
    };
    Ok(Queue::ALL.map(wish).to_vec())
}

/// How a queue stands, as `GET /api/queue` shows it. What Redis knows is null while it is away.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Its name.
    pub name: &'static str,
    /// Nothing of it is begun.
    pub paused: bool,
    /// What each worker runs at once, where the operator wished it.
    pub concurrency: Option<u16>,
    /// Whether Redis, which carries it, can be reached.
    pub reachable: bool,
    /// Entries on it: waiting and running.
    pub depth: Option<u64>,
    /// Those of them that a worker holds.
    pub in_flight: Option<u64>,
    /// How long its oldest entry has been there; null where there is none.
    pub oldest_seconds: Option<f64>,
    /// Workers that read it, paused ones included.
    pub workers: Option<u64>,
    /// What Postgres has recorded and not finished: chunks, lanes that are being delivered.
    pub recorded: Recorded,
}

/// What Postgres knows of a queue.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Recorded {
    /// Not finished; null where only the queue knows.
    pub open: Option<i64>,
    /// Of these, leased by a worker at this moment.
    pub running: i64,
}

fn shown(wish: Wish, stats: Option<QueueStats>, recorded: Recorded) -> Shown {
    Shown {
        name: wish.queue.name(),
        paused: wish.paused,
        concurrency: wish.concurrency,
        reachable: stats.is_some(),
        depth: stats.map(|s| s.depth),
        in_flight: stats.map(|s| s.pending),
        oldest_seconds: stats.and_then(|s| s.oldest).map(|age| age.as_secs_f64()),
        workers: stats.map(|s| s.consumers),
        recorded,
    }
}

/// How all queues stand: `{"redis": "up"|"down", "queues": […]}`. Redis being away is an answer, not a failure.
pub async fn list(services: &Services) -> Result<String, Problem> {
    let queues = standing(services).await?;
    let redis = if queues.iter().all(|queue| queue.reachable) { "up" } else { "down" };
    Ok(serde_json::json!({"redis": redis, "queues": queues}).to_string())
}

/// How all queues stand, in their order.
pub async fn standing(services: &Services) -> Result<Vec<Shown>, Problem> {
    let wishes = wishes(&services.db.main).await?;
    let recorded = sqlx::query!(
        r#"SELECT (SELECT coalesce(sum(chunks_open), 0) FROM job WHERE state IN ('queued', 'running', 'retrying'))
                      AS "open_chunks!",
                  (SELECT count(*) FROM job_chunk WHERE state = 'running' AND NOT calls_partner) AS "running_chunks!",
                  (SELECT count(*) FROM job_chunk WHERE state = 'running' AND calls_partner) AS "running_partners!",
                  (SELECT count(*) FROM webhook_lane WHERE leased_until > now()) AS "running_lanes!""#,
    )
    .fetch_one(&services.db.main)
    .await?;
    let asked = wishes.iter().map(|wish| stats(services, wish.queue));
    let stats = futures::future::join_all(asked).await;
    let queues = wishes
        .iter()
        .zip(stats)
        .map(|(wish, stats)| {
            let recorded = match wish.queue {
                Queue::Chunk => {
                    Recorded { open: Some(recorded.open_chunks), running: recorded.running_chunks }
                }
                Queue::Partner => Recorded { open: None, running: recorded.running_partners },
                Queue::Lane => Recorded { open: None, running: recorded.running_lanes },
                Queue::Upkeep => Recorded::default(),
            };
            shown(*wish, stats, recorded)
        })
        .collect();
    Ok(queues)
}

async fn stats(services: &Services, queue: Queue) -> Option<QueueStats> {
    match tokio::time::timeout(PATIENCE, services.queues.stats(queue)).await {
        Ok(Ok(stats)) => Some(stats),
        Ok(Err(error)) => {
            tracing::warn!(queue.name = %queue, %error, "cannot ask how the queue stands");
            None
        }
        Err(_) => None,
    }
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
    let wish = sqlx::query!("SELECT paused, concurrency FROM queue WHERE name = $1", queue.name())
        .fetch_one(change.connection())
        .await?;
    let body =
        serde_json::json!({"name": queue.name(), "paused": wish.paused, "concurrency": wish.concurrency});
    change.answer(context.claim, Answer::ok(body.to_string())).await
}
