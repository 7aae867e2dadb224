//! Organisations and their e-shops (specification, part 4).

pub mod eshop;
pub mod organisation;
pub mod read;
