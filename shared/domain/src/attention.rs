//! What needs attention (`docs/reference/attention.md#lines`): what a line is, those about the service, and what was said about
//! lines.
//!
//! A *line* says what is wrong, in a sentence. It is read from what it is about, and is not stored. Its
//! id is made from its kind and its subject, so it is the same for as long as it is about the same thing. Its *cause* is a
//! moment that moves on when something new happens: a destination that fails again after it recovered, one more failed job.
//!
//! A *silence* is an acknowledgement or a mute of a line, and is stored. An acknowledgement ("I have seen it") covers the line while
//! its cause does not move on. A mute hides the line for a time. A line has one silence; a new one replaces
//! it. Each has an end.
//!
//! A line is of the service (Redis, a queue), of an organisation (a destination, a warehouse), or a sum over what the caller
//! may see. A silence belongs to the same: that of a sum to each organisation of the caller, or to those who see everything.

mod noisy;
mod page;
pub mod service;
mod silence;

pub use page::{Address, Page};
pub use silence::{Mode, Silence, settle};

use chrono::{DateTime, Utc};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::moment;
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::words;
use serde_json::{Value, json};
use uuid::{Builder, Uuid};

/// Something is late after it has been due for this many seconds.
const LATE: f64 = 60.0;

words! {
    /// What a line is about.
    pub enum Kind ("kind of line") {
        /// Postgres was set back, and that is not mended.
        SetBack = "set_back",
        /// Commits wait for a standby of Postgres.
        Standby = "standby",
        /// Redis cannot, or soon cannot, carry the queues.
        Redis = "redis",
        /// A queue without workers, or one that is paused.
        Queue = "queue",
        /// Deliveries are late.
        LateDeliveries = "late_deliveries",
        /// A transaction holds back vacuum.
        Vacuum = "vacuum",
        /// A destination of an e-shop fails.
        Destination = "destination",
        /// Deliveries of an e-shop were exhausted and not sent again.
        ExhaustedDeliveries = "exhausted_deliveries",
        /// What waits at a webhook takes long at its own rate.
        SlowWebhook = "slow_webhook",
        /// A reader cannot be read yet.
        StartingReader = "starting_reader",
        /// Nobody reads a reader, so it will be removed.
        UnreadReader = "unread_reader",
        /// A warehouse fails, is behind, or does not answer.
        Warehouse = "warehouse",
        /// A warehouse packed orders that were canceled or given back, or has them by a number that is lost.
        ContradictedOrders = "contradicted_orders",
        /// A warehouse reports of orders that are not here, since Postgres was set back.
        LostOrders = "lost_orders",
        /// Orders that a warehouse has since a set-back, and whose contents are not known, or that nobody can be asked for.
        DoubtfulOrders = "doubtful_orders",
        /// Reports of a warehouse were refused.
        RefusedReports = "refused_reports",
        /// Jobs of a kind of an e-shop fail.
        FailingJobs = "failing_jobs",
        /// Syncs of a kind of an e-shop refuse their rows.
        RefusedRows = "refused_rows",
        /// The guard of a sync of an e-shop has withheld what would have destroyed too much.
        Withheld = "withheld",
        /// Jobs of a kind of an e-shop make no progress at their partner.
        SilentPartner = "silent_partner",
        /// Jobs wait for another.
        WaitingJobs = "waiting_jobs",
        /// An organisation has most of what waits in a queue that is behind.
        NoisyOrganisation = "noisy_organisation",
        /// An organisation calls an operation that ends soon.
        DeprecatedOperation = "deprecated_operation",
        /// Running jobs make no progress.
        StuckJobs = "stuck_jobs",
        /// Jobs that belong to no e-shop failed in the last day.
        FailedJobs = "failed_jobs",
        /// Jobs wait for their next attempt.
        RetryingJobs = "retrying_jobs",
        /// Jobs wait for their partner.
        JobsAtPartner = "jobs_at_partner",
        /// Webhooks are disabled.
        DisabledWebhooks = "disabled_webhooks",
        /// Webhooks fail, besides those whose destination has a line.
        FailingWebhooks = "failing_webhooks",
        /// Stocks wait for the allocator.
        MarkedStocks = "marked_stocks",
        /// Stocks have fewer pieces than orders hold.
        ShortStocks = "short_stocks",
        /// Orders are incorrect.
        IncorrectOrders = "incorrect_orders",
    }
}

words! {
    /// How bad it is.
    pub enum Severity ("severity") {
        /// Something does not work.
        Critical = "critical",
        /// Something may soon not work, or is slow.
        Warning = "warning",
    }
}

