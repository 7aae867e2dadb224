//! The catalogue: products, their e-shops and children, their images, and packaging options.

pub mod image;
pub mod packaging;
pub mod product;
