//! Partners: jobs that fetch by themselves, from a partner of our own that speaks real HTTP.

mod clock;
pub(crate) mod fake;
mod fault;
mod feed;
mod resume;
mod support;
mod window;
