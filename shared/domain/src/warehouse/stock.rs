//! Product stock: one row a product, warehouse and wms (`docs/reference/warehouses.md#product-stock`).

pub mod movement;
pub mod sync;
