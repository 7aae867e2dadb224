//! What belongs to products: packaging options and product services (decisions, section 4).

mod packaging;
mod service;
