//! Product stock: one row a product, warehouse and wms (decisions, section 4).

pub mod fields;
pub mod movement;
pub mod sync;
