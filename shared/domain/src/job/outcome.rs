//! What executing a chunk comes to.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::chunk::Count;
use super::item_error::ItemError;
use super::kind::Unusable;
use super::payload::Unreadable;
use longshore_kernel::cause::causes;
use longshore_kernel::problem::Problem;
use longshore_kernel::sqlstate::{is_contention, is_of_a_record, is_unreachable};

/// What executing a chunk came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Its items, counted.
    pub count: Count,
    /// Its refused items.
    pub errors: Vec<ItemError>,
}

/// Why executing a chunk came to nothing, and so what becomes of it.
#[derive(Debug)]
pub enum Fate {
    /// It lost a race for locks: run it again at once.
    Again(String),
    /// One of its items, or several, ended in an error of their own: which ones is found by halving it.
    OfItems(String),
    /// It failed for a reason that may pass: an attempt is spent, the next one waits longer.
    Retry(String),
    /// The same, after the wait that the failing party requested.
    RetryAfter(String, Duration),
    /// It cannot succeed before a moment that is known: no attempt is spent, and the job says why it waits.
    Pause {
        /// For an operator.
        reason: String,
        /// That moment.
        until: DateTime<Utc>,
    },
    /// It could not be tried, because Postgres is away or short of something: no attempt is spent, and the waits grow.
    Away(String),
    /// It is not tried now (its turn has not come, the process stops): no attempt is spent.
    Snooze(Duration),
    /// It fails for good.
    Discard(String),
}

impl From<sqlx::Error> for Fate {
    fn from(error: sqlx::Error) -> Self {
        if is_contention(&error) {
            Self::Again(error.to_string())
        } else if is_unreachable(&error) {
            Self::Away(error.to_string())
        } else if is_of_a_record(&error) {
            Self::OfItems(error.to_string())
        } else {
            Self::Retry(error.to_string())
        }
    }
}

impl From<Problem> for Fate {
    fn from(problem: Problem) -> Self {
        if problem.is_contention() {
            Self::Again(problem.to_string())
        } else if problem.is_unavailable() && !problem.is_cancelled() {
            Self::Away(causes(&problem).to_string())
        } else if problem.is_of_a_record() {
            Self::OfItems(causes(&problem).to_string())
        } else {
            Self::Retry(problem.to_string())
        }
    }
}

impl From<Unreadable> for Fate {
    fn from(error: Unreadable) -> Self {
        Self::Discard(error.to_string())
    }
}

impl From<Unusable> for Fate {
    fn from(error: Unusable) -> Self {
        Self::Discard(error.to_string())
    }
}
