//! Dry runs (`docs/reference/jobs.md#dry-run`): jobs of the kind `preview`, which find out what a job of another kind would do.
//!
//! Their chunks are executed by the code of that kind, behind a savepoint that is taken back ([`trial`]). A dry run is in no line, and
//! its number in the order of acceptance is behind all others: it runs when its organisation has nothing else to do, and compares
//! with what is there then. What was found can be applied ([`application`]).

pub mod application;
pub mod trial;

use serde_json::{Map, Value, json};

/// Unfinished dry runs of an organisation.
pub const UNFINISHED: i64 = 4;
/// Items of a dry run that are kept: those of the chunks that were executed first.
pub const KEPT: i64 = 10_000;
/// Hours after its end in which a dry run can be applied.
pub const APPLICABLE_HOURS: i32 = 1;
/// What is added to the acceptance number of a dry run: it is behind all others.
pub(super) const BEHIND: i64 = 1 << 62;

/// The sums of a dry run, in the order in which they are counted.
const SUMS: [&str; 8] =
    ["created", "updated", "deactivated", "zeroed", "booked", "waiting", "deliveries", "rows"];

/// What a dry run has found that has executed nothing.
pub(super) fn nothing() -> Value {
    SUMS.iter().map(|name| ((*name).to_owned(), json!(0))).collect::<Map<_, _>>().into()
}
