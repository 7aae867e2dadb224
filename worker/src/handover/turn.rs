//! A turn of the lane of a wms: looks for what is due, calls, and records what came of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use longshore_domain::calling::breaker::{Breaker, Sign};
use longshore_domain::expedition::handover::call::{self, BEGIN_WITHIN, Due};
use longshore_domain::expedition::handover::lane::Lease;
use longshore_domain::expedition::handover::outcome::{Answer, Outcome};
use longshore_kernel::activity::Subject;
use longshore_kernel::problem::Problem;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::HandoverContext;
use super::call::Target;
use crate::lanes::keeper::Keeper;
use crate::places::Place;

/// How long a turn begins calls before it makes way for others.
const SLICE: Duration = Duration::from_secs(10);

/// Calls that are recorded as begun and wait, at most: what waits is handed over already, so it is no more than what the system
/// answers in a moment.
const MOST_AHEAD: usize = 256;

/// When a turn that found nothing more looks again while calls are under way. What another process made due is found by this.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A turn without an answer for this long is slow, and an answer within it ends that.
const SLOW: Duration = Duration::from_millis(250);

/// How long nothing begins after this machine had no room for a call.
const NO_ROOM: Duration = Duration::from_secs(1);

/// How long outcomes may take to be recorded when the process stops.
const LAST_RECORDS: Duration = Duration::from_secs(20);

/// Calls that are recorded as begun, and when that was asked for.
type Looked = (Instant, usize, Result<Vec<Due>, Problem>);

/// A turn; see the module.
pub(super) struct Turn<'c> {
    context: &'c HandoverContext,
    lease: Arc<Lease>,
    keeper: Keeper,
    nudge: Arc<Notify>,
    target: Arc<Target>,
    breaker: Breaker,
    waiting: VecDeque<(Instant, Due)>,
    under_way: FuturesUnordered<BoxFuture<'static, (Duration, Outcome)>>,
    recording: FuturesUnordered<BoxFuture<'static, bool>>,
    looking: Option<JoinHandle<Looked>>,
    /// Calls that have ended since the last look began.
    ended: usize,
    /// How many calls may wait: some times as many as end during a look, so that a fast system waits for no look.
    ahead: usize,
    /// The last look found everything that is due.
    dry: bool,
    look_again: Instant,
    place: &'c mut Place,
    /// When a call last began or ended.
    moved: Instant,
    /// Calls begin until then.
    ends: Instant,
    is_shut: bool,
    failure: Option<Problem>,
}

impl<'c> Turn<'c> {
    pub(super) fn new(
        context: &'c HandoverContext,
        lease: Arc<Lease>,
        keeper: Keeper,
        nudge: Arc<Notify>,
        place: &'c mut Place,
    ) -> Self {
        let now = Instant::now();
        Self {
            context,
            breaker: lease.breaker,
            target: Arc::new(Target::new(Arc::clone(&lease), context)),
            lease,
            keeper,
            nudge,
            waiting: VecDeque::new(),
            under_way: FuturesUnordered::new(),
            recording: FuturesUnordered::new(),
            looking: None,
            ended: 0,
            ahead: 0,
            dry: false,
            look_again: now,
            place,
            moved: now,
            ends: now + SLICE,
            is_shut: false,
            failure: None,
        }
    }

