//! The visible fields of each kind of record: one table each, for lists, look-ups, `nested` and `select`. Records name each
//! other in both directions (an e-shop has warehouses, a warehouse has e-shops), so their tables are together, and contain
//! only the columns. A closed list of values is defined here, and the code that writes the values uses it.

pub mod admin;
pub mod audit;
pub mod business_user;
pub mod carrier;
pub mod delivery;
pub mod eshop;
pub mod event;
pub mod event_reader;
pub mod expedition;
pub mod expedition_item;
pub mod job;
pub mod lost_order;
pub mod movement;
pub mod organisation;
pub mod packaging;
pub mod preference;
pub mod preview;
pub mod product;
pub mod receipt;
pub mod service;
pub mod session;
pub mod stock;
pub mod stock_advice;
pub mod subscription;
pub mod supplier;
pub mod token;
pub mod warehouse;
pub mod wms;
