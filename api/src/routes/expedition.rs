//! `/api/expedition`: orders, their items and reservations (`docs/reference/orders.md#order`).

pub mod bulk;
pub mod command;
pub mod edit;
pub mod invoice;
pub mod lost_order;
pub mod read;
