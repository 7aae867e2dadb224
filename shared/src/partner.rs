//! Partners: what they push into an e-shop, and (later) what is fetched from and sent to them (decisions, section 6).

pub mod push;
