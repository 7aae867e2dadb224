//! Orders as operators see them: the figures for monitoring, the search, one order with what it waits for, and what needs
//! attention. Each is bounded, however many orders there are: an index says which are looked at, and at most so many.

pub mod attention;
pub mod inspection;
pub mod place;
pub mod search;

/// Orders of a status that are counted; beyond that, it is "many".
pub const COUNTED: i64 = 10_000;
