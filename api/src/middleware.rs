//! What happens to every request, whatever its operation.

pub mod accept;
pub mod problem;
pub mod request_id;
