//! What happened to a thing, newest first, from everything that records it: the audit, the jobs in it, the deliveries with their
//! answers, the movements of stock, what warehouses reported, and when destinations began to fail and recovered.
//!
//! Each source is read by an index, and a bounded part of it. Where a source has more, the timeline ends at
//! the last one read of it, so that it is complete as far as it goes.

mod owner;
mod source;

pub use owner::{of_eshop, of_organisation};

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use longshore_domain::job::kind::JobState;
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EshopId, ExpeditionId, JobId, WebhookId, WmsId};
use longshore_kernel::problem::Problem;
use longshore_kernel::words;

/// Entries that are shown.
pub const SHOWN: usize = 100;

/// What a timeline is about.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The thing, and what is a part of it.
    pub entities: Vec<Uuid>,
    /// Orders whose changes of status belong to it.
    pub orders: Vec<Uuid>,
    /// The product whose stock is moved.
    pub product: Option<Uuid>,
    /// The order that moves stock, and that its warehouse reports about.
    pub expedition: Option<ExpeditionId>,
    /// E-shops whose webhooks are sent events of it.
    pub eshops: Vec<EshopId>,
    /// Whether the audit is read.
    pub audit: bool,
    /// Whether the deliveries are read.
    pub deliveries: bool,
    /// At this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Before this moment.
    pub until: Option<DateTime<Utc>>,
}

/// What of a timeline is wanted.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a permission of its own")]
pub struct Wanted {
    /// Whether the caller may read the audit.
    pub audit: bool,
    /// Whether the caller may read deliveries, and the health of webhooks.
    pub deliveries: bool,
    /// Whether the caller may read jobs. Timelines of e-shops and organisations have them.
    pub jobs: bool,
    /// Whether the caller may read what is known of partners.
    pub settings: bool,
    /// Whether the caller may read what is known of the systems of warehouses.
    pub systems: bool,
    /// At this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Before this moment.
    pub until: Option<DateTime<Utc>>,
}

/// What happened, newest first.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The entries, at most [`SHOWN`].
    pub entries: Vec<Entry>,
    /// Where the next older ones begin, if there may be more.
    pub older: Option<DateTime<Utc>>,
}

/// An entry.
#[derive(Clone, Debug)]
pub enum Entry {
    /// Someone changed it.
    Record(Record),
    /// Pieces came or went.
    Movement(Movement),
    /// An e-shop was sent an event of it.
    Delivery(Delivery),
    /// A warehouse reported about it.
    News(News),
    /// Jobs of a kind in an hour.
    Jobs(Jobs),
    /// Something that is called began to fail, or no longer fails.
    Health(Health),
}

/// A change in the audit.
#[derive(Clone, Debug)]
pub struct Record {
    /// When.
    pub at: DateTime<Utc>,
    /// What was done.
    pub action: String,
    /// To what kind of thing.
    pub entity_type: String,
    /// To which.
    pub entity: Uuid,
    /// What people call that, where the timeline is about more than one thing.
    pub name: Option<String>,
    /// Number of the order, where it is one.
    pub order: Option<String>,
    /// Kind of the actor.
    pub actor_type: String,
    /// Name of the actor.
    pub actor: String,
    /// What changed: `{field: [old, new]}`.
    pub changes: Value,
    /// The request.
    pub request_id: Option<String>,
    /// The job.
    pub job: Option<JobId>,
    /// What that does, while it is kept.
    pub job_kind: Option<String>,
}

/// A movement of stock.
#[derive(Clone, Debug)]
pub struct Movement {
    /// When.
    pub at: DateTime<Utc>,
    /// Why.
    pub kind: String,
    /// What was added to the pieces that are there.
    pub quantity: i32,
    /// The pieces that were there then, where that is among the newest movements of a product.
    pub came_to: Option<i64>,
    /// What was added to the pieces on their way.
    pub incoming: i32,
    /// Name of the warehouse.
    pub warehouse: Option<String>,
    /// Name of the wms.
    pub wms: Option<String>,
    /// SKU of the product.
    pub sku: Option<String>,
    /// What the organisation calls the stock advice.
    pub advice: Option<String>,
    /// The order, if the caller may see it.
    pub expedition: Option<ExpeditionId>,
    /// Its number.
    pub order: Option<String>,
    /// Who reported it. A caller that is bound to an e-shop sees that of its orders.
    pub actor: Option<String>,
}

/// News of a warehouse.
#[derive(Clone, Debug)]
pub struct News {
    /// When it came.
    pub at: DateTime<Utc>,
    /// What the warehouse calls it.
    pub id: String,
    /// Name of the wms; absent where it is gone.
    pub wms: Option<String>,
    /// Whether it says that an order was packed which should not have been.
    pub contradicts: bool,
}

/// A delivery of an event.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When it was made.
    pub at: DateTime<Utc>,
    /// Its id.
    pub id: DeliveryId,
    /// Type of its event.
    pub event: String,
    /// Its webhook.
    pub webhook: WebhookId,
    /// Where that goes; absent where it was deleted.
    pub destination: Option<String>,
    /// Its state.
    pub state: DeliveryState,
    /// Calls so far.
    pub attempts: i16,
    /// The last call.
    pub last: Option<Value>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Jobs of a kind and an e-shop that were accepted within an hour and are in the same state.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// When the newest was accepted.
    pub at: DateTime<Utc>,
    /// When the oldest was.
    pub since: DateTime<Utc>,
    /// What they do.
    pub kind: String,
    /// Their state.
    pub state: JobState,
    /// How many they are.
    pub jobs: i64,
    /// Items that they changed.
    pub changed: i64,
    /// Items that they refused.
    pub failed: i64,
    /// The newest.
    pub newest: JobId,
    /// The newest error.
    pub error: Option<String>,
    /// Their e-shop, where they have one.
    pub eshop_id: Option<EshopId>,
    /// Name of that.
    pub eshop: Option<String>,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The destination of a webhook.
    Webhook(WebhookId),
    /// The partner of an e-shop, with the job whose call failed.
    Partner(EshopId, Option<JobId>),
    /// The system of a warehouse.
    Warehouse(WmsId),
}

