//! Dates and points in time as ISO 8601 writes them, in the forms that programs use
//! (`docs/reference/records.md#identifiers-and-timestamps`).

use std::ops::RangeInclusive;

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};

/// Years that can be written with four digits. There is no year 0.
const YEARS: RangeInclusive<i32> = 1..=9_999;

/// Digits of a second that are kept, as Postgres keeps them.
const PLACES: usize = 6;

/// Why a text is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is this date-time, and names no UTC offset.
    NoOffset(NaiveDateTime),
    /// It is a date-time, and not at midnight.
    NoMidnight,
    /// It is none of the forms, or of another year.
    Malformed,
}

/// Reads a date-time with a UTC offset. It is cut to microseconds before anything else is said of it: what is stored, shown and
/// compared is the same. A leap second is the first second of the next minute.
///
/// # Errors
/// [`Unread::NoOffset`] or [`Unread::Malformed`].
pub fn timestamp(text: &str) -> Result<DateTime<Utc>, Unread> {
    let (at, offset) = date_time(text).ok_or(Unread::Malformed)?;
    let utc = at.checked_sub_signed(offset.unwrap_or_default()).filter(|at| YEARS.contains(&at.year()));
    let utc = utc.ok_or(Unread::Malformed)?.and_utc();
    offset.map(|_| utc).ok_or(Unread::NoOffset(at))
}

/// Reads a date. A date-time at midnight is one, with an offset or without.
///
/// # Errors
/// [`Unread::NoMidnight`] or [`Unread::Malformed`].
pub fn date(text: &str) -> Result<NaiveDate, Unread> {
    let mut rest = Rest(text);
    let date = match (rest.date(), date_time(text)) {
        (Some(date), _) if rest.0.is_empty() => date,
        (_, Some((at, _))) if at.time() == NaiveTime::MIN => at.date(),
        (_, Some(_)) => return Err(Unread::NoMidnight),
        _ => return Err(Unread::Malformed),
    };
    Some(date).filter(|date| YEARS.contains(&date.year())).ok_or(Unread::Malformed)
}

/// A date-time as it is written, and its offset, if it names one.
fn date_time(text: &str) -> Option<(NaiveDateTime, Option<TimeDelta>)> {
    let mut rest = Rest(text);
    let date = rest.date()?;
    rest.one_of(&['T', 't', ' '])?;
    let time = rest.time()?;
    let offset = if rest.0.is_empty() { None } else { Some(rest.offset()?) };
    let at = date.and_time(NaiveTime::MIN).checked_add_signed(time)?;
    rest.0.is_empty().then_some((at, offset))
}

/// What is left of a text.
struct Rest<'t>(&'t str);

impl Rest<'_> {
    fn one_of(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.0.chars().next().filter(|next| wanted.contains(next))?;
        self.0 = self.0.get(next.len_utf8()..)?;
        Some(next)
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    }

    /// `2026-05-31`, or `20260531`.
    fn date(&mut self) -> Option<NaiveDate> {
        let year = self.digits(4)?;
        let has_hyphens = self.one_of(&['-']).is_some();
        let month = self.digits(2)?;
        if has_hyphens {
            self.one_of(&['-'])?;
        }
        NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, self.digits(2)?)
    }

    /// `12:30:00.5`, or less exact, or without colons: since midnight.
    fn time(&mut self) -> Option<TimeDelta> {
        let hour = self.digits(2)?;
        let has_colons = self.0.starts_with(':');
        let minute = self.part(has_colons);
        let second = minute.and_then(|_| self.part(has_colons));
        let micros = if second.is_some() { self.fraction()? } else { 0 };
        let (minute, second) = (minute.unwrap_or(0), second.unwrap_or(0));
        let is_end_of_day = (hour, minute, second, micros) == (24, 0, 0, 0);
        // a leap second is the 61st
        if (hour > 23 && !is_end_of_day) || minute > 59 || second > 60 {
            return None;
        }
        let seconds = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
        Some(TimeDelta::seconds(seconds) + TimeDelta::microseconds(micros))
    }

    /// The next two digits. What is no such part is left where it is, and refused there.
    fn part(&mut self, has_colons: bool) -> Option<u32> {
        let mut rest = Self(self.0);
        if has_colons {
            rest.one_of(&[':'])?;
        }
        let part = rest.digits(2)?;
        *self = rest;
        Some(part)
    }

    /// Microseconds of a fraction, if there is one; what is beyond them is cut.
    fn fraction(&mut self) -> Option<i64> {
        if self.one_of(&['.', ',']).is_none() {
            return Some(0);
        }
        let end = self.0.find(|next: char| !next.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())?;
        self.0 = rest;
        let kept = digits.get(..PLACES).unwrap_or(digits);
        format!("{kept:0<PLACES$}").parse().ok()
    }

    /// `Z`, `+01:00`, `+0100` or `+01`.
    fn offset(&mut self) -> Option<TimeDelta> {
        // the typographic minus is what ISO 8601 recommends
        let sign = self.one_of(&['Z', 'z', '+', '-', '\u{2212}'])?;
        if matches!(sign, 'Z' | 'z') {
            return Some(TimeDelta::zero());
        }
        let hours = self.digits(2).filter(|hours| *hours < 24)?;
        let has_colon = self.0.starts_with(':');
        let minutes = self.part(has_colon).unwrap_or(0);
        let offset = (minutes < 60).then(|| TimeDelta::minutes(i64::from(hours * 60 + minutes)))?;
        Some(if sign == '+' { offset } else { -offset })
    }
}

