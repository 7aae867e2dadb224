//! Partners: jobs that fetch from a fake partner over real HTTP.

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
mod trial;
mod window;
