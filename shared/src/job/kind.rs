//! The kinds of jobs, in one table.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a job does. Its name is stable: it is stored, shown, and filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Switches products on.
    ProductActivate,
    /// Switches products off.
    ProductDeactivate,
    /// Takes over products of a partner.
    ProductSync,
    /// Takes over stock counts of a partner.
    StockSync,
    /// Tells a partner of stocks.
    StockSend,
    /// Lets admins in again.
    AdminActivate,
    /// Shuts admins out.
    AdminDeactivate,
    /// Deletes admins for good.
    AdminDelete,
}

impl JobKind {
    /// Every kind, by name.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::ProductActivate, "product.activate"),
        (Self::ProductDeactivate, "product.deactivate"),
        (Self::ProductSync, "product.sync"),
        (Self::StockSync, "stock.sync"),
        (Self::StockSend, "stock.send"),
        (Self::AdminActivate, "admin.activate"),
        (Self::AdminDeactivate, "admin.deactivate"),
        (Self::AdminDelete, "admin.delete"),
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

    /// What jobs of a partner run in, one after the other: syncs in their organisation, what is sent in its e-shop, so that
    /// a catalogue that takes an hour to read keeps no stock waiting.
    #[must_use]
    pub fn sequence(self, organisation: Uuid, eshop: Uuid) -> Uuid {
        if self == Self::StockSend { eshop } else { organisation }
    }

    /// Whether its end is told to the e-shop (`sync_finished`).
    #[must_use]
    pub fn is_sync(self) -> bool {
        matches!(self, Self::ProductSync | Self::StockSync)
    }
}

/// What a kind needs besides its items, stored with the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameters {
    /// Whose items it may change: those of these organisations (absent: anybody's) …
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
}
