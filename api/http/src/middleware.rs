//! Middleware for every request.

pub mod accept;
pub mod compress;
pub mod cors;
pub mod deprecated;
pub mod headers;
pub mod host;
pub mod pace;
pub mod private;
pub mod problem;
pub mod rate;
pub mod request_id;
pub mod revocation;
pub mod share;
pub mod streams;
pub mod time;
pub mod transfer;
pub mod unconditional;
