//! What is sold: products, their e-shops and children, and their pictures.

pub mod image;
pub mod product;
