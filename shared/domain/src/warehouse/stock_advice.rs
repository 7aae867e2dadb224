//! Stock advices: goods announced, received, taken back (`docs/reference/warehouses.md#stock-advice`).
//!
//! # Who takes part
//!
//! - [`rules`]: what the bodies may say;
//! - [`create`]: announcing; [`receive`]: what arrives; [`end`]: cancelling, and what is taken back;
//! - [`fields`](crate::list::fields::stock_advice): the record as lists and look-ups answer it;
//! - [`movement`](super::stock::movement): what all of it does to the stocks.
//!
//! # The states
//!
//! ```text
//!          receive            close
//!   new ────────────▶ receiving ────────▶ closed
//!    │  └─────────────── close ───────────▲
//!    └── cancel ──▶ cancelled ◀── cancel ── receiving
//! ```
//!
//! # What is guaranteed
//!
//! - While an advice is `new` or `receiving`, each of its items has `quantity - received` pieces (at least none)
//!   in the `incoming` stock of its product; once it is closed or cancelled, none.
//! - What is received is in the stock, whatever was announced: when more comes than was announced, `received` exceeds
//!   `quantity`, the stock's `quantity` rises by what came, and `incoming` sinks by what was announced and no more. People
//!   in a warehouse count what lies before them; refusing the surplus would only make the stock wrong.
//! - An advice whose items have all come stays `receiving` until somebody closes it: more may follow, and only people know.
//! - Cancelling leaves in stock what has been received: it is there.
//! - One transaction holds the advice, its stocks, their movements, audit and events. The advice is locked before its
//!   stocks, and stocks by id, as everybody does who changes several.

pub mod create;
pub mod end;
pub mod receive;
mod record;
pub mod rules;

use uuid::Uuid;

/// What the audit and the events call it.
pub const ENTITY: &str = "stock_advice";

/// What messages call it.
const NAME: &str = "stock advice";

/// The event that tells of its status (`docs/reference/webhooks.md#events`).
pub const EVENT: &str = "stock_advice_status_change";

/// How often a use-case that lost a race is run again.
const ATTEMPTS: usize = 3;

/// Where an advice is.
#[must_use]
pub fn location(id: Uuid) -> String {
    format!("/api/stock-advice/{id}")
}
