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
//! - All received pieces go to the stock, even beyond the announced ones: `received` can exceed `quantity`, the stock's
//!   `quantity` rises by the received pieces, and `incoming` decreases by at most the announced ones. People in a warehouse
//!   count the real goods; refusing the surplus would only make the stock wrong.
//! - An advice whose items have all arrived stays `receiving` until it is closed: more may follow, and only people know.
//! - Cancelling leaves in stock what has been received: it is there.
//! - One transaction holds the advice, its stocks, their movements, audit and events. The advice is locked before its
//!   stocks, and stocks by id, the common order of locks.

pub mod create;
pub mod end;
pub mod receive;
mod record;
pub mod rules;

use crate::list::fields::event::STOCK_ADVICE_STATUS_CHANGE;
use longshore_kernel::change::EventType;
use longshore_kernel::ids::StockAdviceId;

/// What the audit and the events call it.
pub const ENTITY: &str = "stock_advice";

/// What messages call it.
const NAME: &str = "stock advice";

/// The event of its status (`docs/reference/webhooks.md#events`).
pub const EVENT: EventType = STOCK_ADVICE_STATUS_CHANGE;

/// How often a use-case that lost a race is run again.
const ATTEMPTS: usize = 3;

/// Where an advice is.
#[must_use]
pub fn location(id: StockAdviceId) -> String {
    format!("/api/stock-advice/{id}")
}
