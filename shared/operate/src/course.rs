//! The recent past, as a visitor may see it: of the whole service for a caller who sees everything, else of the caller's
//! organisations; of an e-shop; of a webhook.
//!
//! What the service does is counted by the minute, also by the kind of job and by the worker. The calls of a webhook are counted by
//! five minutes ([`CALLS_MINUTES`]). Jobs of organisations and e-shops are read from their records, at most [`JOBS`] of them.

mod kind;
pub mod view;
mod worker;

pub use kind::{Kinds, OfKind, by_kind};
pub use worker::{OfWorker, SHOWN, Workers, by_worker, of_worker};

use longshore_kernel::access::Scope;
use longshore_kernel::activity::{self, CALLS_MINUTES, Course, Point, Span, Steps};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;

/// Jobs of an organisation or an e-shop that are read: the newest.
const JOBS: i64 = 20_000;

/// What ran in one step of time: calls of webhooks, jobs of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Runs {
    /// Calls that delivered, jobs that succeeded.
    pub good: i64,
    /// The others, except cancelled ones.
    pub bad: i64,
    /// How long one took, on average.
    pub mean_ms: Option<f64>,
    /// How long the slowest one took.
    pub slowest_ms: Option<f64>,
}

/// A span of a webhook, or of an e-shop, in steps, the oldest first.
#[derive(Clone, Debug)]
pub struct Narrow {
    /// Its steps.
    pub steps: Steps,
    /// Calls to destinations.
    pub calls: Vec<Runs>,
    /// Jobs of an e-shop that ended, by their acceptance.
    pub jobs: Vec<Point>,
}

/// Reads a span of a caller, up to now.
pub async fn read(db: &Database, scope: &Scope, span: Span) -> Result<Course, Problem> {
    let Some(organisations) = scope.organisations() else { return activity::read(&db.main, span).await };
    let steps = Steps::of(&db.main, span, CALLS_MINUTES).await?;
    let (jobs, calls) = tokio::try_join!(
        jobs(db, organisations, scope.eshop(), &steps),
        calls(db, Some(organisations), scope.eshop(), None, &steps),
    )?;
    let deliveries =
        calls.iter().map(|calls| Point { good: calls.good, bad: calls.bad, median_ms: None, p95_ms: None });
    let deliveries = deliveries.collect();
    // what is counted for the whole service only
    let (partners, handovers, upkeep) = (Vec::new(), Vec::new(), Vec::new());
    let waiting = vec![None; steps.count];
    Ok(Course { steps, jobs, deliveries, partners, handovers, upkeep, waiting })
}

/// Reads a span of a webhook. The caller must have access to it.
pub async fn of_webhook(db: &Database, webhook: WebhookId, span: Span) -> Result<Narrow, Problem> {
    let steps = Steps::of(&db.main, span, CALLS_MINUTES).await?;
    let calls = calls(db, None, None, Some(webhook), &steps).await?;
    Ok(Narrow { steps, calls, jobs: Vec::new() })
}

/// Reads a span of an e-shop. The caller must have access to it.
pub async fn of_eshop(
    db: &Database,
    organisation: OrganisationId,
    eshop: EshopId,
    span: Span,
) -> Result<Narrow, Problem> {
    let steps = Steps::of(&db.main, span, CALLS_MINUTES).await?;
    let organisations = [organisation];
    let (jobs, calls) = tokio::try_join!(
        jobs(db, &organisations, Some(eshop), &steps),
        calls(db, Some(&organisations), Some(eshop), None, &steps),
    )?;
    Ok(Narrow { steps, calls, jobs })
}

/// Jobs that ended, by the time of their acceptance, for that is what an index has.
async fn jobs(
    db: &Database,
    organisations: &[OrganisationId],
    eshop: Option<EshopId>,
    steps: &Steps,
) -> Result<Vec<Point>, Problem> {
    let found = sqlx::query!(
        r#"SELECT floor(extract(epoch FROM created_at - $3) / 60)::int / $4 AS "place!", count(*) FILTER (WHERE state = 'succeeded') AS "good!",
                  count(*) FILTER (WHERE state = 'failed') AS "bad!",
                  percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS median_ms,
                  percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95_ms
           FROM (SELECT j.* FROM unnest($1::uuid[]) AS o (id) CROSS JOIN LATERAL (
                     (SELECT created_at, state, extract(epoch FROM finished_at - created_at)::float8 * 1000 AS ms FROM job
                      WHERE $2::uuid IS NULL AND organisation_id = o.id AND created_at >= $3 AND state IN ('succeeded', 'failed')
                      ORDER BY created_at DESC LIMIT $5)
                     UNION ALL
                     (SELECT created_at, state, extract(epoch FROM finished_at - created_at)::float8 * 1000 FROM job
                      WHERE eshop_id = $2 AND organisation_id = o.id AND created_at >= $3 AND state IN ('succeeded', 'failed')
                      ORDER BY created_at DESC LIMIT $5)
                 ) AS j ORDER BY created_at DESC LIMIT $5) AS ended
           GROUP BY 1"#,
        organisations as &[OrganisationId],
        eshop as Option<EshopId>,
        steps.from,
        steps.minutes,
        JOBS,
    )
    .fetch_all(&db.lists)
    .await?;
    let points = found.into_iter().map(|step| {
        let (good, bad, median_ms, p95_ms) = (step.good, step.bad, step.median_ms, step.p95_ms);
        (step.place, Point { good, bad, median_ms, p95_ms })
    });
    Ok(steps.filled(points))
}

/// Calls to destinations of the webhooks of organisations or an e-shop, or of one webhook.
async fn calls(
    db: &Database,
    organisations: Option<&[OrganisationId]>,
    eshop: Option<EshopId>,
    webhook: Option<WebhookId>,
    steps: &Steps,
) -> Result<Vec<Runs>, Problem> {
    let found = sqlx::query!(
        r#"SELECT date_part('epoch', a.minute - $4)::int / ($5 * 60) AS "place!", sum(a.delivered)::bigint AS "delivered!",
                  sum(a.failed)::bigint AS "failed!",
                  (sum(a.milliseconds) / nullif(sum(a.delivered + a.failed), 0))::float8 AS mean_ms,
                  max(a.slowest)::float8 AS slowest_ms
           FROM (SELECT $3::uuid AS id WHERE $3 IS NOT NULL
                 UNION ALL
                 SELECT w.id FROM webhook w
                 WHERE $3 IS NULL AND w.organisation_id = ANY ($1) AND in_eshop($2, w.eshop_id)) AS w
           JOIN webhook_activity a ON a.webhook_id <= w.id AND (a.webhook_id, a.minute) >= (w.id, $4)
           GROUP BY 1"#,
        organisations as Option<&[OrganisationId]>,
        eshop as Option<EshopId>,
        webhook as Option<WebhookId>,
        steps.from,
        steps.minutes,
    )
    .fetch_all(&db.lists)
    .await?;
    let points = found.into_iter().map(|step| {
        let (good, bad) = (step.delivered, step.failed);
        (step.place, Runs { good, bad, mean_ms: step.mean_ms, slowest_ms: step.slowest_ms })
    });
    Ok(steps.filled(points))
}
