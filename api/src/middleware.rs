//! What happens to every request, whatever its operation.

pub mod accept;
pub mod headers;
pub mod problem;
pub mod rate;
pub mod request_id;
pub mod streams;
pub mod time;
