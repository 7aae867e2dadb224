//! Runs a lane: one turn of sending the due deliveries of one webhook (`longshore_domain::webhook` defines
//! lanes).
//!
//! # Modules
//!
//! - The [`places`](crate::places) of the process decide which lanes run: organisations take turns, and slow
//!   lanes have a limit. [`owners`] finds the organisation of a lane.
//! - [`run`] takes a place, leases the lane, lets a [`turn`] send, and releases the lease. If more deliveries
//!   are due, the lane goes to the end of its queue.
//! - [`leasing`] leases and releases many lanes with one statement.
//! - The [`keeper`] renews the lease every second in its own task, and knows when it ends.
//! - The [`turn`] keeps up to `maxInFlight` calls under way and fetches the next ones ahead of time.
//! - A lane with a rate pays for its calls, and keeps its [`pace`].
//! - The [`crowd`] limits how many calls each lane begins at once when many lanes are busy.
//! - The lanes of an organisation at one [`host`] share as many calls as one of them may have.
//! - A [`parcel`] is what one call sends, a delivery or a [`batch`]: the signed call and the meaning of its answer.
//! - A lane that ran dry stays [`warm`] for a while: its lease is kept, and what becomes due is announced to this
//!   process through its [`holder`].
//! - The [`writer`] records outcomes for all lanes of the process, several lanes in one statement. It reports
//!   recorded outcomes to the [`ledger`] of the turn.
//!
//! # Guarantees
//!
//! - No code waits for anything else while it holds a connection of the pool: each statement runs to its end
//!   by itself (fetching and renewing have tasks of their own), so any number of lanes can share a pool of
//!   any size.
//! - A delivery is in hand from its fetch until its outcome is known to be committed, and is not fetched
//!   again while it is in hand.
//! - After several failures in a row the breaker opens: each turn sends one probe until one succeeds.
//! - No call starts under a lease that may have ended by the clock of Postgres.

mod batch;
mod crowd;
mod holder;
mod host;
pub(crate) mod keeper;
mod leasing;
mod ledger;
mod owners;
mod pace;
mod parcel;
mod turn;
mod warm;
mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use longshore_domain::webhook::lane::{self, Found, Lease, Leased};
use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::{Notice, Queue};
use longshore_kernel::seldom::Seldom;
use longshore_kernel::services::Services;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::batch::Rooms;
pub use self::crowd::Crowd;
use self::host::Hosts;
pub use self::host::MOST as CALLS_AT_HOST;
use self::keeper::{Keeper, LeaseState};
use self::leasing::Leasing;
use self::ledger::Ledger;
use self::owners::Owners;
use self::parcel::{Parcel, Target};
use self::turn::{Ended, First, Turn};
use self::warm::{Judged, Warm, judge};
pub use self::warm::{PLACES as WARM_LANES, keep as keep_warm};
pub use self::writer::OutcomeWriter;
use crate::outbound::Client;
use crate::places::{Place, Places};

/// What lanes need to run; one for the process, cheap to clone.
#[derive(Clone, Debug)]
pub struct LaneContext {
    /// Pools, queues, keys, clock.
    pub services: Services,
    /// The client for outbound calls.
    pub client: Client,
    /// Records the outcomes of all lanes.
    pub writer: OutcomeWriter,
    /// Cancelled when the process stops: nothing new is sent, and calls under way finish.
    pub stop: CancellationToken,
    /// The time limit of a whole exchange with a destination.
    pub deadline: Duration,
    /// Limits the calls of all lanes that have just begun.
    pub crowd: Crowd,
    /// Decides which lanes may run.
    pub places: Places,
    rooms: Rooms,
    no_room: Arc<Seldom<()>>,
    hosts: Hosts,
    leasing: Leasing,
    owners: Owners,
    running: Running,
    warm: Warm,
}

impl LaneContext {
    /// Creates the context and starts its tasks.
    #[must_use]
    pub fn new(services: Services, client: Client, writer: OutcomeWriter, stop: CancellationToken) -> Self {
        let (leasing, owners) = (Leasing::start(&services), Owners::start(&services));
        let warm = Warm::new(&services);
        Self {
            services,
            client,
            writer,
            stop,
            deadline: parcel::DEADLINE,
            crowd: Crowd::default(),
            places: Places::new(PLACES),
            rooms: Rooms::default(),
            no_room: Arc::new(Seldom::new(SAID_EVERY)),
            hosts: Hosts::default(),
            leasing,
            owners,
            running: Running::default(),
            warm,
        }
    }

    /// Counts a call for which this machine had no room, and logs it at intervals.
    fn had_no_room(&self, why: &str) {
        self.services.metrics.had_no_room();
        if let Some(unsaid) = self.no_room.say(()) {
            tracing::warn!(
                error = why,
                outbound.unsaid = unsaid,
                "this machine has no resources for another call of a destination (open files, ports, memory); the deliveries stay due"
            );
        }
    }
}