    /// Calls until nothing is due, the slice is over, or the lease or the process ends.
    pub(super) async fn run(mut self) -> Result<(), Problem> {
        let stop = self.context.stop.clone();
        let mut last_records = None;
        loop {
            if self.keeper.is_over() || Instant::now() >= self.ends {
                self.shut();
            }
            self.begin_calls();
            self.look();
            if self.is_over() {
                break;
            }
            let wake = last_records.unwrap_or_else(|| self.wake());
            tokio::select! {
                Some((took, outcome)) = self.under_way.next() => self.answered(took, outcome),
                Some(is_live) = self.recording.next() => if !is_live { self.shut() },
                looked = looked(&mut self.looking) => self.looked(looked),
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
        self.place.remember(self.place.is_slow() || self.breaker.has_failed());
        self.failure.map_or(Ok(()), Err)
    }

    /// How many calls may be under way.
    fn limit(&self) -> usize {
        if self.breaker.is_open() { 1 } else { self.lease.max_in_flight }
    }

    fn begin_calls(&mut self) {
        while !self.is_shut && self.under_way.len() < self.limit() {
            let Some((begun_at, _)) = self.waiting.front() else { return };
            if begun_at.elapsed() > BEGIN_WITHIN {
                // too late: another worker might call for its order before it ends
                self.shut();
                return;
            }
            let probe = self.breaker.is_open();
            let begun =
                self.keeper.begin(|| self.waiting.pop_front().map(|(_, due)| self.target.begin(due, probe)));
            let Some(begun) = begun else { return };
            if self.under_way.is_empty() {
                self.moved = Instant::now();
            }
            let target = Arc::clone(&self.target);
            self.under_way.push(Box::pin(async move {
                let began = Instant::now();
                let outcome = target.make(begun).await;
                (began.elapsed(), outcome)
            }));
        }
    }

    /// Looks for more while some of the last still wait.
    fn look(&mut self) {
        let limit = self.limit();
        let is_wanted = !self.is_shut && !self.dry && self.looking.is_none() && self.keeper.holds();
        let ahead = if self.breaker.is_open() { 0 } else { self.ahead.max(limit) };
        let most = (limit + ahead).saturating_sub(self.under_way.len() + self.waiting.len());
        if !is_wanted || most == 0 || self.waiting.len() > ahead / 2 {
            return;
        }
        let (db, lease) = (self.context.services.db.clone(), Arc::clone(&self.lease));
        self.ended = 0;
        // in its own task, so that it returns its connection independent of what this turn waits for
        self.looking = Some(tokio::spawn(async move {
            let asked = Instant::now();
            (asked, most, call::begin(&db, &lease, most).await)
        }));
    }

    fn looked(&mut self, looked: Result<Looked, Problem>) {
        self.looking = None;
        match looked {
            Ok((asked, most, Ok(found))) => {
                self.dry = found.len() < most;
                self.ahead = (4 * self.ended).min(MOST_AHEAD);
                self.look_again = Instant::now() + LOOK_AGAIN;
                self.waiting.extend(found.into_iter().map(|due| (asked, due)));
                if self.is_shut {
                    self.put_down(0);
                }
            }
            Ok((.., Err(problem))) | Err(problem) => {
                self.failure = Some(problem);
                self.shut();
            }
        }
    }

    fn answered(&mut self, took: Duration, outcome: Outcome) {
        self.moved = Instant::now();
        self.ended += 1;
        self.place.began();
        if let Some(sign) = outcome.sign() {
            self.breaker = self.breaker.step(sign);
        }
        if took < SLOW {
            self.place.set_slow(self.breaker.has_failed());
        }
        let failed = matches!(outcome.sign(), Some(Sign::Failure { .. }));
        let holds = matches!(outcome.answer, Answer::Failed { hold: Some(_), .. });
        // a breaker that has opened, or whose probe failed, ends the turn: the next one comes when a probe is due
        if holds || (failed && self.breaker.is_open()) {
            self.shut();
        }
        let counted = match outcome.answer {
            Answer::NotCalled => None,
            Answer::Failed { .. } => Some("failed"),
            // a refusal is an answer
            Answer::Taken(_) | Answer::Refused(_) | Answer::GivenBack | Answer::Kept => Some("succeeded"),
        };
        if let Some(counted) = counted {
            self.context.services.metrics.activity().note(Subject::Handover, counted, took);
        }
        if outcome.answer == Answer::NotCalled {
            self.shut();
            let (recorder, organisation) = (self.context.recorder.clone(), self.lease.organisation);
            self.recording.push(Box::pin(async move {
                tokio::time::sleep(NO_ROOM).await;
                recorder.record(organisation, outcome).await
            }));
            return;
        }
        self.record(outcome);
    }

    fn record(&mut self, outcome: Outcome) {
        let (recorder, organisation) = (self.context.recorder.clone(), self.lease.organisation);
        self.recording.push(Box::pin(async move { recorder.record(organisation, outcome).await }));
    }

    /// Begins nothing more.
    fn shut(&mut self) {
        self.is_shut = true;
        self.put_down(0);
    }

    /// Records that what waits was not called, but for the first.
    fn put_down(&mut self, but: usize) {
        for (_, due) in self.waiting.split_off(but.min(self.waiting.len())) {
            let outcome = self.target.not_called(&due);
            self.record(outcome);
            // it is due again
            self.dry = false;
        }
    }

    fn wake(&self) -> Instant {
        let mut wake = Instant::now() + SLICE;
        if !self.is_shut {
            wake = wake.min(self.ends);
            if self.dry {
                wake = wake.min(self.look_again);
            }
        }
        // when the turn becomes slow
        if self.only_waits() && !self.place.is_slow() { wake.min(self.moved + SLOW) } else { wake }
    }

    /// Nothing is left for it to do but to wait: for answers, or for locks of what they are about.
    fn only_waits(&self) -> bool {
        !self.under_way.is_empty() || !self.recording.is_empty()
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        if self.only_waits() && now >= self.moved + SLOW {
            self.place.began();
            self.place.set_slow(true);
            self.ahead = 0;
            self.put_down(self.limit());
        }
        if self.dry && now >= self.look_again {
            self.dry = false;
        }
    }

    fn is_over(&self) -> bool {
        let is_idle = self.under_way.is_empty() && self.recording.is_empty() && self.looking.is_none();
        is_idle && (self.is_shut || (self.dry && self.waiting.is_empty()))
    }
}

/// Waits for the look under way, if any.
async fn looked(looking: &mut Option<JoinHandle<Looked>>) -> Result<Looked, Problem> {
    match looking {
        Some(task) => task.await.map_err(Problem::internal),
        None => std::future::pending().await,
    }
}