#[cfg(test)]
mod tests {
    use chrono::SecondsFormat;
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Result<String, Unread> {
        timestamp(text).map(|at| at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }

    #[test]
    fn a_timestamp_is_taken_in_each_form_that_names_an_offset() {
        for (text, expected) in [
            ("2026-01-31T12:30:00Z", "2026-01-31T12:30:00Z"),
            ("2026-01-31t12:30:00z", "2026-01-31T12:30:00Z"),
            ("2026-01-31 12:30:00.5+00:00", "2026-01-31T12:30:00.500Z"),
            ("2026-01-31T12:30:00,25-00:00", "2026-01-31T12:30:00.250Z"),
            ("2026-01-31T12:30:00+0100", "2026-01-31T11:30:00Z"),
            ("2026-01-31T12:30:00+01", "2026-01-31T11:30:00Z"),
            ("2026-01-31T12:30:00\u{2212}05:30", "2026-01-31T18:00:00Z"),
            ("2026-01-31T12:30Z", "2026-01-31T12:30:00Z"),
            ("2026-01-31T12+01", "2026-01-31T11:00:00Z"),
            ("20260131T123000Z", "2026-01-31T12:30:00Z"),
            ("20260131T1230-0130", "2026-01-31T14:00:00Z"),
            ("2026-01-31T24:00Z", "2026-02-01T00:00:00Z"),
            ("2026-12-31T24:00:00.000+01:00", "2026-12-31T23:00:00Z"),
            // cut, not rounded
            ("2026-01-31T10:00:00.1234567Z", "2026-01-31T10:00:00.123456Z"),
            ("1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999999Z"),
            ("9999-12-31T23:59:59.999999999999999999999999Z", "9999-12-31T23:59:59.999999Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            // leap seconds
            ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
            ("2016-12-31T23:59:60.5Z", "2017-01-01T00:00:00.500Z"),
            ("2017-01-01T00:59:60.9999999+01:00", "2017-01-01T00:00:00.999999Z"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_timestamp_is_refused() {
        for text in [
            "",
            "2026-01-31",
            "2026-02-30T00:00:00Z",
            "2026-1-31T00:00:00Z",
            "2026-01-31T1:00:00Z",
            "2026-01-31T12:30:00.Z",
            "2026-01-31T12:3000Z",
            "2026-01-31T12:30:00+1",
            "2026-01-31T12:30:00+01:0",
            "2026-01-31T12:30:00+24:00",
            "2026-01-31T12:30:00+01:60",
            "2026-01-31T12:30:00Zx",
            "2026-01-31T12:30:00 Z",
            "2026-01-31T25:00Z",
            "2026-01-31T24:01Z",
            "2026-01-31T24:00:01Z",
            "2026-01-31T12:60Z",
            "2026-01-31T12:30:61Z",
            "10000-01-01T00:00:00Z",
            "9999-12-31T24:00Z",
            "9999-12-31T23:59:60Z",
            "9999-12-31T23:59:59-12:00",
            "0000-12-31T23:59:59Z",
            "0001-01-01T00:00:00+01:00",
            "2026-01-31T12:30:00\u{e9}",
            "\u{e9}026-01-31T12:30:00Z",
            "1764547200000",
        ] {
            assert_eq!(shown(text), Err(Unread::Malformed), "{text}");
        }
        let at = NaiveDate::from_ymd_opt(2026, 1, 31).unwrap().and_hms_opt(12, 30, 0).unwrap();
        for text in ["2026-01-31T12:30:00", "2026-01-31 12:30", "20260131T1230"] {
            assert_eq!(shown(text), Err(Unread::NoOffset(at)), "{text}");
        }
    }

    #[test]
    fn a_date_time_at_midnight_is_a_date() {
        let day = NaiveDate::from_ymd_opt(2026, 5, 31).unwrap();
        for text in [
            "2026-05-31",
            "20260531",
            "2026-05-31T00:00:00",
            "2026-05-31 00:00:00",
            "2026-05-31T00:00:00.000Z",
            "2026-05-31T00:00:00+02:00",
            "2026-05-31T00:00-0800",
            "2026-05-30T24:00",
        ] {
            assert_eq!(date(text), Ok(day), "{text}");
        }
        for text in ["2026-05-31T12:00:00Z", "2026-05-31T00:00:00.000001"] {
            assert_eq!(date(text), Err(Unread::NoMidnight), "{text}");
        }
        for text in
            ["", "2026-02-30", "2026-1-31", "0000-01-01", "9999-12-31T24:00", "2026-05-31T", "2026-05-31x"]
        {
            assert_eq!(date(text), Err(Unread::Malformed), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,40}") {
            let _ = (timestamp(&text), date(&text));
        }

        #[test]
        fn what_is_taken_of_rfc3339_is_the_same_point_in_time(
            seconds in -62_135_596_800..253_402_300_800_i64, nanos in 0..1_000_000_000_u32, minutes in -1_439..=1_439
        ) {
            let at = DateTime::from_timestamp(seconds, nanos).unwrap();
            let offset = chrono::FixedOffset::east_opt(minutes * 60).unwrap();
            let text = at.with_timezone(&offset).to_rfc3339();
            prop_assume!(text.len() < 36 && !text.starts_with(['+', '-']));
            let cut = DateTime::from_timestamp(seconds, nanos / 1_000 * 1_000).unwrap();
            prop_assert_eq!(timestamp(&text), Ok(cut), "{}", text);
        }
    }
}
