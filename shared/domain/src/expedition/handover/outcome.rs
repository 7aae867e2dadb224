//! What became of calls, recorded for several lanes together (`docs/reference/orders.md#calls-of-a-warehouse`).
//!
//! An outcome counts under the token of its lease, and for the number that it is about: a stale one changes nothing, and its call is
//! made again. Each is decided under the lock of its order, so it sees what a cancel, a hold or a report of the warehouse has made of
//! it meanwhile:
//!
//! | answer | the order is | then |
//! | --- | --- | --- |
//! | taken | `sending` | `accepted` |
//! | refused | `sending` | `refused`, and the order is `incorrect` |
//! | refused | `withdrawing`, and nothing was reported of it | `refused`; it is `on_hold`, or `canceled` |
//! | any other end of a `PUT` | `withdrawing` | the withdrawal is due |
//! | given back | `withdrawing` | `withdrawn`; it is `on_hold`, or `canceled`; `incorrect` where the warehouse had begun |
//! | kept | `withdrawing` | `accepted`; a cancel goes back to where it was |
//!
//! So `canceled` is only said after the system of the warehouse has said that it does not have the order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::call::Ask;
use super::{KEPT, given_back, kept};
use crate::expedition::order::{self, Order, State};
use crate::expedition::write::{ENTITY, Transition, write};
use crate::expedition::{stocks, tally};
use crate::list::fields::expedition::{ExpeditionStatus as Status, HandoverState as Handover};
use crate::webhook::breaker::{self, Breaker, Sign, Tally};
use longshore_kernel::access::{Actor, Scope};
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::crypto::random_offset;
use longshore_kernel::ids::{ExpeditionId, WmsId};
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Action of the audit records.
const ACTION: &str = "expedition.handover";

/// How often a statement that lost a race is run again.
const ATTEMPTS: usize = 5;

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The warehouse has the order; its own id of it.
    Taken(Option<String>),
    /// It does not take it; what is wrong.
    Refused(Value),
    /// It does not have it, or no longer.
    GivenBack,
    /// It keeps it.
    Kept,
    /// None that decides anything.
    Failed {
        /// What went wrong.
        error: String,
        /// When it is tried again, from now on by the clock of Postgres.
        wait: Duration,
        /// For how long the system asks to be left alone.
        hold: Option<Duration>,
    },
    /// No call was made.
    NotCalled,
}

/// What became of a call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The order.
    pub expedition: ExpeditionId,
    /// The hand-over of it.
    pub number: i32,
    /// What was asked.
    pub ask: Ask,
    /// Which attempt it was.
    pub attempt: usize,
    /// The wms.
    pub wms: WmsId,
    /// The lease under which it was called.
    pub token: i64,
    /// It was a probe: the breaker was open when the call began.
    pub probe: bool,
    /// The answer.
    pub answer: Answer,
}

impl Outcome {
    /// What it says about the system.
    #[must_use]
    pub fn sign(&self) -> Option<Sign> {
        match self.answer {
            Answer::Failed { .. } => Some(Sign::Failure { probe: self.probe }),
            Answer::NotCalled => None,
            _ => Some(Sign::Success),
        }
    }
}

/// Runs what may lose a race.
macro_rules! again {
    ($run:expr) => {{
        let mut tries = 1;
        loop {
            match $run.await {
                Err(problem) if problem.is_contention() && tries < ATTEMPTS => tries += 1,
                ended => break ended,
            }
        }
    }};
}

/// Records outcomes, in the order in which they came; returns for each whether its lease was still that of the lane.
pub async fn record(services: &Services, outcomes: &[Outcome]) -> Result<Vec<bool>, Problem> {
    let lanes = Lanes::read(services, outcomes).await?;
    let live: Vec<&Outcome> = outcomes.iter().filter(|o| lanes.is_live(o)).collect();
    let (decisive, plain): (Vec<&Outcome>, Vec<&Outcome>) = live
        .iter()
        .partition(|outcome| matches!(outcome.answer, Answer::Refused(_) | Answer::GivenBack | Answer::Kept));
    again!(plainly(services, &plain))?;
    again!(decide(services, &decisive))?;
    again!(lanes.count(services, &live))?;
    Ok(outcomes.iter().map(|outcome| lanes.is_live(outcome)).collect())
}

/// The service, in the audit.
fn origin() -> Origin {
    Origin {
        actor: Actor { kind: "schedule".to_owned(), id: None, name: "hand-over".to_owned() },
        request_id: None,
        job: None,
        traceparent: None,
    }
}

