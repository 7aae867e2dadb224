//! The handlers, in the modules of `longshore-domain`: extract, one call, view.

pub mod account;
pub mod activity;
pub mod attention;
pub mod catalog;
pub mod expedition;
pub mod find;
pub mod health;
pub mod index;
pub mod job;
pub mod list;
pub mod partner;
pub mod problem;
pub mod resource;
pub mod shipping;
pub mod view;
pub mod warehouse;
pub mod webhook;
