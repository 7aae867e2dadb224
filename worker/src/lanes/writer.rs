//! Records outcomes: one writer for all lanes of the process.
//!
//! While one statement runs, outcomes gather for the next: the busier the lanes, the larger the statements.
//! When Postgres is away, the writer waits for it, and so do the lanes, because the channel is bounded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_domain::webhook::lane::{self, Outcome, Reported};
use longshore_kernel::cause::causes;
use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_kernel::seldom::Seldom;
use longshore_kernel::services::Services;
use tokio::sync::mpsc;

use super::batch::Room;
use super::ledger::Ledger;

/// Outcomes of one statement.
const GROUP: usize = 1_000;

/// How long a statement waits for more outcomes. Only the end of a turn waits for it.
const LINGER: Duration = Duration::from_millis(2);

/// Outcomes that wait before the lanes have to wait, too.
const WAITING: usize = 4_000;

/// The first and the longest pause while Postgres is away.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often the log says that a webhook began to fail: an unstable destination does so all the time.
const SAID_EVERY: Duration = Duration::from_mins(10);

/// The sending side of the writer; cheap to clone. The writer ends after the last one is dropped and
/// everything is recorded.
#[derive(Clone, Debug)]
pub struct OutcomeWriter(mpsc::Sender<Entry>);

#[derive(Debug)]
struct Entry {
    outcomes: Vec<Outcome>,
    ledger: Arc<Ledger>,
    /// What the outcomes of a batch take until they are recorded.
    room: Option<Room>,
}

impl OutcomeWriter {
    /// Starts the writer in its own task.
    #[must_use]
    pub fn start(services: Services) -> Self {
        let (sender, mut receiver) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut entries = Vec::with_capacity(GROUP);
            let began_failing = Seldom::new(SAID_EVERY);
            while receiver.recv_many(&mut entries, GROUP).await > 0 {
                // more outcomes arrive in a moment, and a large statement costs little more than a small one
                tokio::time::sleep(LINGER).await;
                while entries.len() < GROUP
                    && let Ok(entry) = receiver.try_recv()
                {
                    entries.push(entry);
                }
                let (mut outcomes, mut ledgers, mut rooms) = (Vec::new(), Vec::new(), Vec::new());
                for Entry { outcomes: these, ledger, room } in entries.drain(..) {
                    // those of a batch are recorded together
                    if !outcomes.is_empty() && outcomes.len() + these.len() > GROUP {
                        let group = (std::mem::take(&mut outcomes), std::mem::take(&mut ledgers));
                        record(&services, group, &began_failing).await;
                        rooms.clear();
                    }
                    rooms.extend(room);
                    ledgers.extend(these.iter().map(|_| Arc::clone(&ledger)));
                    outcomes.extend(these);
                }
                record(&services, (outcomes, ledgers), &began_failing).await;
            }
        });
        Self(sender)
    }

    /// Waits for the end of the writer, which is a failure while the process works.
    pub async fn ended(&self) {
        self.0.closed().await;
    }

    /// Records the outcomes of a call, and then settles them in the ledger.
    pub(super) async fn record(&self, outcomes: Vec<Outcome>, ledger: &Arc<Ledger>, room: Option<Room>) {
        if let Err(unsent) = self.0.send(Entry { outcomes, ledger: Arc::clone(ledger), room }).await {
            // the runtime is shutting down: the deliveries stay due and are sent again
            ledger.settle(unsent.0.outcomes.iter().map(|outcome| outcome.delivery), true);
        }
    }
}

async fn record(
    services: &Services,
    group: (Vec<Outcome>, Vec<Arc<Ledger>>),
    began_failing: &Seldom<WebhookId>,
) {
    // a group that is refused is halved until the refused outcome is alone
    let mut stack = vec![group];
    let (mut pause, mut waiting) = (PAUSE, false);
    while let Some((mut outcomes, mut ledgers)) = stack.pop() {
        match lane::record(services, &outcomes).await {
            Ok(reported) => {
                if std::mem::take(&mut waiting) {
                    tracing::info!("outcomes are recorded again");
                }
                pause = PAUSE;
                log(&reported, began_failing);
                settle(&outcomes, ledgers, &reported);
            }
            Err(problem) if problem.is_unavailable() => {
                // log it once, however long it lasts
                if !std::mem::replace(&mut waiting, true) {
                    let outcomes = outcomes.len();
                    tracing::warn!(error = %causes(&problem), outcomes, "outcomes cannot be recorded: Postgres is not available");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                stack.push((outcomes, ledgers));
            }
            Err(_) if outcomes.len() > 1 => {
                let half = outcomes.len() / 2;
                let rest = (outcomes.split_off(half), ledgers.split_off(half));
                stack.extend([rest, (outcomes, ledgers)]);
            }
            Err(problem) => {
                for (outcome, ledger) in outcomes.iter().zip(ledgers) {
                    tracing::error!(
                        delivery.id = %outcome.delivery, error = %causes(&problem),
                        "an outcome was refused; the delivery will be sent again"
                    );
                    ledger.settle([outcome.delivery], true);
                }
            }
        }
    }
}

fn settle(outcomes: &[Outcome], ledgers: Vec<Arc<Ledger>>, reported: &[Reported]) {
    let mut lanes = HashMap::<(WebhookId, i64), (Arc<Ledger>, Vec<DeliveryId>)>::new();
    for (outcome, ledger) in outcomes.iter().zip(ledgers) {
        let (_, settled) =
            lanes.entry((outcome.webhook, outcome.token)).or_insert_with(|| (ledger, Vec::new()));
        settled.push(outcome.delivery);
    }
    for ((webhook, token), (ledger, settled)) in lanes {
        let closed =
            reported.iter().any(|r| (r.webhook, r.token) == (webhook, token) && (r.stale || r.disabled));
        ledger.settle(settled, closed);
    }
}

fn log(reported: &[Reported], began_failing: &Seldom<WebhookId>) {
    for report in reported {
        if report.disabled {
            let reason = if report.overdue {
                "all attempts failed for days"
            } else {
                "the destination answered 410 Gone"
            };
            tracing::info!(webhook.id = %report.webhook, reason, "a webhook was disabled");
        } else if report.began_failing
            && let Some(unsaid) = began_failing.say(report.webhook)
        {
            tracing::info!(
                webhook.id = %report.webhook, webhook.began_before = unsaid,
                "a webhook began to fail (logged at most once in ten minutes, with the number of earlier failures)"
            );
        }
    }
}
