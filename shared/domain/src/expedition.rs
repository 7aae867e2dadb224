//! Orders, which the API calls expeditions (`docs/reference/orders.md`).

pub mod allocator;