/// Records what changes no status.
async fn plainly(services: &Services, outcomes: &[&Outcome]) -> Result<(), Problem> {
    if outcomes.is_empty() {
        return Ok(());
    }
    let mut sorted = outcomes.to_vec();
    // orders are locked by id
    sorted.sort_unstable_by_key(|outcome| outcome.expedition);
    let ids: Vec<Uuid> = sorted.iter().map(|o| o.expedition.get()).collect();
    let numbers: Vec<i32> = sorted.iter().map(|o| o.number).collect();
    let answers: Vec<&str> = sorted
        .iter()
        .map(|outcome| match outcome.answer {
            Answer::Taken(_) => "taken",
            Answer::NotCalled => "not_called",
            _ => "failed",
        })
        .collect();
    let takes: Vec<bool> = sorted.iter().map(|o| o.ask == Ask::Take).collect();
    let firsts: Vec<bool> = sorted.iter().map(|o| o.attempt <= 1).collect();
    let (mut internal, mut errors, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for outcome in &sorted {
        let (id, error, wait) = match &outcome.answer {
            Answer::Taken(id) => (id.as_deref(), None, 0.0),
            Answer::Failed { error, wait, .. } => (None, Some(error.as_str()), wait.as_secs_f64()),
            _ => (None, None, 0.0),
        };
        internal.push(id);
        errors.push(error);
        waits.push(wait);
    }
    let origin = origin();
    let mut change = Change::begin_single(services, None).await?;
    let recorded = record_change!(
        change.connection(),
        origin,
        ACTION,
        ENTITY,
        None,
        "WITH given AS MATERIALIZED (
             SELECT * FROM unnest($9::uuid[], $10::int[], $11::text[], $12::boolean[], $13::boolean[], $14::text[], $15::text[],
                                  $16::float8[])
                 AS g (id, number, answer, takes, first, internal_id, error, wait)
         ), locked AS MATERIALIZED (
             SELECT g.*, e.organisation_id, e.version FROM given g
             CROSS JOIN LATERAL (
                 SELECT organisation_id, version FROM expedition WHERE expedition.id = g.id FOR NO KEY UPDATE
             ) e
         ), made AS (
             UPDATE expedition_handover h
             SET handover_state = CASE
                     WHEN h.handover_state = 'sending' AND g.answer = 'taken' THEN 'accepted'
                     WHEN h.handover_state = 'sending' AND g.answer = 'not_called' AND g.first THEN 'pending'
                     ELSE h.handover_state END,
                 handover_since = CASE WHEN h.handover_state = 'sending' AND g.answer = 'taken' THEN now() ELSE h.handover_since END,
                 handover_attempts = CASE WHEN g.answer = 'not_called' THEN greatest(0, h.handover_attempts - 1)
                                          ELSE h.handover_attempts END,
                 handover_next_attempt_at = CASE
                     WHEN h.handover_state = 'accepted' OR h.handover_state = 'sending' AND g.answer = 'taken' THEN NULL
                     -- the call that it waited for has ended
                     WHEN h.handover_state = 'withdrawing' AND g.takes THEN now()
                     ELSE now() + make_interval(secs => g.wait) END,
                 handover_in_call_until = NULL,
                 handover_error = CASE WHEN g.answer = 'taken' THEN NULL ELSE coalesce(g.error, h.handover_error) END,
                 wms_internal_id = coalesce(g.internal_id, h.wms_internal_id)
             FROM locked g
             WHERE h.id = ANY (ARRAY[g.id]) AND h.handover_number = g.number
               AND (h.handover_state = 'withdrawing' OR g.takes AND h.handover_state IN ('sending', 'accepted'))
             RETURNING h.id, g.organisation_id, g.version, h.handover_state, g.answer, g.takes, h.handover_number,
                       h.wms_internal_id
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('handover', jsonb_build_array('sending', 'accepted'),
                        'number', jsonb_build_array(NULL, handover_number),
                        'wmsInternalId', jsonb_build_array(NULL, wms_internal_id)) AS changes,
                    '{}'::jsonb AS data
             FROM made WHERE answer = 'taken' AND handover_state = 'accepted'
         )",
        &ids,
        &numbers,
        &answers as &[&str],
        &takes,
        &firsts,
        &internal as &[Option<&str>],
        &errors as &[Option<&str>],
        &waits,
    )
    .await?;
    change.note(recorded);
    change.commit().await
}

