//! What operators look at and do. It reads from all of the domain, and nothing in the domain imports it.

pub mod account;
pub mod attention;
pub mod counts;
pub mod course;
pub mod delivery;
pub mod doctor;
pub mod eshop;
pub mod find;
pub mod named;
pub mod order;
pub mod organisation;
pub mod preference;
pub mod product;
pub mod restored;
pub mod rotation;
pub mod schedule;
pub mod snapshots;
pub mod timeline;
pub mod token;
pub mod wms;
