//! What can be done with several orders at once.

use longshore_kernel::problem::Problem;

use super::control::Operation;

/// An operation on several orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Send,
    Process,
    Hold,
    Cancel,
}

impl Deed {
    /// All of them, in the order of their buttons.
    pub(super) const ALL: [Self; 4] = [Self::Send, Self::Process, Self::Hold, Self::Cancel];

    /// That of an address.
    pub(super) fn named(word: &str) -> Result<Self, Problem> {
        let mut all = Self::ALL.into_iter();
        all.find(|deed| deed.operation().path() == word).ok_or_else(|| Problem::not_found("operation"))
    }

    /// Where it is asked and done.
    pub(super) fn address(self) -> String {
        format!("/console/order/bulk/{}", self.operation().path())
    }

    /// What it does with each.
    pub(super) fn operation(self) -> Operation {
        match self {
            Self::Send => Operation::Send,
            Self::Process => Operation::Process,
            Self::Hold => Operation::Rollback,
            Self::Cancel => Operation::Cancel,
        }
    }

    /// The word of its buttons.
    pub(super) fn verb(self) -> &'static str {
        if self == Self::Cancel { "Cancel" } else { self.operation().button() }
    }

    /// What becomes of the orders.
    pub(super) fn says(self) -> &'static str {
        match self {
            Self::Send => {
                "Each is checked, and booked if all of it is in stock. Otherwise it waits in its turn."
            }
            Self::Process => "All of each is booked. After the confirmation, the warehouse can begin.",
            Self::Hold => {
                "Their pieces are given back, and other orders can get them. What a warehouse has is asked back."
            }
            Self::Cancel => {
                "Their pieces are given back. What a warehouse has is asked back. This cannot be undone."
            }
        }
    }
}
