//! What became of calls, recorded for several lanes together (`docs/reference/warehouse-systems.md#calls`).
//!
//! An outcome counts under the token of its lease, and for the number that it is about: a stale one changes nothing, and its call is
//! made again. Each is decided under the lock of its order, so it sees what a cancel, a hold or a report of the warehouse has made of
//! it meanwhile:
//!
//! | answer | the order is | then |
//! | --- | --- | --- |
//! | taken | `sending` | `accepted` |
//! | refused | `sending` | `refused`, and the order is `incorrect` |
//! | refused | `withdrawing`, and nothing was reported of it | `refused`; it is what was asked: `on_hold`, `canceled` or `incorrect` |
//! | any other end of a `PUT` | `withdrawing` | the withdrawal is due |
//! | given back | `withdrawing` | `withdrawn`; it is what was asked; `incorrect` where the warehouse had begun |
//! | kept | `withdrawing` | `accepted`; a cancel goes back to where it was |
//!
//! What becomes of one in doubt is in the table of [`super::doubt`].
//!
//! So `canceled` is only said after the system of the warehouse has said that it does not have the order.
//!
//! # Locks
//!
//! Outcomes of all organisations are recorded together, so none waits for a lock ([`record`]): an outcome whose order, stock or lane is
//! locked is left out, and the caller records it again ([`record_again`]), with those of its organisation alone. A request that
//! stalls with its locks delays its own organisation, and no other.

mod lanes;
mod locks;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use self::lanes::Lanes;
use self::locks::{Locks, left_out, orders_of};
use super::call::Ask;
use super::{KEPT, given_back, kept};
use crate::calling::breaker::Sign;
use crate::expedition::decision::let_go;
use crate::expedition::order::{self, Order, State};
use crate::expedition::write::{ENTITY, Transition, write};
use crate::expedition::{stocks, tally};
use crate::list::fields::expedition::{ExpeditionStatus as Status, HandoverState as Handover};
use longshore_kernel::access::Scope;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
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
    /// Of which call of the order: [`Due::in_call_until`](super::call::Due::in_call_until).
    pub in_call_until: DateTime<Utc>,
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
                Err(problem) if problem.is_contention() && !problem.is_locked() && tries < ATTEMPTS => {
                    tries += 1;
                }
                ended => break ended,
            }
        }
    }};
}

/// How an outcome was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It counts, as far as it is about what is still so.
    Yes,
    /// Its lease is no longer that of the lane: nothing was changed.
    Stale,
    /// What it is about is locked: it is to be recorded again in a moment.
    Locked,
}

/// Records outcomes, in the order in which they came. It waits for no lock.
pub async fn record(services: &Services, outcomes: &[Outcome]) -> Result<Vec<Recorded>, Problem> {
    record_with(services, outcomes, Locks::Skip).await
}

/// Records outcomes of one organisation that were left out. It waits for locks for a moment; what stays locked is left out again.
pub async fn record_again(services: &Services, outcomes: &[Outcome]) -> Result<Vec<Recorded>, Problem> {
    match record_with(services, outcomes, Locks::Await).await {
        Err(problem) if problem.is_locked() => record_with(services, outcomes, Locks::Skip).await,
        recorded => recorded,
    }
}

async fn record_with(
    services: &Services,
    outcomes: &[Outcome],
    locks: Locks,
) -> Result<Vec<Recorded>, Problem> {
    let lanes = Lanes::read(services, outcomes).await?;
    let live: Vec<&Outcome> = outcomes.iter().filter(|o| lanes.is_live(o)).collect();
    let (decisive, plain): (Vec<&Outcome>, Vec<&Outcome>) = live
        .iter()
        .partition(|outcome| matches!(outcome.answer, Answer::Refused(_) | Answer::GivenBack | Answer::Kept));
    let mut locked = left_out(again!(plainly(services, &plain, locks)), &plain, locks)?;
    locked.extend(left_out(again!(decide(services, &decisive, locks)), &decisive, locks)?);
    let recorded: Vec<&Outcome> =
        live.iter().copied().filter(|outcome| !locked.contains(&outcome.expedition)).collect();
    let uncounted = again!(lanes.count(services, &recorded))?;
    let became = |outcome: &Outcome| match outcome {
        outcome if !lanes.is_live(outcome) => Recorded::Stale,
        Outcome { expedition, wms, .. } if locked.contains(expedition) || uncounted.contains(wms) => {
            Recorded::Locked
        }
        _ => Recorded::Yes,
    };
    Ok(outcomes.iter().map(became).collect())
}

/// The service, in the audit.
fn origin() -> Origin {
    Origin::schedule("hand-over")
}

