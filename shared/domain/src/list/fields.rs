//! What each kind of record shows: a table of fields for each, which the language of lists, look-ups, `nested` and `select`
//! follow. Records name each other in both directions (an e-shop has warehouses, a warehouse has e-shops), so their tables
//! are together, and know nothing but the columns: a closed list of values stands here, and who writes the values takes it
//! from here.

pub mod admin;
pub mod audit;
pub mod business_user;
pub mod carrier;
pub mod delivery;
pub mod eshop;
pub mod job;
pub mod organisation;
pub mod packaging;
pub mod product;
pub mod service;
pub mod session;
pub mod stock;
pub mod stock_advice;
pub mod subscription;
pub mod supplier;
pub mod token;
pub mod warehouse;
pub mod wms;