/// Records what may change a status.
async fn decide(services: &Services, outcomes: &[&Outcome]) -> Result<(), Problem> {
    if outcomes.is_empty() {
        return Ok(());
    }
    let ids: Vec<ExpeditionId> = outcomes.iter().map(|outcome| outcome.expedition).collect();
    let mut change = Change::begin(services).await?;
    let orders = order::lock(change.connection(), &Scope::Everything, &ids).await?;
    let numbers: HashMap<Uuid, i32> = sqlx::query!(
        "SELECT id, handover_number FROM expedition_handover WHERE id = ANY($1)",
        &ids as &[ExpeditionId],
    )
    .fetch_all(change.connection())
    .await?
    .into_iter()
    .map(|row| (row.id, row.handover_number))
    .collect();
    let mut ledger = stocks::lock(change.connection(), &orders).await?.ledger;
    let (mut transitions, mut ended, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for outcome in outcomes {
        let place = orders.binary_search_by_key(&outcome.expedition, |order| order.id);
        let Some(order) = place.ok().map(|place| &orders[place]) else { continue };
        if numbers.get(&order.id.get()) != Some(&outcome.number) || !seen.insert(order.id) {
            continue;
        }
        match after(order, outcome) {
            After::Nothing => {}
            After::PutEnded => ended.push(order.id),
            After::State(state, error) => {
                if order.state.status.is_booked() && !state.status.is_booked() {
                    ledger.release(&order.demand());
                }
                transitions.push(Transition {
                    order,
                    state,
                    action: ACTION,
                    remark: None,
                    origin: 0,
                    is_raised: false,
                    handover_error: error,
                });
            }
        }
    }
    let (_, lanes) = write(change.connection(), &[&origin()], &transitions, &mut ledger).await?;
    change.note_lanes(lanes);
    change.note_orders(tally::of(&transitions));
    withdraw_now(&mut change, &ended).await?;
    change.commit().await
}

/// The calls have ended that withdrawals waited for.
async fn withdraw_now(change: &mut Change<'_>, ids: &[ExpeditionId]) -> Result<(), sqlx::Error> {
    if ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE expedition_handover SET handover_next_attempt_at = now(), handover_in_call_until = NULL
         WHERE id = ANY($1) AND handover_state = 'withdrawing'",
        ids as &[ExpeditionId],
    )
    .execute(change.connection())
    .await
    .map(|_| ())
}

/// What an answer makes of an order.
#[derive(Debug, PartialEq)]
enum After {
    /// It is about what is no longer so.
    Nothing,
    /// The withdrawal is due.
    PutEnded,
    /// Another state, and what the record says of the hand-over.
    State(State, Option<String>),
}

fn after(order: &Order, outcome: &Outcome) -> After {
    let state = &order.state;
    let to =
        |status, handover| State { status, handover: Some(handover), canceling_from: None, ..state.clone() };
    let Some(handover) = state.handover else { return After::Nothing };
    // what an order becomes that the warehouse does not have
    let back = match (state.status, state.canceling_from) {
        (Status::AwaitingProcessing, _) => Some(Status::OnHold),
        (Status::WaitingForCancel, _) => Some(Status::Canceled),
        _ => None,
    };
    let is_reported = state.status != Status::AwaitingProcessing
        && state.canceling_from != Some(Status::AwaitingProcessing);
    match (&outcome.answer, outcome.ask, handover) {
        (Answer::Refused(errors), Ask::Take, Handover::Sending) => {
            let refused = to(Status::Incorrect, Handover::Refused);
            After::State(State { errors: Some(errors.clone()), ..refused }, None)
        }
        (Answer::Refused(_), Ask::Take, Handover::Withdrawing) => match back.filter(|_| !is_reported) {
            Some(status) => After::State(to(status, Handover::Refused), None),
            None => After::PutEnded,
        },
        (Answer::GivenBack, Ask::GiveBack, Handover::Withdrawing) => After::State(given_back(order), None),
        (Answer::Kept, Ask::GiveBack, Handover::Withdrawing) => {
            After::State(kept(order), Some(KEPT.to_owned()))
        }
        _ => After::Nothing,
    }
}

/// The lanes that outcomes are of, as they were before.
struct Lanes(BTreeMap<(WmsId, i64), Breaker>);

impl Lanes {
    async fn read(services: &Services, outcomes: &[Outcome]) -> Result<Self, Problem> {
        let wmses: Vec<WmsId> = outcomes.iter().map(|outcome| outcome.wms).collect();
        let rows = sqlx::query!(
            r#"SELECT wms_id AS "wms: WmsId", token, failures, CASE WHEN probe_at IS NOT NULL THEN probes END AS probes
               FROM wms_lane WHERE wms_id = ANY($1)"#,
            &wmses as &[WmsId],
        )
        .fetch_all(&services.db.main)
        .await?;
        let breaker = |failures: i32, probes: Option<i32>| {
            Breaker::stored(failures.unsigned_abs(), probes.map(i32::unsigned_abs))
        };
        let lanes = rows.into_iter().map(|row| ((row.wms, row.token), breaker(row.failures, row.probes)));
        Ok(Self(lanes.collect()))
    }

