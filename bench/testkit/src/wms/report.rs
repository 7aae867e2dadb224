//! News: what the warehouse has done, and how a WMS reports it.

use longshore_kernel::ids::random_id;
use serde_json::{Value, json};
use uuid::Uuid;

use super::book::{Entry, Stage};

/// The news that one request may have and be done at once.
pub const BATCH: usize = 100;

/// What the warehouse does with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It begins to pick it: `take_out`.
    Pick,
    /// It packs all of it into one parcel: `waiting_for_the_carrier`.
    Pack,
    /// The carrier takes it: `carrier_picked_up`.
    Ship,
    /// The customer has it: `delivered`.
    Deliver,
}

/// How news are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Manner {
    /// Each once, in the order of what happened.
    #[default]
    InOrder,
    /// Each twice.
    Twice,
    /// The latest first.
    Backwards,
    /// Each twice, in any order.
    Shuffled,
}

/// A step that is not possible: the order is not there, or not so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{expedition} cannot do that: it is {stage:?}")]
pub struct NotNow {
    /// The order.
    pub expedition: Uuid,
    /// How far it is.
    pub stage: Stage,
}

impl Step {
    /// What comes after a stage, if the order goes on.
    #[must_use]
    pub fn after(stage: Stage) -> Option<Self> {
        match stage {
            Stage::Taken => Some(Self::Pick),
            Stage::Picked => Some(Self::Pack),
            Stage::Packed => Some(Self::Ship),
            Stage::Shipped => Some(Self::Deliver),
            _ => None,
        }
    }

    /// Takes the step in the book; returns the news of it, without `id`, `expedition`, `number` and `at`.
    pub(super) fn take(self, expedition: Uuid, entry: &mut Entry) -> Result<Value, NotNow> {
        let (from, to) = match self {
            Self::Pick => (&[Stage::Taken][..], Stage::Picked),
            Self::Pack => (&[Stage::Taken, Stage::Picked][..], Stage::Packed),
            Self::Ship => (&[Stage::Packed][..], Stage::Shipped),
            Self::Deliver => (&[Stage::Packed, Stage::Shipped][..], Stage::Delivered),
        };
        if !from.contains(&entry.stage) {
            return Err(NotNow { expedition, stage: entry.stage });
        }
        entry.stage = to;
        let mut news = match self {
            Self::Pick => return Ok(json!({"status": "take_out"})),
            Self::Pack => {
                let parcel = format!("P-{}", expedition.simple());
                let tracking = format!("T{}", expedition.as_u128() % 10_u128.pow(12));
                let parcels = json!([{"extPackageNumber": parcel, "extPackageTrackingNumber": tracking,
                    "trackingUrl": format!("https://carrier.example/{tracking}")}]);
                json!({"status": "waiting_for_the_carrier", "parcels": parcels})
            }
            Self::Ship => json!({"status": "carrier_picked_up"}),
            Self::Deliver => json!({"status": "delivered"}),
        };
        // whichever is taken first says what left
        if !entry.packed.is_null() {
            news["items"] = entry.packed.clone();
        }
        Ok(news)
    }
}

/// A batch as `manner` sends it.
pub(super) fn arranged(mut batch: Vec<Value>, manner: Manner) -> Vec<Value> {
    match manner {
        Manner::InOrder => {}
        Manner::Twice => batch = batch.into_iter().flat_map(|news| [news.clone(), news]).collect(),
        Manner::Backwards => batch.reverse(),
        Manner::Shuffled => {
            batch = batch.into_iter().flat_map(|news| [news.clone(), news]).collect();
            batch.sort_by_cached_key(|_| random_id());
        }
    }
    batch
}
