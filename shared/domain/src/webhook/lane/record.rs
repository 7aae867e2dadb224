//! Recording the outcomes of attempts, for several lanes in one statement.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::late;
use super::outcome::{End, Outcome, Reported};
use crate::calling::breaker::{self, Tally};
use crate::webhook::schedule;
use longshore_kernel::access::Actor;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::crypto;
use longshore_kernel::ids::{BatchId, DeliveryId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::is_contention;

/// A webhook whose attempts all failed for this long is disabled (`docs/reference/webhooks.md#disabling`). The time
/// begins again after a gap that is longer than every wait before a retry: nothing was due in it.
const DISABLED_AFTER: Duration = Duration::from_hours(5 * 24);

/// Why a webhook is disabled.
const GONE: &str = "the destination answered 410 Gone";
const NOTHING_BUT_FAILURES: &str = "all attempts failed for five days";

/// How often a statement that lost a race is run again.
const CONTENTION_RETRIES: usize = 5;

/// What the outcomes of one lease amount to.
#[derive(Default)]
struct Summary {
    signs: Tally,
    gone: bool,
    hold: Option<Duration>,
}

/// Records outcomes, in the order in which they came. All are recorded, or none.
pub async fn record(services: &Services, outcomes: &[Outcome]) -> Result<Vec<Reported>, Problem> {
    let mut leases = BTreeMap::<(WebhookId, i64), Summary>::new();
    for outcome in outcomes {
        let summary = leases.entry((outcome.webhook, outcome.token)).or_default();
        if let Some(sign) = outcome.sign() {
            summary.signs.add(sign);
        }
        summary.gone |= outcome.is_gone();
        summary.hold = summary.hold.max(outcome.hold);
    }
    let mut sorted: Vec<_> = outcomes.iter().collect();
    // rows are locked in the order of their keys
    sorted.sort_unstable_by_key(|o| o.delivery);
    let columns = Columns::of(&sorted, &leases)?;
    let mut tries = 0;
    loop {
        match columns.record(services, &leases).await {
            Err(Failed::Database(error)) if is_contention(&error) && tries < CONTENTION_RETRIES => tries += 1,
            Err(Failed::Database(error)) => return Err(error.into()),
            Err(Failed::Problem(problem)) => return Err(problem),
            Ok(reported) => {
                // only of webhooks that are gone: nothing is sent again because of it
                if let Err(problem) = late::record(services, outcomes, &reported).await {
                    tracing::warn!(error = %problem, "calls of deleted webhooks were not added to the history");
                }
                return Ok(reported);
            }
        }
    }
}

enum Failed {
    Database(sqlx::Error),
    Problem(Problem),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// The arrays of the statement.
#[derive(Default)]
struct Columns<'o> {
    deliveries: Vec<DeliveryId>,
    webhooks: Vec<WebhookId>,
    tokens: Vec<i64>,
    states: Vec<&'static str>,
    wait_seconds: Vec<f64>,
    attempts: Vec<String>,
    organisations: Vec<OrganisationId>,
    event_types: Vec<&'o str>,
    entities: Vec<Uuid>,
    /// The batch that it was sent in, and the one that it has from now on.
    sent: Vec<Option<BatchId>>,
    batches: Vec<Option<BatchId>>,
    lanes: Vec<WebhookId>,
    lane_tokens: Vec<i64>,
    lane_succeeded: Vec<bool>,
    lane_failures: Vec<i32>,
    lane_probes: Vec<i32>,
    /// The factor of a lane's pause before its next probe.
    lane_stretches: Vec<f64>,
    /// For how many seconds a lane is paused; 0 without a request for a pause.
    lane_holds: Vec<f64>,
}

impl<'o> Columns<'o> {
    fn of(outcomes: &[&'o Outcome], leases: &BTreeMap<(WebhookId, i64), Summary>) -> Result<Self, Problem> {
        let mut columns = Self::default();
        for outcome in outcomes {
            columns.deliveries.push(outcome.delivery);
            columns.webhooks.push(outcome.webhook);
            columns.tokens.push(outcome.token);
            columns.states.push(outcome.end.as_str());
            columns.wait_seconds.push(match outcome.end {
                End::Failed { wait } => wait.as_secs_f64(),
                _ => 0.0,
            });
            let attempts = serde_json::to_string(&outcome.attempt.as_slice()).map_err(Problem::internal)?;
            columns.attempts.push(attempts);
            columns.organisations.push(outcome.organisation);
            columns.event_types.push(&outcome.event_type);
            columns.entities.push(outcome.entity);
            columns.sent.push(outcome.batch.map(|batch| batch.sent));
            columns.batches.push(outcome.batch.map(|batch| batch.next));
        }
        for ((webhook, token), Summary { signs, hold, .. }) in leases {
            columns.lanes.push(*webhook);
            columns.lane_tokens.push(*token);
            columns.lane_succeeded.push(signs.succeeded);
            columns.lane_failures.push(i32::try_from(signs.failures).map_err(Problem::internal)?);
            columns.lane_probes.push(i32::try_from(signs.probes).map_err(Problem::internal)?);
            columns.lane_stretches.push(breaker::jittered(crypto::random_offset()));
            columns.lane_holds.push(hold.unwrap_or_default().as_secs_f64());
        }
        Ok(columns)
    }

    async fn record(
        &self,
        services: &Services,
        leases: &BTreeMap<(WebhookId, i64), Summary>,
    ) -> Result<Vec<Reported>, Failed> {
        let gone: Vec<WebhookId> =
            leases.iter().filter(|(_, summary)| summary.gone).map(|((webhook, _), _)| *webhook).collect();
        let mut reported = if gone.is_empty() && self.sent.iter().all(Option::is_none) {
            self.run(&services.db.main).await?
        } else {
            let mut change = Change::begin(services).await?;
            if !gone.is_empty() {
                // before their lanes, the common order of locks
                sqlx::query!(
                    "SELECT FROM webhook WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE",
                    &gone as &[WebhookId]
                )
                .execute(change.connection())
                .await?;
            }
            let mut reported = self.run(change.connection()).await?;
            self.end_batches(change.connection(), &reported).await?;
            for report in &mut reported {
                let gone = leases.get(&(report.webhook, report.token)).is_some_and(|t| t.gone);
                if gone && !report.stale {
                    report.disabled = disable(&mut change, report.webhook, GONE, true).await?;
                }
            }
            change.commit().await?;
            reported
        };
        // after the outcomes, which are recorded even if this fails: the next failure tries again
        if let Err(problem) = disable_overdue(services, &mut reported).await {
            tracing::warn!(error = %problem, "permanently failing webhooks could not be disabled yet");
        }
        Ok(reported)
    }

    /// Removes the batches that were sent under a lease that was live. A statement of its own: most outcomes are of none.
    async fn end_batches(
        &self,
        connection: &mut PgConnection,
        reported: &[Reported],
    ) -> Result<(), sqlx::Error> {
        let stale: HashSet<_> = reported.iter().filter(|r| r.stale).map(|r| (r.webhook, r.token)).collect();
        let sent = self.webhooks.iter().zip(&self.tokens).zip(&self.sent);
        let sent = sent.filter(|((webhook, token), _)| !stale.contains(&(**webhook, **token)));
        let ended: HashSet<_> = sent.filter_map(|((webhook, _), sent)| Some((*webhook, (*sent)?))).collect();
        let (webhooks, batches): (Vec<WebhookId>, Vec<BatchId>) = ended.into_iter().unzip();
        sqlx::query!(
            "DELETE FROM webhook_batch WHERE webhook_id = ANY ($1) AND id = ANY ($2)",
            &webhooks as &[WebhookId],
            &batches as &[BatchId],
        )
        .execute(connection)
        .await?;
        Ok(())
    }

    async fn run<'c>(&self, connection: impl sqlx::PgExecutor<'c>) -> Result<Vec<Reported>, sqlx::Error> {
        // A lane that is well stays untouched: only a failure, or the first success after one, writes its row.
        sqlx::query_as!(
            Reported,
            r#"WITH given AS MATERIALIZED (
                   SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::float8[], $6::text[],
                                        $7::uuid[], $8::text[], $9::uuid[], $21::uuid[], $22::uuid[])
                       AS g (id, webhook_id, token, state, wait, attempts, organisation_id, event_type, entity_id, sent, batch_id)
               ), lane AS MATERIALIZED (
                   SELECT g.*, l.failures AS before
                   FROM unnest($10::uuid[], $11::bigint[], $12::bool[], $13::int[], $14::int[], $15::float8[], $19::float8[])
                       AS g (webhook_id, token, succeeded, failures, probes, stretch, hold)
                   LEFT JOIN LATERAL (
                       SELECT l.failures FROM webhook_lane l
                       WHERE l.webhook_id = g.webhook_id AND l.token = g.token OFFSET 0
                   ) l ON true
               ), accepted AS MATERIALIZED (
                   SELECT given.* FROM given JOIN lane USING (webhook_id, token) WHERE lane.before IS NOT NULL
               ), counted AS (
                   -- `Breaker::after`, step by step
                   UPDATE webhook_lane l
                   SET failures = CASE WHEN lane.succeeded THEN 0 ELSE l.failures END + lane.failures,
                       failing_since = CASE
                           WHEN lane.succeeded AND lane.failures = 0 THEN NULL
                           WHEN lane.succeeded OR l.failures = 0 THEN now()
                           ELSE l.failing_since END,
                       -- after a gap longer than every wait the time begins again: nothing was due in it
                       tried_since = CASE
                           WHEN lane.succeeded AND lane.failures = 0 THEN NULL
                           WHEN lane.succeeded OR l.failures = 0 OR l.failed_at < now() - make_interval(secs => $20) THEN now()
                           ELSE coalesce(l.tried_since, l.failing_since) END,
                       failed_at = CASE WHEN lane.failures > 0 THEN now() ELSE l.failed_at END,
                       probes = CASE
                           WHEN l.probe_at IS NOT NULL AND NOT lane.succeeded THEN l.probes + lane.probes
                           WHEN CASE WHEN lane.succeeded THEN 0 ELSE l.failures END + lane.failures < $16 THEN 0
                           ELSE lane.probes END,
                       probe_at = CASE
                           WHEN l.probe_at IS NOT NULL AND NOT lane.succeeded AND lane.probes = 0 THEN l.probe_at
                           WHEN l.probe_at IS NOT NULL AND NOT lane.succeeded THEN now() + make_interval(
                               secs => lane.stretch * ($17::float8[])[least(l.probes + lane.probes + 1, cardinality($17))])
                           WHEN CASE WHEN lane.succeeded THEN 0 ELSE l.failures END + lane.failures < $16 THEN NULL
                           ELSE now() + make_interval(
                               secs => lane.stretch * ($17::float8[])[least(lane.probes + 1, cardinality($17))]) END,
                       held_until = CASE WHEN lane.hold > 0 THEN greatest(l.held_until, now() + make_interval(secs => lane.hold))
                                         ELSE l.held_until END
                   FROM lane
                   WHERE l.webhook_id = lane.webhook_id AND l.token = lane.token
                     AND (lane.failures > 0 OR (lane.succeeded AND l.failures > 0) OR lane.hold > 0)
                   RETURNING l.webhook_id, l.token,
                       l.probe_at IS NOT NULL AND l.tried_since <= now() - make_interval(secs => $18) AS overdue
               ), ended AS (
                   DELETE FROM delivery d USING accepted t
                   -- With more than the key to compare: of a join by a unique key alone, Postgres reckons the look-up twice where it
                   -- expects no row, and reads all of the key with its dead entries.
                   WHERE d.id = t.id AND d.webhook_id = t.webhook_id AND t.state <> ALL ('{failed,divided}')
                   RETURNING d.id, d.webhook_id, d.eshop_id, t.organisation_id, d.event_id, t.event_type, t.entity_id,
                             t.state, d.attempt_count + CASE t.state WHEN 'cancelled' THEN 0 ELSE 1 END AS attempt_count,
                             d.attempts || t.attempts::jsonb AS attempts, d.redelivery_of, t.sent AS batch_id, d.created_at
               ), kept AS (
                   INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type,
                       entity_id, state, attempt_count, attempts, redelivery_of, batch_id, created_at, finished_at)
                   SELECT id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
                          attempt_count, attempts, redelivery_of, batch_id, created_at, now()
                   FROM ended
               ), missed AS (
                   -- with what it counts, so that no line of what needs attention is lost
                   INSERT INTO exhausted_activity AS a (minute, webhook_id, deliveries)
                   SELECT date_trunc('minute', now()), webhook_id, count(*) FROM ended WHERE state = 'exhausted'
                   GROUP BY webhook_id ORDER BY webhook_id
                   ON CONFLICT (minute, webhook_id) DO UPDATE SET deliveries = a.deliveries + excluded.deliveries
               ), retried AS (
                   UPDATE delivery d
                   SET attempt_count = d.attempt_count + (t.state = 'failed')::int, attempts = d.attempts || t.attempts::jsonb,
                       -- halves keep their place
                       next_attempt_at = CASE t.state WHEN 'divided' THEN least(d.next_attempt_at, now())
                                                      ELSE now() + make_interval(secs => t.wait) END,
                       batch_id = t.batch_id
                   FROM accepted t
                   -- once, even if it was recorded already and the answer was lost
                   WHERE d.id = t.id AND t.state = ANY ('{failed,divided}')
                     AND d.attempt_count = (t.attempts::jsonb -> 0 ->> 'number')::int - 1
                     AND (t.state = 'failed' OR d.batch_id IS DISTINCT FROM t.batch_id)
               )
               SELECT webhook_id AS "webhook!", token AS "token!", before IS NULL AS "stale!",
                      before IS NOT NULL AND failures > 0 AND (succeeded OR before = 0) AS "began_failing!",
                      coalesce(counted.overdue, false) AS "overdue!", false AS "disabled!"
               FROM lane LEFT JOIN counted USING (webhook_id, token)"#,
            &self.deliveries as &[DeliveryId],
            &self.webhooks as &[WebhookId],
            &self.tokens,
            &self.states as &[&str],
            &self.wait_seconds,
            &self.attempts,
            &self.organisations as &[OrganisationId],
            &self.event_types as &[&str],
            &self.entities,
            &self.lanes as &[WebhookId],
            &self.lane_tokens,
            &self.lane_succeeded,
            &self.lane_failures,
            &self.lane_probes,
            &self.lane_stretches,
            i32::try_from(breaker::THRESHOLD).unwrap_or(i32::MAX),
            &breaker::PAUSES[..],
            DISABLED_AFTER.as_secs_f64(),
            &self.lane_holds,
            schedule::LONGEST_WAIT.as_secs_f64(),
            &self.sent as &[Option<BatchId>],
            &self.batches as &[Option<BatchId>],
        )
        .fetch_all(connection)
        .await
    }
}

