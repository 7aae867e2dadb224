//! A turn of a lane: sends calls, fetches the next ones, and passes outcomes to the writer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use longshore_domain::calling::breaker::{Breaker, Sign};
use longshore_domain::webhook::lane::{
    self, AT_ONCE, Batch, Cursor, Due, End, Found, From as Start, Lease, Outcome, Paid, WAITED_FOR,
};
use longshore_kernel::problem::Problem;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::batch::{self, Room};
use super::crowd::Member;
use super::host::Guest;
use super::keeper::Keeper;
use super::ledger::Ledger;
use super::pace::Pace;
use super::parcel::{NoRoom, Parcel, Target};
use super::{Begun, Held, LaneContext, Word};
use crate::places::Place;

/// How long a turn sends before it makes way for others.
const SLICE: Duration = Duration::from_secs(2);

/// How long a lease lasts at most, not counting calls under way at that time.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// How long calls under way may take to end a slice. A call that hangs longer holds its place anyway, so the
/// turn continues.
const PATIENCE: Duration = Duration::from_millis(500);

/// The next ones are fetched when at most this many rounds of calls wait.
const AHEAD: usize = 8;

/// When a turn without due deliveries looks again while calls are under way: soon, then less and less often.
/// Work queued in this process nudges the turn; this finds work that another process queued, and retries.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const LOOK_RARELY: Duration = Duration::from_secs(2);

/// A turn without an answer for this long is slow, and an answer within it ends that.
const SLOW: Duration = Duration::from_millis(250);

/// How long outcomes may take to be recorded when the process stops.
const LAST_RECORDS: Duration = Duration::from_secs(20);

/// How long nothing starts after this machine had no room for a call.
const NO_ROOM: Duration = Duration::from_secs(1);

/// Whether calls start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Yes, until the slice ends.
    Open(Instant),
    /// Not now: calls under way may finish until then.
    Draining(Instant),
    /// Not any more.
    Shut,
}

/// The result of a call, as far as the turn needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Sent {
    /// What it shows about the destination.
    sign: Option<Sign>,
    /// It must be tried again.
    again: bool,
    /// Its halves are due.
    divided: bool,
    /// The destination is gone (410): nothing more is sent there.
    gone: bool,
    /// The destination asked for a pause.
    holds: bool,
    /// The time since the call began.
    took: Duration,
}

/// What was fetched, and the memory for it.
type Fetched = (Found, Option<Room>);

/// When a payment was asked for, and what it was.
type Payment = (Instant, Option<Paid>);

/// What a turn begins with.
#[derive(Debug, Default)]
pub(super) struct First {
    /// What it sends first; nothing if it has to fetch that.
    pub(super) found: Option<Found>,
    /// It has to look whether more is due, too.
    pub(super) looks: bool,
}

/// How a turn ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) result: Result<(), Problem>,
    /// Nothing more is due and nothing failed: the lane may stay leased, and the lease is valid until then.
    pub(super) stays: Option<Instant>,
    /// Notices that came after the turn ended.
    pub(super) words: mpsc::UnboundedReceiver<Word>,
    /// Of a lane with a rate, for how long no call may begin, and whether something may be due.
    pub(super) rests: Option<(Duration, bool)>,
}

