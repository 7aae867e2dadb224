//! The recent past, as a visitor may see it: of the whole service for a caller who sees everything, else of the caller's
//! organisations.
//!
//! What the service does is counted by the minute. What an organisation does is not: its calls are counted by webhook and
//! hour, and its jobs are read from their records, at most [`JOBS`] of them.

use chrono::{DateTime, Utc};

use longshore_kernel::access::Scope;
use longshore_kernel::activity::{self, Course, Point, Span};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Jobs of an organisation that are read: the newest.
const JOBS: i64 = 20_000;
/// Minutes of the shortest step of an organisation.
const HOUR: i32 = 60;

/// The spans that a caller with this scope can choose from.
#[must_use]
pub fn spans(scope: &Scope) -> &'static [Span] {
    if scope.organisations().is_none() { &Span::ALL } else { &[Span::Day, Span::Week] }
}

/// Reads a span, up to now; one that the caller cannot choose becomes the shortest one.
pub async fn read(db: &Database, scope: &Scope, span: Span) -> Result<Course, Problem> {
    let Some(organisations) = scope.organisations() else { return activity::read(&db.lists, span).await };
    let span = if spans(scope).contains(&span) { span } else { Span::Day };
    let step = span.step_minutes().max(HOUR);
    let minutes = span.step_minutes() * i32::try_from(span.steps()).map_err(Problem::internal)?;
    let steps = usize::try_from(minutes / step).map_err(Problem::internal)?;
    let from = sqlx::query_scalar!(
        r#"SELECT date_bin(make_interval(mins => $1), now(), 'epoch') - make_interval(mins => $2 - $1) AS "from!""#,
        step,
        minutes,
    )
    .fetch_one(&db.lists)
    .await?;
    let (jobs, calls) = tokio::try_join!(
        jobs(db, organisations, scope.eshop(), from, step),
        calls(db, organisations, scope.eshop(), from, step),
    )?;
    let points = |counted: Vec<Step>| {
        let mut points = vec![Point::default(); steps];
        for Step { step, good, bad, median_ms, p95_ms } in counted {
            if let Some(point) = usize::try_from(step).ok().and_then(|step| points.get_mut(step)) {
                *point = Point { good, bad, median_ms, p95_ms };
            }
        }
        points
    };
    let (jobs, deliveries) = (points(jobs), points(calls));
    Ok(Course { from, span, step_minutes: step, jobs, deliveries, waiting: vec![None; steps] })
}

struct Step {
    step: i32,
    good: i64,
    bad: i64,
    median_ms: Option<f64>,
    p95_ms: Option<f64>,
}

/// Jobs that ended, by the time of their acceptance, for that is what an index has.
async fn jobs(
    db: &Database,
    organisations: &[OrganisationId],
    eshop: Option<EshopId>,
    from: DateTime<Utc>,
    step: i32,
) -> Result<Vec<Step>, Problem> {
    let found = sqlx::query_as!(
        Step,
        r#"SELECT floor(extract(epoch FROM created_at - $3) / 60)::int / $4 AS "step!", count(*) FILTER (WHERE state = 'succeeded') AS "good!",
                  count(*) FILTER (WHERE state = 'failed') AS "bad!",
                  percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS median_ms,
                  percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95_ms
           FROM (SELECT j.* FROM unnest($1::uuid[]) AS o (id) CROSS JOIN LATERAL (
                     SELECT created_at, state, extract(epoch FROM finished_at - created_at)::float8 * 1000 AS ms FROM job
                     WHERE organisation_id = o.id AND created_at >= $3 AND state IN ('succeeded', 'failed') AND in_eshop($2, eshop_id)
                     ORDER BY created_at DESC LIMIT $5
                 ) AS j ORDER BY created_at DESC LIMIT $5) AS ended
           GROUP BY 1"#,
        organisations as &[OrganisationId],
        eshop as Option<EshopId>,
        from,
        step,
        JOBS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Calls to destinations of the webhooks, by the hour in which they ended. How long they took is not counted by webhook.
async fn calls(
    db: &Database,
    organisations: &[OrganisationId],
    eshop: Option<EshopId>,
    from: DateTime<Utc>,
    step: i32,
) -> Result<Vec<Step>, Problem> {
    let found = sqlx::query_as!(
        Step,
        r#"SELECT (extract(epoch FROM a.hour - $3) / 60)::int / $4 AS "step!", sum(a.delivered)::bigint AS "good!",
                  sum(a.failed)::bigint AS "bad!", NULL::float8 AS median_ms, NULL::float8 AS p95_ms
           FROM webhook w JOIN webhook_activity a ON a.webhook_id = w.id AND a.hour >= $3
           WHERE w.organisation_id = ANY ($1) AND in_eshop($2, w.eshop_id)
           GROUP BY 1"#,
        organisations as &[OrganisationId],
        eshop as Option<EshopId>,
        from,
        step,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
