//! The quick way onto a queue after a commit: a bounded channel to one task that writes what has gathered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::warn;

use super::{BATCH, Queue, Writer};

/// Ids that may wait for the background task; what comes beyond is left to the dispatcher.
pub const HAND_OVER_CAPACITY: usize = 16_384;

/// How long one batch may take. Longer than that, and the dispatcher is quicker.
const LIMIT: Duration = Duration::from_secs(1);

/// The callers' end of the channel. The task ends when the last of them is dropped.
#[derive(Clone)]
pub(super) struct HandOver(mpsc::Sender<(Queue, String)>);

impl HandOver {
    pub(super) fn start(writer: Arc<Writer>) -> Self {
        let (sender, receiver) = mpsc::channel(HAND_OVER_CAPACITY);
        tokio::spawn(write_what_gathers(writer, receiver));
        Self(sender)
    }

    pub(super) fn send(&self, queue: Queue, ids: impl IntoIterator<Item = String>) {
        let dropped = ids.into_iter().map(|id| self.0.try_send((queue, id))).filter(Result::is_err).count();
        if dropped > 0 {
            warn!(queue.name = %queue, queue.dropped = dropped, "too much to hand over, left to the dispatcher");
        }
    }
}

async fn write_what_gathers(writer: Arc<Writer>, mut receiver: mpsc::Receiver<(Queue, String)>) {
    let mut gathered = Vec::with_capacity(BATCH);
    while receiver.recv_many(&mut gathered, BATCH).await > 0 {
        let mut queues = BTreeMap::<Queue, Vec<String>>::new();
        for (queue, id) in gathered.drain(..) {
            queues.entry(queue).or_default().push(id);
        }
        for (queue, ids) in queues {
            if let Err(error) = writer.put_within(queue, &ids, LIMIT).await {
                warn!(
                    queue.name = %queue, queue.dropped = ids.len(), error = &error as &dyn std::error::Error,
                    "could not hand over, left to the dispatcher"
                );
            }
        }
    }
}
