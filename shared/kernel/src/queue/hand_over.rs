//! The fast way onto a queue after a commit: a bounded channel to one task that writes the collected ids.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::{BATCH, Queue, Writer};
use crate::cause::causes;

/// Ids that may wait for the background task; what comes beyond is left to the dispatcher.
pub const HAND_OVER_CAPACITY: usize = 16_384;

/// How long one batch may take. Longer than that, and the dispatcher is quicker.
const LIMIT: Duration = Duration::from_secs(1);

/// The callers' end of the channel. The task ends when the last of them is dropped.
#[derive(Clone)]
pub(super) struct HandOver {
    sender: mpsc::Sender<(Queue, String)>,
    /// Whether the overload was logged.
    full: Arc<AtomicBool>,
}

impl HandOver {
    pub(super) fn start(writer: Arc<Writer>) -> Self {
        let (sender, receiver) = mpsc::channel(HAND_OVER_CAPACITY);
        let full = Arc::default();
        tokio::spawn(write_what_gathers(writer, receiver, Arc::clone(&full)));
        Self { sender, full }
    }

    pub(super) fn send(&self, queue: Queue, ids: impl IntoIterator<Item = String>) {
        let dropped =
            ids.into_iter().map(|id| self.sender.try_send((queue, id))).filter(Result::is_err).count();
        if dropped > 0 && !self.full.swap(true, Relaxed) {
            warn!(queue.name = %queue, queue.dropped = dropped, "too much work to queue directly; the dispatcher will queue it");
        }
    }
}

/// An outage or overload of Redis is logged when it begins and when it ends, not for every change.
async fn write_what_gathers(
    writer: Arc<Writer>,
    mut receiver: mpsc::Receiver<(Queue, String)>,
    full: Arc<AtomicBool>,
) {
    let mut gathered = Vec::with_capacity(BATCH);
    let mut away = false;
    while receiver.recv_many(&mut gathered, BATCH).await > 0 {
        let mut queues = BTreeMap::<Queue, Vec<String>>::new();
        for (queue, id) in gathered.drain(..) {
            queues.entry(queue).or_default().push(id);
        }
        for (queue, ids) in queues {
            match writer.put_within(queue, &ids, LIMIT).await {
                Ok(_) => {
                    if mem::take(&mut away) {
                        info!("due work is queued directly again");
                    }
                }
                Err(error) if mem::replace(&mut away, true) => {
                    debug!(queue.name = %queue, queue.dropped = ids.len(), error = %causes(&error), "could not queue due work");
                }
                Err(error) => warn!(
                    queue.name = %queue, queue.dropped = ids.len(), error = %causes(&error),
                    "could not queue due work; the dispatcher will queue it when Redis is back"
                ),
            }
        }
        if receiver.is_empty() {
            full.store(false, Relaxed);
        }
    }
}
