//! The catalog: products and their pictures (specification, part 4).

pub mod image;
pub mod packaging;
pub mod product;
pub mod read;
pub mod service;
pub mod switch;
