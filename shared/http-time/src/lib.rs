//! The times in headers of HTTP: a date, and how long to wait.
//!
//! A crate of its own, because the worker reads the headers of destinations, and the client of the API those of the service; the
//! client knows nothing else of what is shared.

use std::time::Duration;

use chrono::{DateTime, Months, NaiveDateTime, Utc};

/// The longest wait that is told apart; whoever asked bounds it further.
const LONGEST: u64 = u32::MAX as u64;

/// Years that a date with two digits of its year may be ahead (RFC 9110, section 5.6.7).
const AHEAD: Months = Months::new(50 * 12);
const CENTURY: Months = Months::new(100 * 12);

/// The forms of a date after its day of the week, which says nothing new: that of today, and those that RFC 9110, section 5.6.7, says
/// to read, too.
const FORMS: [&str; 4] = [
    "%d %b %Y %H:%M:%S GMT",
    "%d-%b-%y %H:%M:%S GMT",
    // as old cookies have it
    "%d-%b-%Y %H:%M:%S GMT",
    "%b %e %H:%M:%S %Y",
];

/// Reads a date of HTTP in each of its forms. A year of two digits that would be more than 50 years ahead is that of the century before.
#[must_use]
pub fn date(header: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let header = header.trim();
    let after_day = match header.split_once(", ") {
        Some((_, rest)) => rest,
        None => header.split_once(' ')?.1,
    };
    let read = |form: &str| {
        let at = NaiveDateTime::parse_from_str(after_day, form).ok()?.and_utc();
        let is_short = form.contains("%y");
        let last = now.checked_add_months(AHEAD)?;
        if is_short && at > last { at.checked_sub_months(CENTURY) } else { Some(at) }
    };
    // what mail allows is written, too: another zone, or no day of the week
    let as_mail = || DateTime::parse_from_rfc2822(header).ok().map(|at| at.to_utc());
    FORMS.into_iter().find_map(read).or_else(as_mail)
}

/// Reads `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date, which counts from `now`. A fraction of a second is rounded up.
#[must_use]
pub fn retry_after(header: &str, now: DateTime<Utc>) -> Option<Duration> {
    seconds(header.trim()).or_else(|| Some((date(header, now)? - now).to_std().unwrap_or_default()))
}

fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let begun = u64::from(fraction.bytes().any(|digit| digit != b'0'));
    // more digits than a number holds: a very long time
    let whole = whole.parse().unwrap_or(LONGEST).min(LONGEST);
    Some(Duration::from_secs(whole + begun))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_445_412_420;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(NOW, 0).unwrap()
    }

    #[test]
    fn a_date_is_read_in_each_of_its_forms() {
        for text in [
            "Wed, 21 Oct 2015 07:28:00 GMT",
            "Wednesday, 21-Oct-15 07:28:00 GMT",
            "Wed Oct 21 07:28:00 2015",
            "Wed, 21-Oct-2015 07:28:00 GMT",
            "Wed, 21 Oct 2015 07:28:00 +0000",
            "Wed, 21 Oct 2015 09:28:00 +0200",
            "21 Oct 2015 07:28:00 GMT",
            // the day of the week is wrong
            "Mon, 21 Oct 2015 07:28:00 GMT",
        ] {
            assert_eq!(date(text, now()).map(|at| at.timestamp()), Some(NOW + 60), "{text}");
        }
        for (text, year) in [
            ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37+00:00"),
            ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37+00:00"),
            ("Sunday, 06-Nov-64 08:49:37 GMT", "2064-11-06T08:49:37+00:00"),
            ("Sunday, 06-Nov-66 08:49:37 GMT", "1966-11-06T08:49:37+00:00"),
        ] {
            assert_eq!(date(text, now()).unwrap().to_rfc3339(), year, "{text}");
        }
        for nonsense in
            ["", " ", "soon", "2015-10-21T07:28:00Z", "Wed, 31 Feb 2015 07:28:00 GMT", "Wed, 21 Oct 2015"]
        {
            assert_eq!(date(nonsense, now()), None, "{nonsense:?}");
        }
    }

    #[test]
    fn a_wait_is_read_as_seconds_or_as_a_date() {
        let seconds = |header| retry_after(header, now()).map(|wait| wait.as_secs());
        for (header, wait) in [
            (" 120 ", 120),
            ("0", 0),
            ("1.5", 2),
            ("0.001", 1),
            ("3.000", 3),
            ("Wed, 21 Oct 2015 07:28:00 GMT", 60),
            ("Wednesday, 21-Oct-15 07:28:00 GMT", 60),
            ("Wed Oct 21 07:28:00 2015", 60),
            ("Wed, 21 Oct 2015 07:00:00 GMT", 0),
            ("99999999999999999999999", LONGEST),
            ("99999999999", LONGEST),
        ] {
            assert_eq!(seconds(header), Some(wait), "{header:?}");
        }
        for nonsense in ["", ".", ".5", "5.", "-1", "+1", "1.5.2", "1,5", "1e3", "soon", "120 s", "\u{663}"] {
            assert_eq!(seconds(nonsense), None, "{nonsense:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_a_panic(header in ".{0,60}", at in 0i64..4_000_000_000) {
            let _ = retry_after(&header, DateTime::from_timestamp(at, 0).unwrap());
        }

        #[test]
        fn each_form_of_a_moment_is_that_moment(at in 0i64..2_900_000_000) {
            let at = DateTime::from_timestamp(at, 0).unwrap();
            for form in ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"] {
                prop_assert_eq!(date(&at.format(form).to_string(), at), Some(at));
            }
        }
    }
}
