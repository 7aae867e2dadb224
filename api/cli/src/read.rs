//! Ids and times on the command line, with messages for those that cannot be read, and the clock.

use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use longshore_client::Uuid;

/// An id.
pub(super) fn id(text: &str) -> Result<Uuid, &'static str> {
    let text = text.trim();
    // a UUID has other spellings, which the service does not know
    let read = || Uuid::try_parse(text).ok().filter(|id| id.to_string() == text.to_ascii_lowercase());
    read().ok_or("must be an id: a UUID of 8-4-4-4-12 hexadecimal digits")
}

/// The time now: spans on the command line count from it, and tables say how long ago something was.
#[expect(clippy::disallowed_methods, reason = "the one clock of the command line")]
pub(super) fn now() -> DateTime<Utc> {
    Utc::now()
}

/// A moment in the past: a time, a date (its beginning, UTC), or a span until now.
pub(super) fn moment(text: &str) -> Result<DateTime<Utc>, &'static str> {
    before(text, now())
        .ok_or("must be a time (2027-01-31T00:00:00Z), a date (2027-01-31, today or yesterday, UTC), or a span until now (90s, 15m, 6h, 2d)")
}

fn absolute(text: &str) -> Option<DateTime<Utc>> {
    let date = || text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0).map(|at| at.and_utc());
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc()).or_else(date)
}

fn before(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let day = |days| now.date_naive().checked_sub_days(Days::new(days))?.and_hms_opt(0, 0, 0);
    match text {
        "today" => return day(0).map(|at| at.and_utc()),
        "yesterday" => return day(1).map(|at| at.and_utc()),
        _ => {}
    }
    absolute(text).or_else(|| {
        // `-6h` is how others write it
        let text = text.strip_prefix('-').unwrap_or(text);
        let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let count: i64 = count.parse::<u32>().ok()?.into();
        let span = match unit {
            "s" => TimeDelta::try_seconds(count),
            "m" => TimeDelta::try_minutes(count),
            "h" => TimeDelta::try_hours(count),
            "d" => TimeDelta::try_days(count),
            _ => None,
        };
        now.checked_sub_signed(span?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_dates_and_spans_are_read() {
        let now = absolute("2027-03-01T12:00:00Z").unwrap();
        let read = |text| before(text, now).map(|at| at.to_rfc3339());
        for (text, at) in [
            ("2027-01-31T00:00:00+02:00", "2027-01-30T22:00:00+00:00"),
            ("2027-01-31", "2027-01-31T00:00:00+00:00"),
            ("90s", "2027-03-01T11:58:30+00:00"),
            ("6h", "2027-03-01T06:00:00+00:00"),
            ("-6h", "2027-03-01T06:00:00+00:00"),
            ("2d", "2027-02-27T12:00:00+00:00"),
            ("today", "2027-03-01T00:00:00+00:00"),
            ("yesterday", "2027-02-28T00:00:00+00:00"),
        ] {
            assert_eq!(read(text).as_deref(), Some(at), "{text}");
        }
        for text in [
            "",
            "h",
            "6",
            "6x",
            "--6h",
            "tomorrow",
            "2027-13-01",
            "99999999999d",
            "4294967295d",
            "6 h",
            "6\u{fc}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn an_id_is_read_in_either_case() {
        let text = "018F1234-0000-7000-8000-00000000ABCD";
        assert_eq!(id(text).unwrap().to_string(), text.to_ascii_lowercase());
        for text in ["123", "018f1234000070008000000000 00abcd", "018f123400007000800000000000abcd"] {
            assert!(id(text).unwrap_err().starts_with("must be an id"), "{text}");
        }
    }
}
