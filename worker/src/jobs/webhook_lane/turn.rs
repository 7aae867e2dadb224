//! A turn of a lane: calls under way, the next batch coming, outcomes on their way to the record.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use longshore_shared::platform::problem::Problem;
use longshore_shared::webhook::breaker::{Breaker, Sign};
use longshore_shared::webhook::lane::{self, BATCH, Batch, Cursor, End, From as Start, Lease};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::LaneContext;
use super::crowd::Member;
use super::keeper::Keeper;
use super::ledger::Ledger;
use super::parcel::{Parcel, Target};

/// How long a turn sends before others have theirs.
const SLICE: Duration = Duration::from_secs(2);

/// How long a turn lasts at most, but for the calls that are under way then.
const LONGEST: Duration = Duration::from_secs(30);

/// How long calls under way may take to end a slice. What hangs longer holds its place anyway, so the turn goes on.
const PATIENCE: Duration = Duration::from_millis(500);

/// The next batch is fetched when no more than so many rounds of calls wait.
const AHEAD: usize = 8;

/// How often a lane that ran dry is looked at again while calls of it are under way.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long outcomes may take to be recorded once the process is to stop.
const LAST_RECORDS: Duration = Duration::from_secs(20);

/// Whether calls are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Until the slice ends.
    Open(Instant),
    /// Not now: what is under way may end until then.
    Draining(Instant),
    /// Not any more.
    Shut,
}

/// What a call came to, as far as the turn is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    /// What it says about the destination.
    sign: Option<Sign>,
    /// It is to be tried again.
    again: bool,
    /// The destination is gone: nothing more goes there.
    gone: bool,
}

/// A turn; see the module.
pub(super) struct Turn<'c> {
    context: &'c LaneContext,
    lease: Arc<Lease>,
    keeper: Keeper,
    member: Member,
    nudge: Arc<Notify>,
    target: Arc<Target>,
    ledger: Arc<Ledger>,
    /// As the calls of this turn have made it.
    breaker: Breaker,
    waiting: VecDeque<Parcel>,
    under_way: FuturesUnordered<BoxFuture<'static, Sent>>,
    fetching: Option<JoinHandle<Result<Batch, Problem>>>,
    /// Where the last fetch ended, when there may be more behind it.
    cursor: Option<Cursor>,
    /// The last look from the start found all that is due.
    dry: bool,
    look_again: Instant,
    gate: Gate,
    ends: Instant,
    failure: Option<Problem>,
}

impl<'c> Turn<'c> {
    pub(super) fn new(
        context: &'c LaneContext,
        lease: Arc<Lease>,
        keeper: Keeper,
        nudge: Arc<Notify>,
    ) -> Self {
        let target = Target::new(Arc::clone(&lease), context);
        let now = Instant::now();
        Self {
            context,
            breaker: lease.breaker,
            lease,
            keeper,
            member: context.crowd.join(),
            nudge,
            target: Arc::new(target),
            ledger: Arc::default(),
            waiting: VecDeque::new(),
            under_way: FuturesUnordered::new(),
            fetching: None,
            cursor: None,
            dry: false,
            look_again: now,
            gate: Gate::Open(now + SLICE),
            ends: now + LONGEST,
            failure: None,
        }
    }

    /// Sends what was fetched `first`, then what is due until nothing more is, the slice is over, or the lease or the
    /// process ends.
    pub(super) async fn run(mut self, first: Option<Batch>) -> Result<(), Problem> {
        if let Some(batch) = first {
            self.fetched(Ok(batch));
        }
        let stop = self.context.stop.clone();
        let mut last_records = None;
        loop {
            self.go_on();
            // what has ended already needs no waiting
            while let Some(Some(sent)) = self.under_way.next().now_or_never() {
                self.sent(sent);
                self.go_on();
            }
            if self.is_over() {
                break;
            }
            let wake = last_records.unwrap_or_else(|| self.wake());
            tokio::select! {
                Some(sent) = self.under_way.next() => self.sent(sent),
                () = self.member.aged() => {}
                fetched = fetched(&mut self.fetching) => self.fetched(fetched),
                () = self.ledger.settled() => {}
                () = self.nudge.notified() => self.dry = false,
                () = self.keeper.changed() => {}
                () = stop.cancelled(), if last_records.is_none() => {
                    self.shut();
                    last_records = Some(Instant::now() + LAST_RECORDS);
                }
                () = tokio::time::sleep_until(wake) => {
                    if last_records.is_some() {
                        break;
                    }
                    self.on_time();
                }
            }
        }
        self.failure.map_or(Ok(()), Err)
    }

    fn go_on(&mut self) {
        if self.keeper.is_over() || self.ledger.is_closed() {
            self.shut();
        }
        self.start_calls();
        self.fetch_ahead();
    }