words! {
    /// What became of its calls.
    pub enum Turn ("turn") {
        /// They began to fail.
        Failing = "failing",
        /// They no longer fail: one succeeded, or what is called was changed.
        Recovered = "recovered",
        /// They are not made any more.
        Disabled = "disabled",
    }
}

/// Something that is called began to fail, or no longer fails.
#[derive(Clone, Debug)]
pub struct Health {
    /// When.
    pub at: DateTime<Utc>,
    /// What is called.
    pub called: Called,
    /// What people call it.
    pub name: String,
    /// What became of its calls.
    pub turn: Turn,
    /// Why.
    pub why: Option<String>,
    /// Since when it failed, where it no longer does.
    pub since: Option<DateTime<Utc>>,
}

impl Entry {
    /// When it happened.
    #[must_use]
    pub fn at(&self) -> DateTime<Utc> {
        match self {
            Self::Record(record) => record.at,
            Self::Movement(movement) => movement.at,
            Self::Delivery(delivery) => delivery.at,
            Self::News(news) => news.at,
            Self::Jobs(jobs) => jobs.at,
            Self::Health(health) => health.at,
        }
    }
}

impl Timeline {
    /// Leaves of changes what became of the status, and why.
    pub fn only_statuses(&mut self) {
        for entry in &mut self.entries {
            if let Entry::Record(record) = entry {
                let kept = ["status", "reason"].map(|name| (name, record.changes.get(name).cloned()));
                let kept = kept.into_iter().filter_map(|(name, change)| Some((name.to_owned(), change?)));
                record.changes = Value::Object(kept.collect());
                (record.request_id, record.job) = (None, None);
            }
        }
    }
}

/// What was read of one record of the past.
#[derive(Debug, Default)]
struct Source {
    entries: Vec<Entry>,
    /// Down to where it was read, if there may be more.
    end: Option<DateTime<Utc>>,
}

impl Source {
    /// A source with the newest entries, at most [`SHOWN`], the newest first.
    fn newest<T>(found: Vec<T>, entry: fn(T) -> Entry) -> Self {
        let entries: Vec<Entry> = found.into_iter().map(entry).collect();
        let end = entries.get(SHOWN - 1).map(Entry::at);
        Self { entries, end }
    }
}

/// Reads it. The caller must have access to the thing; the scope bounds what is read of it.
pub async fn read(db: &Database, scope: &Scope, about: &About) -> Result<Timeline, Problem> {
    let (records, movements, deliveries, news) = tokio::try_join!(
        async { if about.audit { source::records(db, scope, about).await } else { Ok(Vec::new()) } },
        source::movements(db, scope, about),
        async { if about.deliveries { source::deliveries(db, scope, about).await } else { Ok(Vec::new()) } },
        source::news(db, about),
    )?;
    Ok(merged([
        Source::newest(records, Entry::Record),
        Source::newest(movements, Entry::Movement),
        Source::newest(deliveries, Entry::Delivery),
        Source::newest(news, Entry::News),
    ]))
}

/// One list of all, down to the last entry of those that are cut.
fn merged<const N: usize>(sources: [Source; N]) -> Timeline {
    let mut older = sources.iter().filter_map(|source| source.end).max();
    let mut entries: Vec<Entry> = sources.into_iter().flat_map(|source| source.entries).collect();
    entries.retain(|entry| older.is_none_or(|end| entry.at() >= end));
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.at()));
    if entries.len() > SHOWN {
        entries.truncate(SHOWN);
        older = entries.last().map(Entry::at);
    }
    Timeline { entries, older }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(seconds: i64) -> Entry {
        Entry::Movement(Movement {
            at: DateTime::from_timestamp(seconds, 0).unwrap(),
            kind: "counted".to_owned(),
            quantity: 1,
            came_to: None,
            incoming: 0,
            warehouse: None,
            wms: None,
            sku: None,
            advice: None,
            expedition: None,
            order: None,
            actor: Some("somebody".to_owned()),
        })
    }

    fn source(seconds: impl Iterator<Item = i64>) -> Source {
        let mut seconds: Vec<_> = seconds.collect();
        seconds.sort_unstable_by_key(|second| std::cmp::Reverse(*second));
        Source::newest(seconds, moved)
    }

    #[test]
    fn a_timeline_ends_where_the_first_of_its_sources_is_cut() {
        // one source was cut at 901; an entry of 900 of another would stand before records that were not read
        let shown = i64::try_from(SHOWN).unwrap();
        let timeline = merged([source(1_001 - shown..=1_000), source([950, 900, 5].into_iter())]);
        assert_eq!(timeline.entries.len(), SHOWN);
        assert_eq!(timeline.older, timeline.entries.last().map(Entry::at));
        assert!(timeline.entries.iter().all(|entry| entry.at().timestamp() >= 901));
        assert!(timeline.entries.iter().any(|entry| entry.at().timestamp() == 950));

        let complete = merged([source([3, 1].into_iter()), source([2].into_iter())]);
        let order: Vec<_> = complete.entries.iter().map(|entry| entry.at().timestamp()).collect();
        assert_eq!((order, complete.older), (vec![3, 2, 1], None));
    }
}
