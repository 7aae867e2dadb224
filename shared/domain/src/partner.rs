//! Partner integration: how an e-shop's partner is reached, and what its syncs bring.

pub mod baselinker;
pub mod block;
pub mod clock;
pub mod decimal;
pub mod pull;
pub mod push;
pub mod send_out;
pub mod setting;
