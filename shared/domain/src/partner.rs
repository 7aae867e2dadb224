//! Partner integration: how an e-shop's partner is reached, and its syncs.

pub mod baselinker;
pub mod block;
pub mod clock;
pub mod decimal;
pub mod pull;
pub mod push;
pub mod send_out;
pub mod setting;
