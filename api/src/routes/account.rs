//! Organisations and their e-shops (specification, part 4).

pub mod audit;
pub mod read;
