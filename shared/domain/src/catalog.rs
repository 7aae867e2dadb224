//! What is sold: products, their e-shops and children, their pictures, and how they may be packed.

pub mod image;
pub mod packaging;
pub mod product;
