//! The catalog: products (specification, part 4).

pub mod product;
pub mod read;
pub mod switch;
