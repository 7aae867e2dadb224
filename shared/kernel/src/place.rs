//! Places in the order of time, where a search continues.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use crate::ids::Id;

/// A place in the order of time; written `<microseconds>.<id>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<I> {
    /// The moment.
    pub at: DateTime<Utc>,
    /// The record at that moment.
    pub id: I,
}

impl<I: fmt::Display> fmt::Display for Place<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.timestamp_micros(), self.id)
    }
}

impl<T> FromStr for Place<Id<T>> {
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
        let place = Place { at, id: JobId::new() };
        assert_eq!(place.to_string().parse(), Ok(place));
        for text in ["", ".", "1.2", "x.00000000-0000-0000-0000-000000000007", "9223372036854775807.x"] {
            assert_eq!(text.parse::<Place<JobId>>(), Err(()), "{text}");
        }
    }
}
