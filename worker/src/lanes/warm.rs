//! Warm lanes: a lane that ran dry stays leased for some seconds, and what becomes due in it is sent at once.
//!
//! A single change would else wait for its lane to be queued, leased and read. The holder of a warm lane is registered
//! in Redis ([`holder`](super::holder)), and the change's hint goes to it with the contents of the delivery, a
//! [`Notice`]. So nothing is leased, fetched or released.
//!
//! # Guarantees
//!
//! - **The row decides.** A delivery is due in Postgres as any other; a notice only says so sooner. Every second one
//!   statement renews the leases of all warm lanes and looks for what is due in them ([`lane::look`]), so a notice that
//!   is lost costs a second at most. Redis may be emptied at any moment.
//! - **Contents are used only** where [`judge`] and the turn allow it: under a lease that is valid and was registered when
//!   the entry was added, for a lane that is not ordered and sends no batches, whose breaker is closed, and without a backlog, for a delivery
//!   that is not in hand and was not just settled. Everything else is a nudge: the turn looks.
//! - **Nothing is sent twice.** The [`Ledger`](super::ledger::Ledger) of a lease outlives its turns. It knows a delivery for longer after its
//!   outcome than a notice is valid ([`FRESH`]). An outcome under an older token changes nothing, as ever.
//! - **What is sent is still due.** A notice has the version of the webhook that the change has seen. If it is not that of
//!   the lease, the lane is leased anew, with its new destination, secrets and state. A deactivation, a deletion and a
//!   rotation are answered when the holder begins nothing more: their hint makes it look at once, and it gives the lease
//!   back.
//! - **Redis is not trusted.** It never holds a secret or a credential, and notices are sealed with the key of the
//!   service, each for its lane.
//! - **Bounds.** A process keeps [`PLACES`] lanes warm, each for [`IDLE`] after its last delivery; when all places are taken, an
//!   organisation that has more of them gives way. No lease lasts longer
//!   than that of a long turn, so that secrets end in time. A warm lane without a turn has no place in
//!   [`places`](crate::places). A stop gives all leases back in one statement.

mod table;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::TimeDelta;
use futures::FutureExt as _;
use futures::future::join_all;
use longshore_domain::calling::{LEASE, Renewed};
use longshore_domain::webhook::lane::{self, Lease, Looked};
use longshore_kernel::cause::causes;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::queue::{Notice, Queue};
use tokio::time::{Instant, MissedTickBehavior};

pub(super) use self::table::Warm;
use self::table::{Kept, State, is_valid};
use super::holder::{Heard, Registered};
use super::turn::LONGEST;
use super::{Held, LaneContext, Word, conduct};

/// Lanes that a process keeps warm.
pub const PLACES: usize = 256;

/// How long a lane stays warm without a delivery.
const IDLE: Duration = Duration::from_secs(10);

/// A lane makes room for another of its organisation when it was without a delivery for this long.
const MAKES_ROOM: Duration = Duration::from_secs(1);

/// How often leases are renewed, and lanes looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How old what a notice says may be, by the clock of Postgres. Settled deliveries are remembered twice as long.
const FRESH: TimeDelta = TimeDelta::seconds(5);

/// How long turns may take to end when the process stops.
const GRACE: Duration = Duration::from_secs(30);

/// What a notice is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It may be sent.
    Takes,
    /// The row has to be read.
    Looks,
    /// The webhook was changed since the lease was granted: the lane has to be leased anew.
    Changed,
}

/// Judges the notice of an entry that was added for the lease of this token.
pub(super) fn judge(lease: &Lease, token: i64, notice: &Notice) -> Judged {
    let age = lease.time.now() - notice.at;
    // what was made before the lease began may have been sent under an earlier one, whose ledger is gone
    if token != lease.token || lease.ordered || lease.batches || notice.at <= lease.time.read_at() {
        Judged::Looks
    } else if notice.webhook_version != lease.version {
        Judged::Changed
    } else if age > FRESH {
        Judged::Looks
    } else {
        Judged::Takes
    }
}

/// Keeps lanes warm until the process stops, then gives all back.
pub async fn keep(context: LaneContext) {
    let warm = context.warm.clone();
    warm.0.open.store(true, Ordering::Release);
    let reading = async {
        warm.0.holder.read(&context.services.vault, &context.stop, |entry| hear(&context, entry)).await;
    };
    let looking = async {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => tick(&context).await,
                () = context.stop.cancelled() => return,
            }
        }
    };
    tokio::join!(reading, looking);
    warm.close();
    give_back(&context, &warm.take_idle(|_, _| true)).await;
    warm.0.tasks.close();
    if tokio::time::timeout(GRACE, warm.0.tasks.wait()).await.is_err() {
        tracing::warn!("turns of warm lanes have not ended; their leases will expire");
    }
}

/// Gives back what was warm for long enough, renews the other leases and registrations, and looks for what is due.
async fn tick(context: &LaneContext) {
    let (warm, now) = (&context.warm, Instant::now());
    let is_paused = context.places.is_paused();
    let ended = warm.take_idle(|kept, until| {
        is_paused
            || !is_valid(until)
            || now.saturating_duration_since(kept.used) >= IDLE
            || now.saturating_duration_since(kept.held.since) >= LONGEST
    });
    if !ended.is_empty() {
        // beside the others, which a lane that is locked by a change must not delay
        let back = context.clone();
        warm.0.tasks.spawn(async move { give_back(&back, &ended).await });
    }
    // those with a turn, too: turns of a moment, one after the other, do not renew their lease themselves
    let all = warm.lanes().values().map(|kept| kept.held.clone()).collect();
    look(context, all).await;
    let registered = |kept: &Kept| {
        let Lease { webhook, token, .. } = *kept.held.lease;
        let until = match &kept.state {
            State::Idle(until, _) => Some(*until),
            State::Busy(standing) => standing.until().map(|until| until.max(kept.renewed)),
        };
        until.map(|until| Registered { webhook, token, until })
    };
    let leases: Vec<_> = warm.lanes().values().filter_map(registered).collect();
    warm.register(&leases).await;
}