/// The arrays of the statement below, by id: orders are locked in this order.
#[derive(Default)]
struct Columns<'o> {
    ids: Vec<Uuid>,
    numbers: Vec<i32>,
    answers: Vec<&'static str>,
    takes: Vec<bool>,
    calls: Vec<DateTime<Utc>>,
    internal: Vec<Option<&'o str>>,
    errors: Vec<Option<&'o str>>,
    waits: Vec<f64>,
}

impl<'o> Columns<'o> {
    fn of(outcomes: &[&'o Outcome]) -> Self {
        let mut sorted = outcomes.to_vec();
        sorted.sort_unstable_by_key(|outcome| outcome.expedition);
        let mut columns = Self::default();
        for outcome in sorted {
            let (answer, internal, error, wait) = match &outcome.answer {
                Answer::Taken(id) => ("taken", id.as_deref(), None, 0.0),
                Answer::NotCalled => ("not_called", None, None, 0.0),
                Answer::Failed { error, wait, .. } => {
                    ("failed", None, Some(error.as_str()), wait.as_secs_f64())
                }
                Answer::Refused(_) | Answer::GivenBack | Answer::Kept => continue,
            };
            columns.ids.push(outcome.expedition.get());
            columns.numbers.push(outcome.number);
            columns.answers.push(answer);
            columns.takes.push(outcome.ask == Ask::Take);
            columns.calls.push(outcome.in_call_until);
            columns.internal.push(internal);
            columns.errors.push(error);
            columns.waits.push(wait);
        }
        columns
    }
}

/// Records what changes no status; returns the orders that are locked.
async fn plainly(
    services: &Services,
    outcomes: &[&Outcome],
    locks: Locks,
) -> Result<HashSet<ExpeditionId>, Problem> {
    if outcomes.is_empty() {
        return Ok(HashSet::new());
    }
    let mut change = Change::begin_together(services).await?;
    let locked = locks.orders(change.connection(), outcomes).await?;
    let free: Vec<&Outcome> =
        outcomes.iter().copied().filter(|outcome| !locked.contains(&outcome.expedition)).collect();
    let columns = Columns::of(&free);
    let origin = origin();
    let recorded = record_change!(
        change.connection(),
        origin,
        ACTION,
        ENTITY,
        None,
        "WITH given AS MATERIALIZED (
             SELECT * FROM unnest($9::uuid[], $10::int[], $11::text[], $12::boolean[], $13::timestamptz[], $14::text[], $15::text[],
                                  $16::float8[])
                 AS g (id, number, answer, takes, in_call_until, internal_id, error, wait)
         ), locked AS MATERIALIZED (
             SELECT g.*, e.organisation_id FROM given g
             CROSS JOIN LATERAL (
                 SELECT organisation_id FROM expedition WHERE expedition.id = g.id FOR NO KEY UPDATE
             ) e
         ), made AS (
             UPDATE expedition_handover h
             SET handover_state = CASE
                     WHEN h.handover_state = 'sending' AND g.answer = 'taken' THEN 'accepted'
                     WHEN h.handover_state = 'sending' AND g.answer = 'not_called' AND h.handover_attempts = 1
                         AND h.handover_in_call_until > now() THEN 'pending'
                     ELSE h.handover_state END,
                 handover_since = CASE WHEN h.handover_state = 'sending' AND g.answer = 'taken' THEN now() ELSE h.handover_since END,
                 handover_attempts = CASE WHEN g.answer = 'not_called' THEN greatest(0, h.handover_attempts - 1)
                                          ELSE h.handover_attempts END,
                 handover_next_attempt_at = CASE
                     WHEN h.handover_state = 'accepted' OR h.handover_state = 'sending' AND g.answer = 'taken' THEN NULL
                     WHEN h.handover_state = 'withdrawing' AND g.takes THEN
                         -- the call that it waited for has ended
                         CASE WHEN h.handover_attempts = 0 AND coalesce(h.handover_in_call_until = g.in_call_until, true) THEN now()
                              ELSE h.handover_next_attempt_at END
                     ELSE now() + make_interval(secs => g.wait) END,
                 -- an outcome that had to wait for a lock ends no call that has begun since
                 handover_in_call_until = nullif(h.handover_in_call_until, g.in_call_until),
                 handover_error = CASE WHEN h.handover_state = 'accepted' THEN h.handover_error
                                       WHEN g.answer = 'taken' THEN NULL ELSE coalesce(g.error, h.handover_error) END,
                 wms_internal_id = coalesce(g.internal_id, h.wms_internal_id)
             FROM locked g
             WHERE h.id = ANY (ARRAY[g.id]) AND h.handover_number = g.number
               AND (h.handover_state = 'withdrawing' OR g.takes AND h.handover_state IN ('sending', 'accepted'))
               -- Of a call that failed or was not made: only once, and not after another has begun. What was recorded is recorded
               -- again where it could not be counted.
               AND (g.answer = 'taken' OR h.handover_state = 'accepted' OR h.handover_in_call_until = g.in_call_until)
             -- one that a report had accepted has its event already
             RETURNING h.id, g.organisation_id, h.handover_number, h.wms_internal_id,
                       g.answer = 'taken' AND h.handover_state = 'accepted' AND h.handover_since = now() AS is_accepted
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('handover', jsonb_build_array('sending', 'accepted'),
                        'number', jsonb_build_array(NULL, handover_number),
                        'wmsInternalId', jsonb_build_array(NULL, wms_internal_id)) AS changes,
                    '{}'::jsonb AS data
             FROM made WHERE is_accepted
         )",
        &columns.ids,
        &columns.numbers,
        &columns.answers as &[&str],
        &columns.takes,
        &columns.calls,
        &columns.internal as &[Option<&str>],
        &columns.errors as &[Option<&str>],
        &columns.waits,
    )
    .await?;
    change.note(recorded);
    change.commit().await?;
    Ok(locked)
}