async fn disable_overdue(services: &Services, reported: &mut [Reported]) -> Result<(), Problem> {
    let mut overdue: Vec<_> = reported.iter_mut().filter(|r| r.overdue && !r.disabled).collect();
    if overdue.is_empty() {
        return Ok(());
    }
    let mut change = Change::begin(services).await?;
    let mut disabled = Vec::with_capacity(overdue.len());
    for report in &overdue {
        disabled.push(disable(&mut change, report.webhook, NOTHING_BUT_FAILURES, false).await?);
    }
    change.commit().await?;
    for (report, disabled) in overdue.iter_mut().zip(disabled) {
        report.disabled = disabled;
    }
    Ok(())
}

/// Disables a webhook, `at_once` or if it still fails; `false` if it is no longer active, or its failures were reset.
async fn disable(
    change: &mut Change<'_>,
    webhook: WebhookId,
    reason: &'static str,
    at_once: bool,
) -> Result<bool, sqlx::Error> {
    let origin = Origin {
        actor: Actor { kind: "job".to_owned(), id: None, name: "webhook delivery".to_owned() },
        request_id: None,
        job: None,
        traceparent: None,
    };
    let recorded = record_change!(
        change.connection(),
        origin,
        "webhook.disable",
        "webhook",
        None,
        "WITH made AS (
             UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = $10, version = version + 1
             WHERE id = $9 AND active
               AND ($11 OR EXISTS (SELECT FROM webhook_lane l WHERE l.webhook_id = $9 AND l.probe_at IS NOT NULL))
             RETURNING id, version, changed_at, organisation_id, disabled_reason
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('active', jsonb_build_array(true, false),
                        'disabledReason', jsonb_build_array(NULL, disabled_reason)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        webhook.get(),
        reason,
        at_once,
    )
    .await?;
    Ok(change.note(recorded) == 1)
}
