//! The fast way onto a queue after a commit: a bounded channel to one task that writes the collected ids.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::notice::Sealed;
use super::{BATCH, Hint, NOTICES_WAITING, Queue, QueueError, Writer};
use crate::cause::causes;
use crate::crypto::Vault;

/// Ids that may wait for the background task; what comes beyond is left to the dispatcher.
pub const HAND_OVER_CAPACITY: usize = 16_384;

/// How long one batch may take. Longer than that, and the dispatcher is quicker.
const LIMIT: Duration = Duration::from_secs(1);

/// The callers' end of the channel. The task ends when the last of them is dropped.
#[derive(Clone)]
pub(super) struct HandOver {
    sender: mpsc::Sender<Item>,
    /// Whether the overload was logged.
    full: Arc<AtomicBool>,
    /// Notices that wait for the background task.
    notices: Arc<AtomicUsize>,
}

/// What is to be put.
enum Item {
    Id(Queue, String),
    Hint(Sealed),
}

impl HandOver {
    pub(super) fn start(writer: Arc<Writer>) -> Self {
        let (sender, receiver) = mpsc::channel(HAND_OVER_CAPACITY);
        let (full, notices) = (Arc::default(), Arc::default());
        tokio::spawn(write_what_gathers(writer, receiver, Arc::clone(&full), Arc::clone(&notices)));
        Self { sender, full, notices }
    }

    pub(super) fn send(&self, queue: Queue, ids: impl IntoIterator<Item = String>) {
        self.send_all(queue, ids.into_iter().map(|id| Item::Id(queue, id)));
    }

    pub(super) fn send_hints(&self, vault: &Vault, hints: impl IntoIterator<Item = Hint>) {
        self.send_all(Queue::Lane, hints.into_iter().map(|hint| Item::Hint(self.bounded(hint, vault))));
    }

    /// A hint as it may wait: one that makes too many notices wait goes without contents.
    fn bounded(&self, hint: Hint, vault: &Vault) -> Sealed {
        if hint.notice().is_none() || self.notices.load(Relaxed) >= NOTICES_WAITING {
            return hint.bare().seal(vault);
        }
        let sealed = hint.seal(vault);
        self.notices.fetch_add(usize::from(sealed.notice.is_some()), Relaxed);
        sealed
    }

    fn send_all(&self, queue: Queue, items: impl Iterator<Item = Item>) {
        let mut dropped = 0;
        for item in items {
            if let Err(error) = self.sender.try_send(item) {
                dropped += 1;
                if let Item::Hint(Sealed { notice: Some(_), .. }) = error.into_inner() {
                    self.notices.fetch_sub(1, Relaxed);
                }
            }
        }
        if dropped > 0 && !self.full.swap(true, Relaxed) {
            warn!(queue.name = %queue, queue.dropped = dropped, "too much work to queue directly; the dispatcher will queue it");
        }
    }
}

/// An outage or overload of Redis is logged when it begins and when it ends, not for every change.
async fn write_what_gathers(
    writer: Arc<Writer>,
    mut receiver: mpsc::Receiver<Item>,
    full: Arc<AtomicBool>,
    notices: Arc<AtomicUsize>,
) {
    let mut gathered = Vec::with_capacity(BATCH);
    let mut away = false;
    while receiver.recv_many(&mut gathered, BATCH).await > 0 {
        let mut queues = BTreeMap::<Queue, Vec<String>>::new();
        let mut hints = Vec::new();
        for item in gathered.drain(..) {
            match item {
                Item::Id(queue, id) => queues.entry(queue).or_default().push(id),
                Item::Hint(hint) => hints.push(hint),
            }
        }
        notices.fetch_sub(hints.iter().filter(|hint| hint.notice.is_some()).count(), Relaxed);
        if !hints.is_empty() {
            let put = writer.put_hints_within(&hints, LIMIT).await;
            note(&mut away, Queue::Lane, hints.len(), put);
        }
        for (queue, ids) in queues {
            let put = writer.put_within(queue, &ids, LIMIT).await;
            note(&mut away, queue, ids.len(), put);
        }
        if receiver.is_empty() {
            full.store(false, Relaxed);
        }
    }
}

fn note(away: &mut bool, queue: Queue, count: usize, put: Result<usize, QueueError>) {
    match put {
        Ok(_) => {
            if mem::take(away) {
                info!("due work is queued directly again");
            }
        }
        Err(error) if mem::replace(away, true) => {
            debug!(queue.name = %queue, queue.dropped = count, error = %causes(&error), "could not queue due work");
        }
        Err(error) => warn!(
            queue.name = %queue, queue.dropped = count, error = %causes(&error),
            "could not queue due work; the dispatcher will queue it when Redis is back"
        ),
    }
}
