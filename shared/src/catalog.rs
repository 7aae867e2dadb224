//! What is sold: products, their e-shops and children.

pub mod product;