/// A turn; see the module.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any of them may hold at once"
)]
pub(super) struct Turn<'c> {
    context: &'c LaneContext,
    lease: Arc<Lease>,
    keeper: Keeper,
    member: Member,
    guest: Guest,
    /// A call waits for room at the host.
    is_held_back: bool,
    nudge: Arc<Notify>,
    words: mpsc::UnboundedReceiver<Word>,
    target: Arc<Target>,
    ledger: Arc<Ledger>,
    /// The state of the breaker after the calls of this turn.
    breaker: Breaker,
    waiting: VecDeque<Parcel>,
    under_way: FuturesUnordered<BoxFuture<'static, Result<Sent, NoRoom>>>,
    fetching: Option<JoinHandle<Result<Fetched, Problem>>>,
    /// There may be batches that a holder before has begun.
    looks_for_begun: bool,
    /// Where the last fetch ended, if there may be more after it.
    cursor: Option<Cursor>,
    /// The last look from the start found everything that is due.
    dry: bool,
    /// More may be due than was found; notices then wait for their turn in the row.
    backlog: bool,
    /// Of a lane with a rate.
    pace: Option<Pace>,
    paying: Option<JoinHandle<Result<Payment, Problem>>>,
    /// No call is paid for before.
    pays_at: Instant,
    /// It did not send all that is due.
    leaves: bool,
    /// Something became due while a fetch was under way, which may not have seen it.
    missed: bool,
    look_again: Instant,
    /// How long to wait before looking again.
    look_after: Duration,
    place: &'c mut Place,
    /// Nothing starts before then, because this machine had no room.
    not_before: Instant,
    /// When a call last began or ended.
    moved: Instant,
    gate: Gate,
    ends: Instant,
    failure: Option<Problem>,
}

impl<'c> Turn<'c> {
    /// A turn under a lease, and its entry among the running ones.
    pub(super) fn new(context: &'c LaneContext, begun: Begun, place: &'c mut Place) -> (Self, super::Entry) {
        let Begun { held: Held { lease, ledger, since }, keeper, entry, words } = begun;
        let target = Target::new(Arc::clone(&lease), context);
        let guest = context.hosts.join(lease.organisation, target.url.as_ref());
        let now = Instant::now();
        let turn = Self {
            context,
            breaker: lease.breaker,
            pace: lease.rate.map(Pace::new),
            paying: None,
            pays_at: now,
            leaves: false,
            lease,
            keeper,
            member: context.crowd.join(),
            guest,
            is_held_back: false,
            nudge: Arc::clone(&entry.nudge),
            words,
            target: Arc::new(target),
            ledger,
            waiting: VecDeque::new(),
            under_way: FuturesUnordered::new(),
            fetching: None,
            looks_for_begun: true,
            cursor: None,
            dry: false,
            backlog: true,
            missed: false,
            look_again: now,
            look_after: LOOK_AGAIN,
            place,
            not_before: now,
            moved: now,
            gate: Gate::Open(now + SLICE),
            ends: since + LONGEST,
            failure: None,
        };
        (turn, entry)
    }

