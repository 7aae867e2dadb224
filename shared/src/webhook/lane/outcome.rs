//! What became of attempts, recorded for several lanes in one statement.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::platform::change::Change;
use crate::platform::context::{Actor, Origin};
use crate::platform::database::is_contention;
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::record_change;

/// One call of a destination.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Which of the delivery, from 1.
    pub number: usize,
    /// When it began.
    #[serde(serialize_with = "super::super::delivery::timestamp")]
    pub at: DateTime<Utc>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Status of the answer, where one came.
    pub status: Option<u16>,
    /// Why there was none, or why it does not count.
    pub error: Option<String>,
    /// The beginning of the answer's body; without U+0000, which Postgres does not hold.
    pub response: Option<String>,
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The destination took it.
    Delivered,
    /// It is tried again after this wait.
    Failed {
        /// From now on, by the clock of Postgres.
        wait: Duration,
    },
    /// That was the last attempt.
    Exhausted,
    /// It is not sent any more: its event has expired.
    Cancelled,
}

impl End {
    /// Its word, as it is stored and counted.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed { .. } => "failed",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What became of a delivery in a turn.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The delivery.
    pub delivery: Uuid,
    /// Its webhook.
    pub webhook: Uuid,
    /// The lease under which it was sent.
    pub token: i64,
    /// Whose the webhook is.
    pub organisation: Uuid,
    /// Type of the event.
    pub event_type: String,
    /// Entity of the event.
    pub entity: Uuid,
    /// What becomes of it.
    pub end: End,
    /// The call, where there was one.
    pub attempt: Option<Attempt>,
}

impl Outcome {
    /// The destination is gone for good (410): its webhook is to be disabled.
    fn is_gone(&self) -> bool {
        self.attempt.as_ref().is_some_and(|a| a.status == Some(410))
    }
}

/// How the outcomes of one lease were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The webhook.
    pub webhook: Uuid,
    /// The lease.
    pub token: i64,
    /// It was no longer the lane's: nothing was changed.
    pub stale: bool,
    /// The webhook was well, and now fails.
    pub began_failing: bool,
    /// The webhook was disabled.
    pub disabled: bool,
}

/// How often a statement that lost a race is run again.
const CONTENTION_RETRIES: usize = 5;

/// Failed attempts and successes of one lease.
#[derive(Default)]
struct Tally {
    succeeded: bool,
    /// Failures after the last success.
    failures: i32,
    gone: bool,
}

