//! Products (`docs/reference/products.md#product`).
//!
//! # Modules
//!
//! - [`record`]: the stored row, the table of its fields, and the difference of two states;
//! - `columns`: its columns in SQL; `read`: products that callers may see;
//! - [`rules`]: the rules of a body and of a row of a sync, in one reader;
//! - [`references`]: a product can only refer to records that exist and are visible;
//! - [`create`], [`update`], [`activation`], [`service`]: the use-cases on one product; [`switch`] and [`sync`]: on a chunk
//!   of them;
//! - [`together`]: updates of the same moment share the statements that read and [`write`](mod@write) their products;
//! - [`fields`](crate::list::fields::product): the record as lists and look-ups show it.
//!
//! # Guarantees
//!
//! `organisation` never changes, `product_sku` is unique in it, and every e-shop belongs to it. Only a bundle has children, and
//! children are physical products of the same organisation. This also holds for concurrent requests: a transaction that takes a
//! child locks it, and one that changes a type locks the product first. A transaction that gives a product its first stock
//! locks it, too: a product in stock, or in an open stock advice, is physical.
//!
//! Every write of a product raises its `version` (which `If-Match` and the optimistic update compare), also when only its
//! e-shops or children change. The exception: an activation that changes nothing raises `active_acceptance` alone.

pub mod activation;
mod columns;
pub mod create;
mod read;
pub mod record;
mod references;
pub mod rules;
pub mod service;
pub mod switch;
pub mod sync;
pub mod together;
pub mod update;
mod write;

use crate::list::fields::event::PRODUCT_CHANGE;
use longshore_kernel::change::EventType;

/// What the audit and the events call it.
pub const ENTITY: &str = "product";

/// The event of its changes (`docs/reference/webhooks.md#events`).
pub const EVENT: EventType = PRODUCT_CHANGE;

/// Where a product is.
#[must_use]
pub fn location(id: uuid::Uuid) -> String {
    format!("/api/product/{id}")
}
