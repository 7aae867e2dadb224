//! The backlog of the service: for the metrics, and by the minute for charts.

use crate::expedition::handover::lane as systems;
use crate::job::backlog as jobs;
use crate::webhook::lane::backlog as lanes;
use longshore_kernel::activity;
use longshore_kernel::metrics::Backlog;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

use super::orders;

/// Days for which samples and counts are kept.
const KEPT_DAYS: i32 = 8;
/// The same for outages.
const OUTAGES_KEPT_DAYS: i32 = 90;

/// The metrics of the process as text, with what waits now.
pub async fn metrics(services: &Services) -> Result<String, Problem> {
    services.metrics.render(&services.db, &services.queues, read(services)).await
}

async fn read(services: &Services) -> Result<Backlog, Problem> {
    let db = &services.db;
    let (jobs, lanes, unwell, orders, handover) = tokio::try_join!(
        jobs::read(db),
        lanes::read(db),
        lanes::unwell(db),
        orders::read(db),
        systems::behind(db),
    )?;
    Ok(Backlog {
        jobs_open: jobs.open,
        jobs_oldest_seconds: jobs.oldest_seconds,
        due: lanes.due,
        held: lanes.held,
        lanes: lanes.lanes,
        oldest_due_seconds: lanes.oldest_seconds,
        failing: unwell.failing,
        disabled: unwell.disabled,
        orders,
        handover,
    })
}

/// Samples how much is waiting (upkeep, every minute), and forgets what is past its age; returns how many rows it forgot.
pub async fn sample(services: &Services) -> Result<u64, Problem> {
    let (jobs, lanes) = tokio::try_join!(jobs::read(&services.db), lanes::read(&services.db))?;
    sqlx::query!(
        "INSERT INTO backlog (minute, jobs_open, jobs_oldest_seconds, deliveries_due, deliveries_oldest_seconds)
         VALUES (date_trunc('minute', now()), $1, $2, $3, $4)
         ON CONFLICT (minute) DO NOTHING",
        jobs.open,
        jobs.oldest_seconds,
        lanes.due,
        lanes.oldest_seconds,
    )
    .execute(&services.db.main)
    .await?;
    activity::compact(&services.db.main).await?;
    let gone = sqlx::query_scalar!(
        r#"WITH a AS (DELETE FROM activity WHERE minute < now() - make_interval(days => $1) RETURNING 1),
                b AS (DELETE FROM backlog WHERE minute < now() - make_interval(days => $1) RETURNING 1),
                c AS (DELETE FROM webhook_activity WHERE minute < now() - make_interval(days => $1) RETURNING 1),
                d AS (DELETE FROM job_activity WHERE minute < now() - make_interval(days => $1) RETURNING 1),
                e AS (DELETE FROM worker_activity WHERE minute < now() - make_interval(days => $1) RETURNING 1),
                f AS (DELETE FROM exhausted_activity WHERE minute < now() - make_interval(days => $1) RETURNING 1),
                g AS (DELETE FROM outage WHERE ended_at < now() - make_interval(days => $2) RETURNING 1)
           SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) + (SELECT count(*) FROM c)
                  + (SELECT count(*) FROM d) + (SELECT count(*) FROM e) + (SELECT count(*) FROM f)
                  + (SELECT count(*) FROM g) AS "gone!""#,
        KEPT_DAYS,
        OUTAGES_KEPT_DAYS,
    )
    .fetch_one(&services.db.main)
    .await?;
    Ok(gone.unsigned_abs())
}
