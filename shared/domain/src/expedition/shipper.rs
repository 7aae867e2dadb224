//! Who ships an order, and what that is chosen by.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::record::{FieldChange, moment};

/// What a carrier is chosen by, beside the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Consignment {
    /// Where it goes.
    pub(super) country: Option<String>,
    /// What the e-shop calls the way of shipping.
    pub(super) method: Option<String>,
    /// What the customer pays, as a decimal.
    pub(super) value: String,
    pub(super) currency: String,
    pub(super) is_cod: bool,
    pub(super) is_b2b: bool,
    pub(super) has_pickup_place: bool,
}

/// Who ships an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shipper {
    pub(super) carrier: Option<Uuid>,
    pub(super) service: Option<Uuid>,
    /// Absent where the carrier was given.
    pub(super) choice: Option<Choice>,
}

/// The choice of a carrier, as a record shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Choice {
    /// The preference that held.
    pub(super) preference: Uuid,
    /// When it was chosen.
    #[serde(serialize_with = "moment")]
    pub(super) at: DateTime<Utc>,
}

impl Shipper {
    /// What changes where an order gets another shipper, for the audit.
    pub(super) fn becomes(&self, other: &Self) -> Vec<FieldChange> {
        let changes = [
            ("carrier", json!(self.carrier), json!(other.carrier)),
            ("carrierService", json!(self.service), json!(other.service)),
            ("carrierChoice", json!(self.choice), json!(other.choice)),
        ];
        let changes = changes.into_iter().filter(|(_, old, new)| old != new);
        changes.map(|(field, old, new)| FieldChange { field, old, new }).collect()
    }

    /// Whether it is the same carrier and service by the same preference, whenever it was chosen.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let by = |shipper: &Self| shipper.choice.map(|choice| choice.preference);
        (self.carrier, self.service, by(self)) == (other.carrier, other.service, by(other))
    }
}
