//! Waiting for events: one query for all waiting requests.

use tokio::sync::watch;

use longshore_kernel::database::Database;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::watch::{Look, Watch};

/// Watches the events of organisations.
#[derive(Clone, Debug)]
pub struct EventWatch(Watch<Events>);

#[derive(Clone, Debug)]
struct Events(Database);

/// What a look has seen.
#[derive(Clone, Debug)]
pub struct Come {
    /// What was there, as a snapshot; nothing before the first look.
    snapshot: Option<String>,
    /// Something had come since the look before.
    is_news: bool,
}

impl EventWatch {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(db: Database) -> Self {
        Self(Watch::new(Events(db)))
    }

    /// The receiver sees that events of an organisation have come. It says so once at the beginning: something may have come before
    /// it was there.
    #[must_use]
    pub fn follow(&self, organisation: OrganisationId) -> watch::Receiver<Come> {
        let mut receiver = self.0.follow(organisation);
        receiver.mark_changed();
        receiver
    }
}

impl Look for Events {
    type Key = OrganisationId;
    type Seen = Come;

    fn unknown() -> Come {
        Come { snapshot: None, is_news: false }
    }

    fn is_news(_: &Come, now: &Come) -> bool {
        now.is_news
    }

    async fn hint(&self) {
        self.0.committed.notified().await;
    }

    async fn look(&self, waited: &[(OrganisationId, Come)]) -> Option<Vec<(OrganisationId, Come)>> {
        let (organisations, snapshots): (Vec<OrganisationId>, Vec<Option<String>>) =
            waited.iter().map(|(id, seen)| (*id, seen.snapshot.clone())).unzip();
        let found = sqlx::query!(
            r#"SELECT w.organisation AS "organisation!: OrganisationId", pg_current_snapshot()::text AS "now!",
                      w.snapshot IS NULL OR has_events_since(w.organisation, w.snapshot::pg_snapshot) AS "is_new!"
               FROM unnest($1::uuid[], $2::text[]) AS w (organisation, snapshot)"#,
            &organisations as &[OrganisationId],
            &snapshots as &[Option<String>],
        )
        .fetch_all(&self.0.main)
        .await
        .ok()?;
        let seen = found
            .into_iter()
            .map(|row| (row.organisation, Come { snapshot: Some(row.now), is_news: row.is_new }));
        Some(seen.collect())
    }
}
