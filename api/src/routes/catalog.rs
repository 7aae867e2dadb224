//! The catalog: products and their pictures (specification, part 4).

pub mod image;
pub mod product;
pub mod read;
pub mod switch;
