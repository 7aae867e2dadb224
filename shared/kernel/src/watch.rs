//! Waiting for what a query shows: one look for all requests of a process that wait, and none while nobody does.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// How often what is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// How soon after a hint: the hints of a moment are one look.
const LOOK_AFTER: Duration = Duration::from_millis(3);

/// What is looked at.
pub trait Look: Clone + fmt::Debug + Send + Sync + 'static {
    /// What names it.
    type Key: Copy + Eq + Hash + fmt::Debug + Send + Sync;
    /// What a look sees of it.
    type Seen: Clone + fmt::Debug + Send + Sync;

    /// What is known before the first look.
    fn unknown() -> Self::Seen;

    /// Ends when there may be something new before the next look is due.
    fn hint(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Whether what was seen may no longer be so: who comes now waits for the next look.
    #[must_use]
    fn is_stale(_: &Self::Seen) -> bool {
        false
    }

    /// Whether what is seen now is news for who has seen what was before.
    fn is_news(before: &Self::Seen, now: &Self::Seen) -> bool;

    /// What there is now of what is waited for, beside what was seen before. Nothing: it cannot be seen, and the requests keep waiting, up
    /// to their own limits.
    fn look(
        &self,
        waited: &[(Self::Key, Self::Seen)],
    ) -> impl Future<Output = Option<Vec<(Self::Key, Self::Seen)>>> + Send;
}

/// Waits for news.
#[derive(Clone, Debug)]
pub struct Watch<L: Look> {
    look: L,
    watched: Arc<Mutex<Watched<L>>>,
}

#[derive(Debug)]
struct Watched<L: Look> {
    seen: HashMap<L::Key, watch::Sender<L::Seen>>,
    looking: bool,
}

impl<L: Look> Watch<L> {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(look: L) -> Self {
        Self { look, watched: Arc::new(Mutex::new(Watched { seen: HashMap::new(), looking: false })) }
    }

    /// The receiver gets all news that a look finds.
    #[must_use]
    pub fn follow(&self, key: L::Key) -> watch::Receiver<L::Seen> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = || watch::Sender::new(L::unknown());
        let anew = |sender: &mut watch::Sender<L::Seen>| {
            let is_stale = L::is_stale(&sender.borrow());
            if is_stale {
                *sender = unknown();
            }
        };
        let receiver = watched.seen.entry(key).and_modify(anew).or_insert_with(unknown).subscribe();
        if !watched.looking {
            watched.looking = true;
            tokio::spawn(self.clone().look());
        }
        receiver
    }

    /// Looks until nobody waits.
    async fn look(self) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.look.hint() => {
                    tokio::time::sleep(LOOK_AFTER).await;
                    ticks.reset();
                }
            }
            let waited: Vec<(L::Key, L::Seen)> = {
                let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
                watched.seen.retain(|_, sender| sender.receiver_count() > 0);
                if watched.seen.is_empty() {
                    watched.looking = false;
                    return;
                }
                watched.seen.iter().map(|(key, sender)| (*key, sender.borrow().clone())).collect()
            };
            let Some(found) = self.look.look(&waited).await else { continue };
            let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, now) in found {
                let Some(sender) = watched.seen.get(&key) else { continue };
                // who has come meanwhile may have seen less than what this look began with
                sender.send_if_modified(|seen| {
                    let is_news = L::is_news(seen, &now);
                    *seen = now;
                    is_news
                });
            }
        }
    }
}