impl Kind {
    /// Those that are about the service.
    pub const OF_SERVICE: [Self; 6] =
        [Self::SetBack, Self::Standby, Self::Redis, Self::Queue, Self::LateDeliveries, Self::Vacuum];
    /// Those whose causes have no moment: an acknowledgement ends when the line is gone.
    pub const WITHOUT_CAUSE: [Self; 7] = [
        Self::SetBack,
        Self::Standby,
        Self::Redis,
        Self::Queue,
        Self::LateDeliveries,
        Self::Vacuum,
        Self::NoisyOrganisation,
    ];
    /// Those that are about one thing of an organisation.
    pub const OF_ORGANISATION: [Self; 17] = [
        Self::Destination,
        Self::ExhaustedDeliveries,
        Self::SlowWebhook,
        Self::StartingReader,
        Self::UnreadReader,
        Self::Warehouse,
        Self::ContradictedOrders,
        Self::LostOrders,
        Self::DoubtfulOrders,
        Self::RefusedReports,
        Self::FailingJobs,
        Self::RefusedRows,
        Self::Withheld,
        Self::SilentPartner,
        Self::WaitingJobs,
        Self::NoisyOrganisation,
        Self::DeprecatedOperation,
    ];

    /// Those that are about orders, their stocks, and the warehouses that they are handed over to.
    pub const OF_ORDERS: [Self; 8] = [
        Self::Warehouse,
        Self::ContradictedOrders,
        Self::LostOrders,
        Self::DoubtfulOrders,
        Self::RefusedReports,
        Self::MarkedStocks,
        Self::ShortStocks,
        Self::IncorrectOrders,
    ];

    /// Whether there may be many lines of the kind.
    #[must_use]
    pub fn is_of_one(self) -> bool {
        Self::OF_ORGANISATION.contains(&self)
    }

    /// The kinds that are sums over what the caller may see.
    #[must_use]
    pub fn sums() -> Vec<&'static str> {
        let is_sum = |kind: &Self| !Self::OF_SERVICE.contains(kind) && !kind.is_of_one();
        Self::ALL.into_iter().filter(is_sum).map(Self::as_str).collect()
    }
}

/// Whose a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The service's.
    Service,
    /// An organisation's.
    Organisation(OrganisationId),
    /// A sum over all that the caller may see.
    Caller,
}

/// Something that needs attention.
#[derive(Clone, Debug)]
pub struct Line {
    /// Made from its kind and its subject.
    pub id: Uuid,
    /// What it is about.
    pub kind: Kind,
    /// Whose it is.
    pub owner: Owner,
    /// How bad it is.
    pub severity: Severity,
    /// The state in a word, for people.
    pub word: &'static str,
    /// What is wrong.
    pub sentence: String,
    /// What shows it.
    pub page: Page,
    /// The moment that moves on when something new happens; absent where only its end can be seen.
    pub cause: Option<DateTime<Utc>>,
    /// Its acknowledgement or mute, as long as that holds.
    pub silence: Option<Silence>,
}

impl Line {
    /// A critical line without a word or a cause.
    #[must_use]
    pub fn new(kind: Kind, subject: &str, owner: Owner, sentence: String, page: Page) -> Self {
        Self {
            id: id_of(kind, subject),
            kind,
            owner,
            severity: Severity::Critical,
            word: "",
            sentence,
            page,
            cause: None,
            silence: None,
        }
    }

    /// Whether a caller may say something about it.
    #[must_use]
    pub fn is_of(&self, scope: &Scope) -> bool {
        match self.owner {
            Owner::Service => scope.organisations().is_none(),
            Owner::Organisation(organisation) => scope.has_organisation(organisation),
            Owner::Caller => true,
        }
    }

    /// Whose silences are about it: organisations, or the whole service.
    #[must_use]
    pub fn owners(&self, scope: &Scope) -> Vec<Option<OrganisationId>> {
        match (self.owner, scope.organisations()) {
            (Owner::Organisation(organisation), _) => vec![Some(organisation)],
            (Owner::Caller, Some(organisations)) => organisations.iter().copied().map(Some).collect(),
            (Owner::Service, _) | (Owner::Caller, None) => vec![None],
        }
    }

    /// As `GET /api/attention` shows it.
    #[must_use]
    pub fn fields(&self, address: Address) -> Value {
        let organisation = match self.owner {
            Owner::Organisation(organisation) => Some(organisation),
            Owner::Service | Owner::Caller => None,
        };
        json!({
            "id": self.id, "kind": self.kind, "severity": self.severity, "organisation": organisation,
            "sentence": self.sentence, "page": address(&self.page), "cause": self.cause.map(moment),
            "silence": self.silence.as_ref().map(Silence::fields),
        })
    }
}

/// The id of the line of a kind about a subject.
fn id_of(kind: Kind, subject: &str) -> Uuid {
    let hash = sha256(format!("attention {kind} {subject}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_line_depends_on_its_kind_and_its_subject_only() {
        let id = id_of(Kind::Queue, "lane paused");
        assert_eq!(id, id_of(Kind::Queue, "lane paused"));
        assert_ne!(id, id_of(Kind::Queue, "lane no_worker"));
        assert_ne!(id, id_of(Kind::Redis, "lane paused"));
    }

    #[test]
    fn every_kind_is_of_the_service_of_one_organisation_or_a_sum() {
        let sums = Kind::sums();
        assert_eq!(sums.len(), Kind::ALL.len() - Kind::OF_SERVICE.len() - Kind::OF_ORGANISATION.len());
        assert!(sums.contains(&"failed_jobs") && !sums.contains(&"redis") && !sums.contains(&"warehouse"));
        assert!(Kind::OF_SERVICE.iter().all(|kind| Kind::WITHOUT_CAUSE.contains(kind)));
    }
}