/// Passes a notice of this process' stream to its lane.
fn hear(context: &LaneContext, Heard { webhook, token, notice }: Heard) {
    let Err(notice) = context.running.pass_on(webhook, token, notice.map(Box::new)) else { return };
    let held = {
        let lanes = context.warm.lanes();
        lanes.get(&webhook).filter(|kept| matches!(kept.state, State::Idle(..))).map(|kept| kept.held.clone())
    };
    let heard = match (held, notice) {
        (None, _) => false,
        (Some(_), None) => context.warm.nudge(context, webhook),
        (Some(held), Some(notice)) => match judge(&held.lease, token, &notice) {
            Judged::Takes => context.warm.start(context, webhook, token, Some(*notice)),
            Judged::Looks => context.warm.nudge(context, webhook),
            Judged::Changed => {
                end(context, &held);
                true
            }
        },
    };
    if !heard {
        // as if it had come through the queue
        context.services.queues.hand_over(Queue::Lane, [webhook.to_string()]);
    }
}

/// Handles a notice that came after its turn ended.
pub(super) fn hear_again(context: &LaneContext, lease: &Lease, word: Word) {
    let notice = match word {
        Word::Due(notice) => Some(*notice),
        Word::Changed => None,
    };
    hear(context, Heard { webhook: lease.webhook, token: lease.token, notice });
}

/// Renews leases, and begins turns where something is due.
async fn look(context: &LaneContext, helds: Vec<Held>) {
    let asked = Instant::now();
    let look = &context.warm.0.look;
    let looked = join_all(helds.iter().map(|held| look.ask(Arc::clone(&held.lease)))).await;
    for (held, looked) in helds.into_iter().zip(looked) {
        let Lease { webhook, token, .. } = *held.lease;
        match looked {
            Ok(Some(Looked { renewed: Renewed::Yes, due_in })) => {
                context.warm.renewed(webhook, token, asked + LEASE);
                match due_in.map(Duration::try_from_secs_f64) {
                    Some(Ok(wait)) if wait > LOOK_EVERY => {}
                    Some(Ok(wait)) => {
                        let later = context.clone();
                        context.warm.0.tasks.spawn(async move {
                            tokio::time::sleep(wait).await;
                            fetch(&later, webhook, token);
                        });
                    }
                    // it has been due for a while
                    Some(Err(_)) => fetch(context, webhook, token),
                    None => {}
                }
            }
            Ok(Some(Looked { renewed: Renewed::ToEnd | Renewed::No, .. })) => end(context, &held),
            // the lease is as it was, and ends by itself
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(webhook.id = %webhook, error = %causes(&error), "a warm lane was not looked at");
            }
        }
    }
}

/// Has a turn read what is due in a lane: a new one, or the one that runs.
fn fetch(context: &LaneContext, webhook: WebhookId, token: i64) {
    if !context.warm.start(context, webhook, token, None) {
        context.running.nudge(webhook);
    }
}

/// Ends a lease because of a change: from here on nothing begins under it.
fn end(context: &LaneContext, held: &Held) {
    let Lease { webhook, token, .. } = *held.lease;
    let taken = context.warm.take_idle(|kept, _| kept.is_of(token) && kept.held.lease.webhook == webhook);
    if taken.is_empty() {
        context.running.end(webhook, token);
        return;
    }
    let context = context.clone();
    context.warm.0.tasks.clone().spawn(async move { give_back(&context, &taken).await });
}

/// Gives leases back in one statement, and queues the lanes in which more is due.
async fn give_back(context: &LaneContext, helds: &[Held]) {
    if helds.is_empty() {
        return;
    }
    let leases: Vec<_> = helds.iter().map(|held| (held.lease.webhook, held.lease.token)).collect();
    let releasing = lane::release(&context.services.db, &leases);
    let (due, ()) = tokio::join!(releasing, context.warm.0.holder.unregister(&leases));
    match due {
        Ok(due) => context.services.queues.hand_over(Queue::Lane, due.iter().map(WebhookId::to_string)),
        Err(error) => {
            tracing::debug!(leases = leases.len(), error = %causes(&error), "warm lanes were not given back; their leases expire");
        }
    }
}

/// One turn of a warm lane.
async fn turn(context: &LaneContext, webhook: WebhookId, token: i64) {
    let organisation = {
        let lanes = context.warm.lanes();
        let Some(kept) = lanes.get(&webhook) else { return };
        kept.held.lease.organisation
    };
    let entered = tokio::select! {
        entered = context.places.enter(webhook.get(), organisation) => entered,
        () = context.stop.cancelled() => None,
    };
    let Some(place) = entered else { return context.warm.does_not_begin(webhook, token) };
    let Some((begun, first)) = context.warm.begin(context, webhook, token) else { return };
    match AssertUnwindSafe(conduct(context, begun, first, place)).catch_unwind().await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::debug!(webhook.id = %webhook, error = %causes(&error), "a turn of a warm lane ended early");
        }
        Err(_) => {
            tracing::error!(webhook.id = %webhook, "a turn of a warm lane panicked; its lease will expire");
            context.warm.forget(webhook, token).await;
        }
    }
}