    /// Sends what it begins with, then due deliveries until none is left, the slice is over, or the lease or
    /// the process ends.
    pub(super) async fn run(mut self, first: First) -> Ended {
        if let Some(found) = first.found {
            self.fetched(Ok((found, None)));
            self.dry &= !first.looks;
        }
        let stop = self.context.stop.clone();
        let mut last_records = None;
        loop {
            self.go_on();
            // collect finished calls without waiting
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
                () = self.member.aged() => self.place.began(),
                () = self.guest.freed(), if self.is_held_back => {}
                fetched = answered(&mut self.fetching) => self.fetched(fetched),
                paid = answered(&mut self.paying) => self.paid(paid),
                () = self.ledger.settled() => {}
                () = self.nudge.notified() => self.look(),
                Some(word) = self.words.recv() => self.heard(word),
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
        let is_well = !self.breaker.has_failed()
            && !self.lease.ordered
            && self.pace.is_none()
            && self.ledger.is_empty()
            && !self.ledger.is_closed();
        let stays = if matches!(self.gate, Gate::Open(_)) && is_well { self.keeper.until() } else { None };
        let rests = self.pace.map(|pace| (pace.rest(), self.leaves || !self.dry));
        Ended { result: self.failure.map_or(Ok(()), Err), stays, words: self.words, rests }
    }

    /// Something else is due, too.
    fn look(&mut self) {
        self.dry = false;
        self.missed |= self.fetching.is_some();
        self.look_after = LOOK_AGAIN;
    }

    fn heard(&mut self, word: Word) {
        let notice = match word {
            Word::Changed => return self.shut(),
            Word::Due(notice) => *notice,
        };
        let takes = matches!(self.gate, Gate::Open(_))
            && !self.breaker.is_open()
            && !self.backlog
            && self.waiting.len() < AT_ONCE
            && Instant::now() >= self.not_before;
        if takes {
            if self.fetching.is_none() {
                self.ledger.forget();
            }
            self.take(Due::from(notice));
        } else {
            // or what is due would wait for as long as notices come
            self.backlog |= self.waiting.len() >= AT_ONCE;
            self.look();
        }
    }

    /// Lets a delivery wait for its call, unless it is in hand or was just settled.
    fn take(&mut self, due: Due) {
        if self.ledger.take(due.id, due.attempts) {
            self.waiting.push_back(Parcel::of(due, &self.lease));
        }
    }

    /// Lets a batch wait for its call.
    fn take_batch(&mut self, batch: Batch, due: Vec<Due>, mut room: Option<Room>) {
        if !self.ledger.take_batch(batch.id, &due) {
            // the outcome of the batch that it is a part of is just being settled
            (self.dry, self.looks_for_begun) = (false, true);
            return;
        }
        for mut parcel in Parcel::of_batch(batch, due, &self.lease) {
            if parcel.bytes() > 0 {
                parcel.room = room.take().map(|room| batch::fit(room, parcel.bytes()));
            }
            self.waiting.push_back(parcel);
        }
    }

    fn go_on(&mut self) {
        if self.keeper.is_over() || self.ledger.is_closed() {
            self.shut();
        }
        self.start_calls();
        self.pay();
        self.fetch_ahead();
    }

    /// Pays for the next calls of a lane with a rate. A turn whose next call may begin only later makes way.
    fn pay(&mut self) {
        let Some(pace) = &self.pace else { return };
        let now = Instant::now();
        let wanted = matches!(self.gate, Gate::Open(_)) && self.has_call() && pace.next().is_none();
        if !wanted
            || self.is_held_back
            || self.paying.is_some()
            || !self.keeper.holds()
            || now < self.not_before
        {
            return;
        }
        if now < self.pays_at {
            if self.under_way.is_empty() && self.pays_at > now + WAITED_FOR {
                self.shut();
            }
            return;
        }
        let calls = pace.calls(self.waiting.len());
        let (db, lease, rate) = (self.context.services.db.clone(), Arc::clone(&self.lease), pace.rate);
        self.paying = Some(tokio::spawn(async move {
            let asked = Instant::now();
            Ok((asked, lane::pay(&db, &lease, rate, calls).await?))
        }));
    }

    fn paid(&mut self, paid: Result<Payment, Problem>) {
        self.paying = None;
        match (paid, &mut self.pace) {
            (Ok((asked, Some(paid))), Some(pace)) => {
                self.pays_at = Instant::now() + paid.wait;
                if paid.calls > 0 {
                    pace.paid(asked, paid);
                }
            }
            (Err(problem), _) => {
                self.failure = Some(problem);
                self.shut();
            }
            _ => self.shut(),
        }
    }

    fn start_calls(&mut self) {
        let was_held_back = std::mem::take(&mut self.is_held_back);
        self.start_those_with_room();
        if was_held_back && !self.is_held_back {
            self.guest.pass_on();
        }
    }

    /// Whether a call waits for no other of this lane or process.
    fn has_call(&self) -> bool {
        let limit = if self.lease.ordered || self.breaker.is_open() { 1 } else { self.lease.max_in_flight };
        self.under_way.len() < limit
            && self.member.has_room()
            && self.guest.has_part(self.under_way.len())
            && !self.waiting.is_empty()
    }

    fn start_those_with_room(&mut self) {
        if !matches!(self.gate, Gate::Open(_)) || Instant::now() < self.not_before {
            return;
        }
        let probe = self.breaker.is_open();
        while self.has_call() {
            if self.pace.as_ref().is_some_and(|pace| !pace.is_due()) {
                return;
            }
            let Some(calling) = self.guest.begin() else {
                self.is_held_back = true;
                return;
            };
            let begun =
                self.keeper.begin(|| self.waiting.pop_front().map(|parcel| self.target.begin(parcel)));
            let Some(mut begun) = begun else { return };
            let room = begun.room.take();
            if let Some(pace) = &mut self.pace {
                pace.begin();
            }
            let (target, ledger) = (Arc::clone(&self.target), Arc::clone(&self.ledger));
            let (writer, young) = (self.context.writer.clone(), self.member.begin());
            let began = Instant::now();
            if self.under_way.is_empty() {
                self.moved = began;
            }
            self.under_way.push(Box::pin(async move {
                let outcomes = young.accompany(target.send(begun, probe)).await;
                drop(calling);
                let mut outcomes = outcomes?;
                ledger.halves.weigh(&mut outcomes);
                let attempt = outcomes.first().and_then(|outcome| outcome.attempt.as_ref());
                let sent = Sent {
                    holds: outcomes.iter().any(|outcome| outcome.hold.is_some()),
                    took: began.elapsed(),
                    sign: outcomes.iter().find_map(Outcome::sign),
                    divided: outcomes.iter().any(|outcome| outcome.end == End::Divided),
                    again: outcomes.iter().any(|o| matches!(o.end, End::Failed { .. } | End::Divided)),
                    gone: attempt.is_some_and(|attempt| attempt.status == Some(410)),
                };
                // here, so that a full writer holds back only this call's slot
                writer.record(outcomes, &ledger, room).await;
                Ok(sent)
            }));
        }
    }

    fn sent(&mut self, sent: Result<Sent, NoRoom>) {
        self.moved = Instant::now();
        self.place.began();
        let sent = match sent {
            Ok(sent) => sent,
            Err(no_room) => return self.had_no_room(&no_room),
        };
        if sent.took < SLOW {
            self.place.set_slow(self.breaker.has_failed() && sent.sign != Some(Sign::Success));
        }
        if let Some(sign) = sent.sign {
            self.breaker = self.breaker.step(sign);
        }
        let failed = matches!(sent.sign, Some(Sign::Failure { .. }));
        if sent.divided {
            self.look();
        }
        // a breaker that has opened, or whose probe failed, ends the turn: the next one comes when a probe is
        // due
        if sent.gone || sent.holds || (sent.again && self.lease.ordered) || (failed && self.breaker.is_open())
        {
            self.shut();
        }
    }

    /// A delivery that found no room stays due, and is fetched again in a moment.
    fn had_no_room(&mut self, no_room: &NoRoom) {
        self.context.had_no_room(&no_room.why);
        self.ledger.put_down(no_room.deliveries.iter().copied());
        self.not_before = self.moved + NO_ROOM;
        (self.dry, self.backlog, self.cursor) = (false, true, None);
    }

    /// Starts to fetch the next ones while some of these still wait.
    fn fetch_ahead(&mut self) {
        // one lane of many has few calls under way and sends slowly, so it keeps fewer deliveries
        let enough = if self.lease.ordered || self.lease.batches {
            0
        } else {
            (AT_ONCE / 2).min(AHEAD * self.under_way.len())
        };
        let wanted = matches!(self.gate, Gate::Open(_))
            && !self.dry
            && self.waiting.len() <= enough
            && Instant::now() >= self.not_before;
        if !wanted || self.fetching.is_some() || !self.keeper.holds() {
            return;
        }
        let mut room = None;
        if self.lease.batches {
            // what is formed beside a batch that then fails would overtake it
            if self.lease.ordered && !self.under_way.is_empty() {
                return;
            }
            // one batch of a lane is always possible
            room = self.context.rooms.room();
            if room.is_none() && !self.ledger.is_empty() {
                return;
            }
        }
        self.ledger.forget();
        self.missed = false;
        // read before the fetch begins: a delivery settled later may still be in its snapshot
        let again = self.breaker.probes_again() && self.under_way.is_empty() && self.waiting.is_empty();
        let single = self.breaker.is_open();
        let (in_hand, batches) = self.ledger.in_hand();
        let begun = self.looks_for_begun;
        let from = Start { after: self.cursor, in_hand, batches, begun, again, single };
        let (db, lease) = (self.context.services.db.clone(), Arc::clone(&self.lease));
        // in its own task, so that it returns its connection whatever this turn waits for
        self.fetching = Some(tokio::spawn(async move { Ok((lane::fetch(&db, &lease, from).await?, room)) }));
    }

    fn fetched(&mut self, fetched: Result<Fetched, Problem>) {
        self.fetching = None;
        match fetched {
            Err(problem) => {
                self.failure = Some(problem);
                self.shut();
            }
            Ok(_) if self.gate == Gate::Shut => {}
            Ok((found, room)) => {
                let from_start = self.cursor.is_none();
                if from_start {
                    self.backlog = found.is_full;
                }
                self.dry = from_start && !found.is_full && !std::mem::take(&mut self.missed);
                self.look_after =
                    if found.due.is_empty() { (self.look_after * 2).min(LOOK_RARELY) } else { LOOK_AGAIN };
                self.look_again = Instant::now() + self.look_after;
                self.cursor = found.cursor;
                self.looks_for_begun = found.was_begun;
                if let Some(batch) = found.batch {
                    return self.take_batch(batch, found.due, room);
                }
                for due in found.due {
                    self.take(due);
                }
            }
        }
    }

    /// Starts nothing more, and leaves waiting deliveries to a later turn.
    fn shut(&mut self) {
        self.gate = Gate::Shut;
        self.leaves |= !self.waiting.is_empty();
        self.ledger.put_down(self.waiting.iter().flat_map(Parcel::deliveries));
        self.waiting.clear();
    }

    fn wake(&self) -> Instant {
        let gate = match self.gate {
            Gate::Open(until) | Gate::Draining(until) => until,
            // calls under way have their own deadline
            Gate::Shut => Instant::now() + SLICE,
        };
        let gate = if Instant::now() < self.not_before { gate.min(self.not_before) } else { gate };
        let wake =
            if self.dry && matches!(self.gate, Gate::Open(_)) { gate.min(self.look_again) } else { gate };
        let next_call = self
            .pace
            .as_ref()
            .filter(|_| !self.waiting.is_empty())
            .map(|pace| pace.next().unwrap_or(self.pays_at));
        let wake = next_call.filter(|at| *at > Instant::now()).map_or(wake, |at| wake.min(at));
        // when the turn becomes slow
        if self.only_waits() && !self.place.is_slow() { wake.min(self.moved + SLOW) } else { wake }
    }

    /// Whether there are calls that wait for answers, its own or those before it at the host.
    fn only_waits(&self) -> bool {
        !self.under_way.is_empty() || self.is_held_back
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        if self.only_waits() && now >= self.moved + SLOW {
            self.place.began();
            self.place.set_slow(true);
        }
        match self.gate {
            Gate::Draining(until) if now >= until && now >= self.ends => self.shut(),
            Gate::Open(until) if now >= until => self.gate = Gate::Draining(now + PATIENCE),
            Gate::Draining(until) if now >= until => self.gate = Gate::Open(now + SLICE),
            Gate::Open(_) if self.dry && now >= self.look_again => self.dry = false,
            _ => {}
        }
    }

    fn is_over(&mut self) -> bool {
        if !self.under_way.is_empty() || self.fetching.is_some() || self.paying.is_some() {
            return false;
        }
        if matches!(self.gate, Gate::Draining(_)) {
            self.shut();
        }
        let nothing_to_do = self.gate == Gate::Shut || (self.dry && self.waiting.is_empty());
        nothing_to_do && self.ledger.is_empty()
    }
}

/// Waits for the statement under way, if any.
async fn answered<T>(statement: &mut Option<JoinHandle<Result<T, Problem>>>) -> Result<T, Problem> {
    match statement {
        Some(task) => task.await.unwrap_or_else(|error| Err(Problem::internal(error))),
        None => std::future::pending().await,
    }
}
