//! Waiting for events: one look for all requests of a process that wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use longshore_kernel::database::Database;
use longshore_kernel::ids::OrganisationId;

/// How often it is looked whether organisations that are waited for have something new.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// Watches the events of organisations.
#[derive(Clone, Debug)]
pub struct EventWatch {
    db: Database,
    watched: Arc<Mutex<Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    organisations: HashMap<OrganisationId, Seen>,
    looking: bool,
}

#[derive(Debug)]
struct Seen {
    /// What was there at the last look, as a snapshot; nothing before the first.
    snapshot: Option<String>,
    news: watch::Sender<()>,
}

impl EventWatch {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(db: Database) -> Self {
        Self { db, watched: Arc::default() }
    }

    /// The receiver sees that events of an organisation have come. It says so once at the beginning: something may have come before
    /// it was there.
    #[must_use]
    pub fn follow(&self, organisation: OrganisationId) -> watch::Receiver<()> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = watched.organisations.entry(organisation);
        let seen = seen.or_insert_with(|| Seen { snapshot: None, news: watch::Sender::new(()) });
        // who comes later has not seen what the last look saw
        let mut receiver = seen.news.subscribe();
        receiver.mark_changed();
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
            ticks.tick().await;
            let (organisations, snapshots): (Vec<OrganisationId>, Vec<Option<String>>) = {
                let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
                watched.organisations.retain(|_, seen| seen.news.receiver_count() > 0);
                if watched.organisations.is_empty() {
                    watched.looking = false;
                    return;
                }
                watched.organisations.iter().map(|(id, seen)| (*id, seen.snapshot.clone())).unzip()
            };
            let found = sqlx::query!(
                r#"SELECT w.organisation AS "organisation!: OrganisationId", pg_current_snapshot()::text AS "now!",
                          w.snapshot IS NULL OR has_events_since(w.organisation, w.snapshot::pg_snapshot) AS "is_new!"
                   FROM unnest($1::uuid[], $2::text[]) AS w (organisation, snapshot)"#,
                &organisations as &[OrganisationId],
                &snapshots as &[Option<String>],
            )
            .fetch_all(&self.db.main)
            .await;
            // Postgres is unavailable: the requests keep waiting, up to their own limits
            let Ok(found) = found else { continue };
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            for row in found {
                let Some(seen) = watched.organisations.get_mut(&row.organisation) else { continue };
                if row.is_new {
                    seen.news.send_replace(());
                }
                seen.snapshot = Some(row.now);
            }
        }
    }
}
