//! Warehouses, wms and stock (specification, part 4).

pub mod read;