    fn start_calls(&mut self) {
        if !matches!(self.gate, Gate::Open(_)) {
            return;
        }
        let probe = self.breaker.is_open();
        let limit = if self.lease.ordered || probe { 1 } else { self.lease.max_in_flight };
        while self.under_way.len() < limit && self.member.has_room() && self.keeper.holds() {
            let Some(parcel) = self.waiting.pop_front() else { return };
            let (target, ledger) = (Arc::clone(&self.target), Arc::clone(&self.ledger));
            let (writer, young) = (self.context.writer.clone(), self.member.begin());
            self.under_way.push(Box::pin(async move {
                let outcome = young.accompany(target.send(parcel, probe)).await;
                let sent = Sent {
                    sign: outcome.sign(),
                    again: matches!(outcome.end, End::Failed { .. }),
                    gone: outcome.attempt.as_ref().is_some_and(|attempt| attempt.status == Some(410)),
                };
                // here, so that a full writer holds back this call's place and nothing else
                writer.record(outcome, &ledger).await;
                sent
            }));
        }
    }

    fn sent(&mut self, sent: Sent) {
        if let Some(sign) = sent.sign {
            self.breaker = self.breaker.step(sign);
        }
        let failed = matches!(sent.sign, Some(Sign::Failure { .. }));
        // a breaker that has opened, or whose probe has failed, ends the turn: the next one comes when a probe is due
        if sent.gone || (sent.again && self.lease.ordered) || (failed && self.breaker.is_open()) {
            self.shut();
        }
    }

    /// Starts to fetch the next batch while there is still some of this one.
    fn fetch_ahead(&mut self) {
        // a lane that is one of many has few calls under way, gets on slowly, and holds less
        let enough = if self.lease.ordered { 0 } else { (BATCH / 2).min(AHEAD * self.under_way.len()) };
        let wanted = matches!(self.gate, Gate::Open(_)) && !self.dry && self.waiting.len() <= enough;
        if !wanted || self.fetching.is_some() || !self.keeper.holds() {
            return;
        }
        let from = match self.cursor {
            Some(cursor) => Start::After(cursor),
            // gathered now, before the fetch begins: what is settled later may still be in its snapshot
            None => Start::Start { in_hand: self.ledger.in_hand() },
        };
        let (db, lease) = (self.context.services.db.clone(), Arc::clone(&self.lease));
        // in a task of its own: a connection that it holds is given back whatever this turn waits for
        self.fetching = Some(tokio::spawn(async move { lane::fetch(&db, &lease, from).await }));
    }

    fn fetched(&mut self, fetched: Result<Batch, Problem>) {
        self.fetching = None;
        match fetched {
            Err(problem) => {
                self.failure = Some(problem);
                self.shut();
            }
            Ok(_) if self.gate == Gate::Shut => {}
            Ok(batch) => {
                let from_start = self.cursor.is_none();
                self.dry = from_start && !batch.is_full;
                self.look_again = Instant::now() + LOOK_AGAIN;
                self.cursor = batch.cursor;
                for parcel in batch.due.into_iter().map(Parcel::from) {
                    self.ledger.take(parcel.delivery);
                    self.waiting.push_back(parcel);
                }
            }
        }
    }

    /// Starts nothing more; what waits is left to a later turn.
    fn shut(&mut self) {
        self.gate = Gate::Shut;
        self.ledger.put_down(self.waiting.drain(..).map(|parcel| parcel.delivery));
    }

    fn wake(&self) -> Instant {
        let gate = match self.gate {
            Gate::Open(until) | Gate::Draining(until) => until,
            // what is under way has its own deadline
            Gate::Shut => Instant::now() + SLICE,
        };
        if self.dry && matches!(self.gate, Gate::Open(_)) { gate.min(self.look_again) } else { gate }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        match self.gate {
            Gate::Draining(until) if now >= until && now >= self.ends => self.shut(),
            Gate::Open(until) if now >= until => self.gate = Gate::Draining(now + PATIENCE),
            Gate::Draining(until) if now >= until => self.gate = Gate::Open(now + SLICE),
            Gate::Open(_) if self.dry && now >= self.look_again => self.dry = false,
            _ => {}
        }
    }

    fn is_over(&mut self) -> bool {
        if !self.under_way.is_empty() || self.fetching.is_some() {
            return false;
        }
        if matches!(self.gate, Gate::Draining(_)) {
            self.shut();
        }
        let nothing_to_do = self.gate == Gate::Shut || (self.dry && self.waiting.is_empty());
        nothing_to_do && self.ledger.is_empty()
    }
}

/// Waits for the fetch that is under way, if one is.
async fn fetched(fetching: &mut Option<JoinHandle<Result<Batch, Problem>>>) -> Result<Batch, Problem> {
    match fetching {
        Some(task) => task.await.unwrap_or_else(|error| Err(Problem::internal(error))),
        None => std::future::pending().await,
    }
}
