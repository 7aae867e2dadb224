//! Where the next page of a search begins, in the order of time.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use crate::ids::Id;

/// The last record of a page; written `<microseconds>.<id>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor<I> {
    /// The moment.
    pub at: DateTime<Utc>,
    /// The record at that moment.
    pub id: I,
}

impl<I: fmt::Display> fmt::Display for Cursor<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.timestamp_micros(), self.id)
    }
}

impl<T> FromStr for Cursor<Id<T>> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (micros, id) = text.split_once('.').ok_or(())?;
        let at = micros.parse().ok().and_then(DateTime::from_timestamp_micros).ok_or(())?;
        Ok(Self { at, id: Id::parse(id).ok_or(())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::JobId;

    #[test]
    fn a_place_comes_back_as_it_was_written() {
        let at = DateTime::from_timestamp_micros(1_767_225_600_123_456).unwrap();
        let cursor = Cursor { at, id: JobId::new() };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", ".", "1.2", "x.00000000-0000-0000-0000-000000000007", "9223372036854775807.x"] {
            assert_eq!(text.parse::<Cursor<JobId>>(), Err(()), "{text}");
        }
    }
}
