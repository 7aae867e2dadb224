//! The catalog: products and their images (`docs/reference/products.md#product`).

pub mod image;
pub mod product;
pub mod read;
pub mod service;
pub mod switch;