/// Records outcomes, in the order in which they came. All are recorded, or none.
pub async fn record(services: &Services, outcomes: &[Outcome]) -> Result<Vec<Reported>, Problem> {
    let mut tallies = BTreeMap::<(Uuid, i64), Tally>::new();
    for outcome in outcomes {
        let tally = tallies.entry((outcome.webhook, outcome.token)).or_default();
        match outcome.end {
            End::Delivered => (tally.succeeded, tally.failures) = (true, 0),
            End::Failed { .. } | End::Exhausted => tally.failures += 1,
            End::Cancelled => {}
        }
        tally.gone |= outcome.is_gone();
    }
    let mut sorted: Vec<_> = outcomes.iter().collect();
    // rows are locked in the order of their keys
    sorted.sort_unstable_by_key(|o| o.delivery);
    let columns = Columns::of(&sorted, &tallies)?;
    let mut tries = 0;
    loop {
        match columns.record(services, &tallies).await {
            Err(Failed::Database(error)) if is_contention(&error) && tries < CONTENTION_RETRIES => tries += 1,
            Err(Failed::Database(error)) => return Err(error.into()),
            Err(Failed::Problem(problem)) => return Err(problem),
            Ok(reported) => return Ok(reported),
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
    deliveries: Vec<Uuid>,
    webhooks: Vec<Uuid>,
    tokens: Vec<i64>,
    states: Vec<&'static str>,
    wait_seconds: Vec<f64>,
    attempts: Vec<String>,
    organisations: Vec<Uuid>,
    event_types: Vec<&'o str>,
    entities: Vec<Uuid>,
    lanes: Vec<Uuid>,
    lane_tokens: Vec<i64>,
    lane_succeeded: Vec<bool>,
    lane_failures: Vec<i32>,
}

impl<'o> Columns<'o> {
    fn of(outcomes: &[&'o Outcome], tallies: &BTreeMap<(Uuid, i64), Tally>) -> Result<Self, Problem> {
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
        }
        for ((webhook, token), tally) in tallies {
            columns.lanes.push(*webhook);
            columns.lane_tokens.push(*token);
            columns.lane_succeeded.push(tally.succeeded);
            columns.lane_failures.push(tally.failures);
        }
        Ok(columns)
    }

    async fn record(
        &self,
        services: &Services,
        tallies: &BTreeMap<(Uuid, i64), Tally>,
    ) -> Result<Vec<Reported>, Failed> {
        if !tallies.values().any(|t| t.gone) {
            return Ok(self.run(&services.db.main).await?);
        }
        let mut change = Change::begin(services).await?;
        let mut reported = self.run(change.connection()).await?;
        for report in &mut reported {
            let gone = tallies.get(&(report.webhook, report.token)).is_some_and(|t| t.gone);
            if gone && !report.stale {
                report.disabled = disable(&mut change, report.webhook).await?;
            }
        }
        change.commit().await?;
        Ok(reported)
    }

    async fn run<'c>(&self, connection: impl sqlx::PgExecutor<'c>) -> Result<Vec<Reported>, sqlx::Error> {
        // A lane that is well stays untouched: only a failure, or the first success after one, writes its row.
        sqlx::query_as!(
            Reported,
            r#"WITH given AS MATERIALIZED (
                   SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::float8[], $6::text[],
                                        $7::uuid[], $8::text[], $9::uuid[])
                       AS g (id, webhook_id, token, state, wait, attempts, organisation_id, event_type, entity_id)
               ), lane AS MATERIALIZED (
                   SELECT g.webhook_id, g.token, g.succeeded, g.failures, l.failures AS before
                   FROM unnest($10::uuid[], $11::bigint[], $12::bool[], $13::int[])
                       AS g (webhook_id, token, succeeded, failures)
                   LEFT JOIN LATERAL (
                       SELECT l.failures FROM webhook_lane l
                       WHERE l.webhook_id = g.webhook_id AND l.token = g.token OFFSET 0
                   ) l ON true
               ), told AS MATERIALIZED (
                   SELECT given.* FROM given JOIN lane USING (webhook_id, token) WHERE lane.before IS NOT NULL
               ), counted AS (
                   UPDATE webhook_lane l
                   SET failures = CASE WHEN lane.succeeded THEN 0 ELSE l.failures END + lane.failures,
                       failing_since = CASE
                           WHEN lane.succeeded AND lane.failures = 0 THEN NULL
                           WHEN lane.succeeded OR l.failures = 0 THEN now()
                           ELSE l.failing_since END
                   FROM lane
                   WHERE l.webhook_id = lane.webhook_id AND l.token = lane.token
                     AND (lane.failures > 0 OR (lane.succeeded AND l.failures > 0))
               ), ended AS (
                   DELETE FROM delivery d USING told t
                   WHERE d.id = t.id AND t.state <> 'failed'
                   RETURNING d.id, d.webhook_id, d.eshop_id, t.organisation_id, d.event_id, t.event_type, t.entity_id,
                             t.state, d.attempt_count + CASE t.state WHEN 'cancelled' THEN 0 ELSE 1 END AS attempt_count,
                             d.attempts || t.attempts::jsonb AS attempts, d.redelivery_of, d.created_at
               ), kept AS (
                   INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type,
                       entity_id, state, attempt_count, attempts, redelivery_of, created_at, finished_at)
                   SELECT id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
                          attempt_count, attempts, redelivery_of, created_at, now()
                   FROM ended
               ), retried AS (
                   UPDATE delivery d
                   SET attempt_count = d.attempt_count + 1, attempts = d.attempts || t.attempts::jsonb,
                       next_attempt_at = now() + make_interval(secs => t.wait)
                   FROM told t
                   WHERE d.id = t.id AND t.state = 'failed'
               )
               SELECT webhook_id AS "webhook!", token AS "token!", before IS NULL AS "stale!",
                      before IS NOT NULL AND failures > 0 AND (succeeded OR before = 0) AS "began_failing!",
                      false AS "disabled!"
               FROM lane"#,
            &self.deliveries,
            &self.webhooks,
            &self.tokens,
            &self.states as &[&str],
            &self.wait_seconds,
            &self.attempts,
            &self.organisations,
            &self.event_types as &[&str],
            &self.entities,
            &self.lanes,
            &self.lane_tokens,
            &self.lane_succeeded,
            &self.lane_failures,
        )
        .fetch_all(connection)
        .await
    }
}

/// Disables a webhook whose destination is gone; `false` when it was not active any more.
async fn disable(change: &mut Change<'_>, webhook: Uuid) -> Result<bool, sqlx::Error> {
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
        "",
        "WITH made AS (
             UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = $10, changed_at = now()
             WHERE id = $9 AND active
             RETURNING id, organisation_id, disabled_reason
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('active', jsonb_build_array(true, false),
                        'disabledReason', jsonb_build_array(NULL, disabled_reason)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        webhook,
        "the destination answered 410 Gone",
    )
    .await?;
    Ok(change.note(recorded) == 1)
}
