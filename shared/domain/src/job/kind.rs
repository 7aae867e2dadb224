//! The kinds of jobs, in one table.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a job does. Its name is stable: it is stored, shown, and filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Switches products on.
    ProductActivate,
    /// Switches products off.
    ProductDeactivate,
    /// Syncs products from a partner.
    ProductSync,
    /// Syncs stocks from a partner.
    StockSync,
    /// Sends stocks to a partner.
    StockSend,
    /// Lets admins in again.
    AdminActivate,
    /// Shuts admins out.
    AdminDeactivate,
    /// Deletes admins for good.
    AdminDelete,
    /// Sends again what did not succeed at a webhook.
    WebhookRecover,
    /// Sends deliveries again.
    WebhookRedeliver,
}

impl JobKind {
    /// Every kind, by name.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::ProductActivate, "product.activate"),
        (Self::ProductDeactivate, "product.deactivate"),
        (Self::ProductSync, "product.sync"),
        (Self::StockSync, "stock.sync"),
        (Self::StockSend, "stock.send"),
        (Self::AdminActivate, "admin.activate"),
        (Self::AdminDeactivate, "admin.deactivate"),
        (Self::AdminDelete, "admin.delete"),
        (Self::WebhookRecover, "webhook.recover"),
        (Self::WebhookRedeliver, "webhook.redeliver"),
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Reads its name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind)
    }

    /// Whether each of its items can be executed without the others of its chunk: the others are all or nothing, or take steps.
    #[must_use]
    pub fn is_divisible(self, parameters: &Parameters) -> bool {
        match self {
            Self::ProductActivate | Self::ProductDeactivate | Self::ProductSync | Self::StockSync => true,
            Self::WebhookRedeliver => parameters.deliveries.is_none(),
            Self::StockSend
            | Self::AdminActivate
            | Self::AdminDeactivate
            | Self::AdminDelete
            | Self::WebhookRecover => false,
        }
    }

    /// Whether its end is sent to the e-shop (`sync_finished`).
    #[must_use]
    pub fn is_sync(self) -> bool {
        matches!(self, Self::ProductSync | Self::StockSync)
    }
}

/// What a kind needs besides its items, stored with the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameters {
    /// The organisations whose items it may change (absent: all) …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organisations: Option<Vec<Uuid>>,
    /// … and of the one e-shop, where the scope of the caller was that narrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_eshop: Option<Uuid>,
    /// The partner's inventory, as the caller named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory_id: Option<String>,
    /// The warehouse that stocks are set in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warehouse: Option<Uuid>,
    /// The wms that stocks are set in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wms: Option<Uuid>,
    /// The deliveries that are recovered or sent again, where they are not named one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<Deliveries>,
}

/// Deliveries of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deliveries {
    /// The webhook.
    pub webhook: Uuid,
    /// Made at this moment or before: what is made later is not meant.
    pub made_by: DateTime<Utc>,
    /// Ended at this moment or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_since: Option<DateTime<Utc>>,
    /// Ended before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_before: Option<DateTime<Utc>>,
    /// In this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Of this type of event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// About this entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<Uuid>,
}

impl Deliveries {
    /// All of a webhook that were made by a moment.
    #[must_use]
    pub fn made_by(webhook: Uuid, moment: DateTime<Utc>) -> Self {
        Self {
            webhook,
            made_by: moment,
            ended_since: None,
            ended_before: None,
            state: None,
            event: None,
            entity: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::fields::job::KINDS;

    #[test]
    fn lists_know_every_kind() {
        assert_eq!(KINDS, JobKind::ALL.map(|(_, name)| name));
    }
}
