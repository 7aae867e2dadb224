//! Ids and times on the command line, with messages for those that cannot be read.

use chrono::{DateTime, NaiveDate, Utc};
use longshore_kernel::ids::parse_id;
use longshore_kernel::iso8601;
use uuid::Uuid;

/// An id, of the type that the caller names: clap checks the type of an argument only when it is read.
pub(super) fn id<T: From<Uuid>>(text: &str) -> Result<T, &'static str> {
    parse_id(text.trim()).map(T::from).ok_or("must be an id: a UUID of 8-4-4-4-12 hexadecimal digits")
}

/// When something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It never ends.
    Never,
    /// At a moment in the future.
    At(DateTime<Utc>),
}

/// A moment in the future (a time, or a date: its beginning, UTC), or `never`.
pub(super) fn end(text: &str) -> Result<End, &'static str> {
    if text == "never" {
        return Ok(End::Never);
    }
    absolute(text)
        .map(End::At)
        .ok_or("must be a time (2027-01-31T00:00:00Z), a date (2027-01-31, UTC), or `never`")
}

/// A moment: a time, or a date (its beginning, UTC).
pub(super) fn moment(text: &str) -> Result<DateTime<Utc>, &'static str> {
    absolute(text).ok_or("must be a time (2027-01-31T09:00:00Z) or a date (2027-01-31, UTC)")
}

fn absolute(text: &str) -> Option<DateTime<Utc>> {
    let date = || text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0).map(|at| at.and_utc());
    iso8601::timestamp(text).ok().or_else(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_time_a_date_or_never() {
        let read = |text| match end(text) {
            Ok(End::At(at)) => at.to_rfc3339(),
            other => format!("{other:?}"),
        };
        assert_eq!(read("2027-01-31T00:00:00+02:00"), "2027-01-30T22:00:00+00:00");
        assert_eq!(read("2027-01-31"), "2027-01-31T00:00:00+00:00");
        assert_eq!(end("never"), Ok(End::Never));
        for text in ["", "6h", "yesterday", "2027-13-01", "Never"] {
            assert!(end(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_moment_is_a_time_or_a_date() {
        assert_eq!(moment("2027-01-31T09:00:00+01:00").unwrap().to_rfc3339(), "2027-01-31T08:00:00+00:00");
        assert_eq!(moment("2027-01-31").unwrap().to_rfc3339(), "2027-01-31T00:00:00+00:00");
        assert!(moment("yesterday").is_err() && moment("never").is_err());
    }

    #[test]
    fn an_id_is_read_in_either_case() {
        let text = "018F1234-0000-7000-8000-00000000ABCD";
        assert_eq!(id::<Uuid>(text).unwrap().to_string(), text.to_ascii_lowercase());
        assert!(id::<Uuid>("123").unwrap_err().starts_with("must be an id"));
    }
}
