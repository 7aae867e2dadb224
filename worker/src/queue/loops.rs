//! The loops of a consumer: how they start and end together.

use std::sync::{Arc, PoisonError};

use longshore_kernel::cause::causes;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, info_span, warn};

use super::acknowledge::acknowledge;
use super::consumer::{Consumer, Report};
use super::fetch::fetch;
use super::keep_alive::{forget_self, keep_alive};

impl Consumer {
    /// Starts the loops, once. They call `is_shutting_down` several times a second.
    pub(super) fn start(self: &Arc<Self>, is_shutting_down: impl Fn() -> bool + Send + Sync + 'static) {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(inbox) = inbox {
            self.control.opened();
            let span = info_span!("queue", queue.name = %self.queue, queue.consumer = self.name);
            tokio::spawn(Arc::clone(self).run(inbox, is_shutting_down).instrument(span));
        }
    }

    async fn run(
        self: Arc<Self>,
        inbox: mpsc::UnboundedReceiver<Report>,
        is_shutting_down: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        let keeping = spawn_here(keep_alive(Arc::clone(&self), is_shutting_down));
        let fetching = spawn_here(fetch(Arc::clone(&self)));
        let acknowledging = spawn_here(acknowledge(Arc::clone(&self), inbox));
        self.closing.cancelled().await;
        let handing_back = async {
            let _ = fetching.await;
            self.fetching_ended.cancel();
            let _ = acknowledging.await;
            drop(keeping);
            if let Err(error) = forget_self(&self).await {
                warn!(error = %causes(&error), "could not leave the group; other workers will remove this consumer");
            }
        };
        if timeout(self.config.close_grace, handing_back).await.is_err() {
            warn!(
                queue.held = self.board().held_keys().len(),
                "closed without Redis; other workers will take over"
            );
        }
        self.closed.cancel();
        self.control.ended();
    }
}

/// Spawns a loop within the current span; dropping the handle ends it.
fn spawn_here(future: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(future.in_current_span()))
}
