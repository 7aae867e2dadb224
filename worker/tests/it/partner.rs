//! Partners: jobs that fetch by themselves, from a partner of our own that speaks real HTTP.

mod baselinker;
mod clock;
mod fairness;
pub(crate) mod fake;
mod fault;
mod feed;
mod line;
mod resume;
mod stock_send;
mod support;
mod window;
