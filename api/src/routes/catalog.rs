//! The catalog: products (specification, part 4).

pub mod packaging;
pub mod product;
pub mod read;
pub mod service;
pub mod switch;