/// How often the log says that this machine has no room.
const SAID_EVERY: Duration = Duration::from_mins(1);

/// Places of a process without a setting for them.
pub const PLACES: usize = 1_024;

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// Nothing ran: the lane is already leased or waits for its next probe, its webhook is not active, or no
    /// place was free.
    NotLeased,
    /// Nothing more is due.
    Done,
    /// More is due, and the lane is on its queue again.
    More,
}

/// Runs one turn of a lane.
pub async fn run(context: &LaneContext, webhook: WebhookId) -> Result<Ran, Problem> {
    if context.stop.is_cancelled() {
        return Ok(Ran::NotLeased);
    }
    // the lane is held by this process: it looks again, now or when it releases the lease
    if context.running.nudge(webhook) || context.warm.nudge(context, webhook) {
        return Ok(Ran::NotLeased);
    }
    let Some(organisation) = context.owners.of(webhook).await? else { return Ok(Ran::NotLeased) };
    let entered = tokio::select! {
        entered = context.places.enter(webhook.get(), organisation) => entered,
        () = context.stop.cancelled() => {
            // queued again at once, so that others need not wait for the dispatcher
            context.services.queues.hand_over(Queue::Lane, [webhook.to_string()]);
            None
        }
    };
    let Some(mut place) = entered else { return Ok(Ran::NotLeased) };
    // a turn may have started while this one waited for a place
    if context.running.nudge(webhook) || context.warm.nudge(context, webhook) {
        return Ok(Ran::NotLeased);
    }
    let Some(Leased { lease, until, first }) = context.leasing.begin(webhook).await? else {
        return Ok(Ran::NotLeased);
    };
    if lease.breaker.has_failed() {
        place.set_slow(true);
    }
    let held = Held { lease: Arc::new(lease), ledger: Arc::default(), since: Instant::now() };
    let keeper = Keeper::start(context.services.db.clone(), Arc::clone(&held.lease), until);
    let (entry, words) = context.running.enter(&held.lease, keeper.standing());
    let first = First { found: first, looks: false };
    conduct(context, Begun { held, keeper, entry, words }, first, place).await
}