    fn is_live(&self, outcome: &Outcome) -> bool {
        self.0.contains_key(&(outcome.wms, outcome.token))
    }

    /// Steps the breakers of lanes. One that is well, and stays so, is not written.
    async fn count(&self, services: &Services, outcomes: &[&Outcome]) -> Result<(), Problem> {
        let mut told =
            BTreeMap::<(WmsId, i64), (Tally, Option<Duration>, Option<(&str, ExpeditionId)>)>::new();
        for outcome in outcomes {
            let lane = told.entry((outcome.wms, outcome.token)).or_default();
            if let Some(sign) = outcome.sign() {
                lane.0.add(sign);
            }
            match &outcome.answer {
                Answer::Failed { error, hold, .. } => {
                    lane.1 = lane.1.max(*hold);
                    lane.2 = Some((error, outcome.expedition));
                }
                Answer::NotCalled => {}
                _ => lane.2 = None,
            }
        }
        told.retain(|lane, (tally, hold, _)| {
            let is_well = self.0.get(lane).is_some_and(|breaker| !breaker.has_failed());
            tally.failures > 0 || hold.is_some() || (tally.succeeded && !is_well)
        });
        if told.is_empty() {
            return Ok(());
        }
        let mut change = Change::begin(services).await?;
        for ((wms, token), (tally, hold, error)) in told {
            count(&mut change, wms, token, tally, hold, error).await?;
        }
        change.commit().await
    }
}

/// Steps the breaker of one lane, under its lock.
async fn count(
    change: &mut Change<'_>,
    wms: WmsId,
    token: i64,
    tally: Tally,
    hold: Option<Duration>,
    error: Option<(&str, ExpeditionId)>,
) -> Result<(), sqlx::Error> {
    let row = sqlx::query!(
        "SELECT failures, CASE WHEN probe_at IS NOT NULL THEN probes END AS probes
         FROM wms_lane WHERE wms_id = $1 AND token = $2 FOR NO KEY UPDATE",
        wms.get(),
        token,
    )
    .fetch_optional(change.connection())
    .await?;
    let Some(row) = row else { return Ok(()) };
    let before = Breaker::stored(row.failures.unsigned_abs(), row.probes.map(i32::unsigned_abs));
    let (failures, probes) = match before.after(tally) {
        Breaker::Closed { failures } => (failures, None),
        Breaker::Open { failures, probes } => (failures, Some(probes)),
    };
    // what was under way when it opened moves no probe
    let is_paused_anew = probes.is_some() && (!before.is_open() || tally.succeeded || tally.probes > 0);
    let pause = probes.filter(|_| is_paused_anew).map(|n| breaker::pause(n, random_offset()).as_secs_f64());
    sqlx::query!(
        "UPDATE wms_lane
         SET failures = $3, probes = coalesce($4, 0),
             failing_since = CASE WHEN $3 = 0 THEN NULL WHEN $5 THEN now() ELSE coalesce(failing_since, now()) END,
             probe_at = CASE WHEN $4::int IS NULL THEN NULL ELSE coalesce(now() + make_interval(secs => $6), probe_at) END,
             held_until = CASE WHEN $7::float8 > 0 THEN greatest(held_until, now() + make_interval(secs => $7)) ELSE held_until END,
             error = CASE WHEN $8::text IS NOT NULL THEN $8 WHEN $5 THEN NULL ELSE error END,
             error_at = CASE WHEN $8::text IS NOT NULL THEN now() WHEN $5 THEN NULL ELSE error_at END,
             error_expedition_id = CASE WHEN $8::text IS NOT NULL THEN $9 WHEN $5 THEN NULL ELSE error_expedition_id END
         WHERE wms_id = $1 AND token = $2",
        wms.get(),
        token,
        i32::try_from(failures).unwrap_or(i32::MAX),
        probes.map(|n| i32::try_from(n).unwrap_or(i32::MAX)) as Option<i32>,
        tally.succeeded,
        pause as Option<f64>,
        hold.unwrap_or_default().as_secs_f64(),
        error.map(|(error, _)| error) as Option<&str>,
        error.map(|(_, id)| id.get()) as Option<Uuid>,
    )
    .execute(change.connection())
    .await
    .map(|_| ())
}
