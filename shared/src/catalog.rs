//! What is sold: products, their e-shops and children, and how they may be packed.

pub mod packaging;
pub mod product;