/// Records what may change a status; returns the orders that are locked, or wait for a stock that is.
async fn decide(
    services: &Services,
    outcomes: &[&Outcome],
    locks: Locks,
) -> Result<HashSet<ExpeditionId>, Problem> {
    if outcomes.is_empty() {
        return Ok(HashSet::new());
    }
    let mut change = Change::begin_together(services).await?;
    let mut locked = locks.orders(change.connection(), outcomes).await?;
    let ids: Vec<ExpeditionId> = orders_of(outcomes).filter(|id| !locked.contains(id)).collect();
    let mut orders = order::lock(change.connection(), &Scope::Everything, &ids).await?;
    locked.extend(locks.stocks(change.connection(), &orders).await?);
    orders.retain(|order| !locked.contains(&order.id));
    let last: HashMap<Uuid, (i32, Option<DateTime<Utc>>)> = sqlx::query!(
        "SELECT id, handover_number, handover_in_call_until FROM expedition_handover WHERE id = ANY($1)",
        &ids as &[ExpeditionId],
    )
    .fetch_all(change.connection())
    .await?
    .into_iter()
    .map(|row| (row.id, (row.handover_number, row.handover_in_call_until)))
    .collect();
    let mut ledger = stocks::lock(change.connection(), &orders).await?.ledger;
    let (mut transitions, mut ended, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for outcome in outcomes {
        let place = orders.binary_search_by_key(&outcome.expedition, |order| order.id);
        let Some(order) = place.ok().map(|place| &orders[place]) else { continue };
        let Some((number, in_call_until)) = last.get(&order.id.get()) else { continue };
        // a number is refused for ever; a withdrawal may be asked for again
        let is_ours = outcome.ask == Ask::Take || *in_call_until == Some(outcome.in_call_until);
        if *number != outcome.number || !is_ours || !seen.insert(order.id) {
            continue;
        }
        match after(order, outcome) {
            After::Nothing => {}
            After::PutEnded => ended.push(order.id),
            After::State(state, error) => {
                let_go(order, &state, &mut ledger);
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
    change.commit().await?;
    Ok(locked)
}

/// The calls have ended that withdrawals waited for.
async fn withdraw_now(change: &mut Change<'_>, ids: &[ExpeditionId]) -> Result<(), sqlx::Error> {
    if ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE expedition_handover SET handover_next_attempt_at = now(), handover_in_call_until = NULL
         WHERE id = ANY($1) AND handover_state = 'withdrawing' AND handover_attempts = 0",
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
    let Some(handover) = state.handover else { return After::Nothing };
    let is_reported = state.status != Status::AwaitingProcessing
        && state.canceling_from != Some(Status::AwaitingProcessing);
    match (&outcome.answer, outcome.ask, handover) {
        (Answer::Refused(errors), Ask::Take, Handover::Sending) => {
            let (status, errors, handover) =
                (Status::Incorrect, Some(errors.clone()), Some(Handover::Refused));
            After::State(State { status, errors, canceling_from: None, handover, ..state.clone() }, None)
        }
        (Answer::Refused(_), Ask::Take, Handover::Withdrawing) if is_reported => After::PutEnded,
        // the warehouse does not have it
        (Answer::Refused(_), Ask::Take, Handover::Withdrawing) => {
            After::State(State { handover: Some(Handover::Refused), ..given_back(state) }, None)
        }
        (Answer::GivenBack, Ask::GiveBack, Handover::Withdrawing) => After::State(given_back(state), None),
        (Answer::Kept, Ask::GiveBack, Handover::Withdrawing) => {
            After::State(kept(state), Some(KEPT.to_owned()))
        }
        _ => After::Nothing,
    }
}