/// Sends a test of a webhook, and nothing else, while the queue is paused.
pub async fn run_test(context: &LaneContext, webhook: WebhookId, test: DeliveryId) -> Result<(), Problem> {
    let Some(Leased { lease, until, first }) = context.leasing.begin(webhook).await? else { return Ok(()) };
    let (lease, ledger) = (Arc::new(lease), Arc::new(Ledger::default()));
    let keeper = Keeper::start(context.services.db.clone(), Arc::clone(&lease), until);
    let found = if let Some(found) = first {
        Ok(found)
    } else {
        let alone = lane::From { single: true, ..lane::From::default() };
        lane::fetch(&context.services.db, &lease, alone).await
    };
    if let Some(rate) = lease.rate
        && !until_paid(context, &lease, rate).await?
    {
        return Ok(());
    }
    let parcel = |found: Found| {
        let due = found.due.into_iter().find(|due| due.id == test)?;
        ledger.take(due.id, due.attempts);
        match found.batch {
            Some(batch) => Parcel::of_batch(batch, vec![due], &lease).pop(),
            None => Some(Parcel::of(due, &lease)),
        }
    };
    let sent = match found.map(parcel) {
        Ok(Some(parcel)) => {
            let target = Target::new(Arc::clone(&lease), context);
            match keeper.begin(|| Some(target.begin(parcel))) {
                Some(begun) => Ok(target.send(begun, lease.breaker.is_open()).await.ok()),
                None => Ok(None),
            }
        }
        Ok(None) => Ok(None),
        Err(problem) => Err(problem),
    };
    let ended = match sent {
        Ok(Some(outcomes)) => {
            context.writer.record(outcomes, &ledger, None).await;
            while !ledger.is_empty() {
                ledger.settled().await;
            }
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(problem) => Err(problem),
    };
    // what else is due waits for the end of the pause
    context.leasing.end(&lease).await?;
    ended
}

/// Waits until a single call may begin; `false` if the lease is lost.
async fn until_paid(context: &LaneContext, lease: &Lease, rate: f64) -> Result<bool, Problem> {
    while let Some(paid) = lane::pay(&context.services.db, lease, rate, 1).await? {
        tokio::time::sleep(paid.wait).await;
        if paid.calls > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets a turn send, then keeps the lane warm or releases its lease.
async fn conduct(
    context: &LaneContext,
    begun: Begun,
    first: First,
    mut place: Place,
) -> Result<Ran, Problem> {
    let held = begun.held.clone();
    let webhook = held.lease.webhook;
    let (turn, entry) = Turn::new(context, begun, &mut place);
    let Ended { result, stays, mut words, rests } = turn.run(first).await;
    if let Some(until) = stays
        && context.warm.keep(context, &held, until)
    {
        let nudge = Arc::clone(&entry.nudge);
        drop(entry);
        drop(place);
        if nudge.notified().now_or_never().is_some() {
            context.warm.nudge(context, webhook);
        }
        while let Ok(word) = words.try_recv() {
            warm::hear_again(context, &held.lease, word);
        }
        return result.map(|()| Ran::Done);
    }
    drop(entry);
    let rested = match rests {
        Some((wait, _)) => lane::rest(&context.services.db, &held.lease, wait).await,
        None => Ok(()),
    };
    let (more, ()) =
        tokio::join!(context.leasing.end(&held.lease), context.warm.forget(webhook, held.lease.token));
    drop(place);
    result.and(rested)?;
    if let Some((wait, true)) = rests {
        let queues = context.services.queues.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            queues.hand_over(Queue::Lane, [webhook.to_string()]);
        });
    }
    if more? {
        context.services.queues.hand_over(Queue::Lane, [webhook.to_string()]);
        Ok(Ran::More)
    } else {
        Ok(Ran::Done)
    }
}

/// A lease, and what its turns have in common.
#[derive(Clone, Debug)]
struct Held {
    lease: Arc<Lease>,
    ledger: Arc<Ledger>,
    /// When it was granted.
    since: Instant,
}

/// A turn that is about to run.
struct Begun {
    held: Held,
    keeper: Keeper,
    entry: Entry,
    words: mpsc::UnboundedReceiver<Word>,
}

/// A word to a running turn about its lane.
#[derive(Debug)]
enum Word {
    /// This is due.
    Due(Box<Notice>),
    /// The webhook was changed: the lane has to be leased anew.
    Changed,
}

/// The lanes that this process runs now.
#[derive(Clone, Debug, Default)]
struct Running(Arc<Mutex<HashMap<WebhookId, Turning>>>);

/// A running turn, as the rest of the process sees it.
#[derive(Clone, Debug)]
struct Turning {
    nudge: Arc<Notify>,
    standing: LeaseState,
    lease: Arc<Lease>,
    words: mpsc::UnboundedSender<Word>,
}

impl Running {
    fn enter(&self, lease: &Arc<Lease>, standing: LeaseState) -> (Entry, mpsc::UnboundedReceiver<Word>) {
        let nudge = Arc::new(Notify::new());
        let (words, heard) = mpsc::unbounded_channel();
        let turning = Turning { nudge: Arc::clone(&nudge), standing, lease: Arc::clone(lease), words };
        self.lanes().insert(lease.webhook, turning);
        (Entry { running: self.clone(), webhook: lease.webhook, nudge }, heard)
    }

    /// Makes the turn of a lane look for due deliveries; `false` if none runs here, or only one that has lost
    /// its lease.
    fn nudge(&self, webhook: WebhookId) -> bool {
        let lanes = self.lanes();
        let Some(turning) = lanes.get(&webhook).filter(|turning| turning.standing.holds()) else {
            return false;
        };
        turning.nudge.notify_one();
        true
    }

    /// Passes on to the turn of a lane what is due, or makes it look. Gives the notice back if no turn of the lane runs here, or
    /// only one that has lost its lease.
    fn pass_on(
        &self,
        webhook: WebhookId,
        token: i64,
        notice: Option<Box<Notice>>,
    ) -> Result<(), Option<Box<Notice>>> {
        let lanes = self.lanes();
        let Some(turning) = lanes.get(&webhook).filter(|turning| turning.standing.holds()) else {
            return Err(notice);
        };
        let judged = notice.as_ref().map(|notice| judge(&turning.lease, token, notice));
        let word = match (judged, notice) {
            (Some(Judged::Takes), Some(notice)) => Word::Due(notice),
            (Some(Judged::Changed), _) => Word::Changed,
            _ => {
                turning.nudge.notify_one();
                return Ok(());
            }
        };
        if turning.words.send(word).is_err() {
            // it is just ending, and looks for more when it releases the lease
            turning.nudge.notify_one();
        }
        Ok(())
    }

    /// Ends the turn under a lease: nothing more begins.
    fn end(&self, webhook: WebhookId, token: i64) {
        if let Some(turning) = self.lanes().get(&webhook).filter(|turning| turning.lease.token == token) {
            let _ = turning.words.send(Word::Changed);
        }
    }

    fn lanes(&self) -> std::sync::MutexGuard<'_, HashMap<WebhookId, Turning>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane's entry among the running ones; dropping it removes it.
struct Entry {
    running: Running,
    webhook: WebhookId,
    nudge: Arc<Notify>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut lanes = self.running.lanes();
        // a later turn may have entered already, after this one lost its lease
        if lanes.get(&self.webhook).is_some_and(|turning| Arc::ptr_eq(&turning.nudge, &self.nudge)) {
            lanes.remove(&self.webhook);
        }
    }
}
