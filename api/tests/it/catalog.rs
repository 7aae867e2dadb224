//! What belongs to products: packaging options and product services (`docs/reference/products.md#packaging-options`).

mod packaging;
mod service;
