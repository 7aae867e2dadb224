//! The bodies of the jobs, one file each, and what several of them share: [`rows`], [`partner_turn`].

pub mod admin_bulk;
pub mod chunk;
pub mod partner_fetch;
pub mod partner_turn;
pub mod product_activation;
pub mod product_sync;
pub mod rows;
pub mod stock_send;
pub mod stock_sync;
pub mod upkeep;
pub mod webhook_redelivery;
