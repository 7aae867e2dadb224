//! Products (specification, part 2; decisions, section 4).
//!
//! # Who takes part
//!
//! - [`record`]: the stored row, the table of its fields, and what tells two states of it apart;
//! - [`rules`]: what a body or a row of a sync may say, read by one reader;
//! - [`references`]: what a product refers to must be there, and be visible;
//! - [`create`], [`update`], [`activation`], [`service`]: the use-cases on one product; [`switch`] and [`sync`]: on a chunk of them;
//! - [`together`]: updates of the same moment share the statements that read and [`write`](mod@write) their products;
//! - [`fields`]: the record as lists and look-ups answer it.
//!
//! # What is guaranteed
//!
//! `organisation` never changes, `product_sku` is unique in it, and every e-shop is one of its own. A bundle has
//! children, nothing else has; children are physical products of the same organisation, also when two requests try to
//! make it otherwise at once: whoever takes a child locks it, whoever changes a type locks the product first. So does
//! whoever gives a product its first stock: what is in stock, or stands in an open stock advice, is physical.
//!
//! Whoever writes a product raises `changed_at` (the version that `If-Match` and the optimistic update compare), also
//! when only its e-shops or children change. One thing is left out: an activation that finds the product as it should
//! be raises `active_acceptance` alone.

pub mod activation;
mod columns;
pub mod create;
pub mod fields;
pub mod record;
pub mod references;
pub mod rules;
pub mod service;
pub mod switch;
pub mod sync;
pub mod together;
pub mod update;
mod write;

/// What the audit and the events call it.
pub const ENTITY: &str = "product";

/// The event that tells of its changes (decisions, section 7).
pub const EVENT: &str = "product_change";

/// Where a product is.
#[must_use]
pub fn location(id: uuid::Uuid) -> String {
    format!("/api/product/{id}")
}
