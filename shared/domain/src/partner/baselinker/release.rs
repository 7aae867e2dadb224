//! When the block of a token ends. BaseLinker says so only in the text of its refusal, in no time zone: "Query limit
//! exceeded, token blocked until 2022-05-03 17:15:34".
//!
//! The text is for people and may change, so any time or time span in it is used; if there is none, the wait is the usual
//! length of a block. A time without a zone is read as the earliest possible one in the future (UTC, or either of Warsaw's
//! offsets): calling a little early costs one refusal, but waiting hours too long makes the stocks wrong.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};

/// How long a block lasts where its text does not say.
pub const USUAL: Duration = Duration::from_mins(10);

/// The longest wait, regardless of the text.
pub const LONGEST: Duration = Duration::from_hours(24);

/// A call in the very second of the release may be a moment too early.
const MARGIN: Duration = Duration::from_secs(2);

/// Hours that the partner's clock may be ahead of UTC.
const OFFSETS: [i64; 3] = [2, 1, 0];

/// How long to wait, by the text of a refusal that came at `now` (the clock of the partner, if it is known).
#[must_use]
pub fn wait(text: &str, now: DateTime<Utc>) -> Duration {
    let wait_for =
        moment(text).and_then(|at| ahead(at, now)).or_else(|| epoch(text, now)).or_else(|| span(text));
    wait_for.map_or(USUAL, |wait| wait.saturating_add(MARGIN).min(LONGEST))
}

/// A time in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    local: NaiveDateTime,
    /// Seconds ahead of UTC, where it says.
    offset: Option<i64>,
}

/// How far ahead a moment is; `None` where it has passed in every reading.
fn ahead(moment: Moment, now: DateTime<Utc>) -> Option<Duration> {
    let readings = moment.offset.map_or(OFFSETS.map(|hours| hours * 3600).to_vec(), |offset| vec![offset]);
    readings.into_iter().find_map(|offset| {
        let at = moment.local.checked_sub_signed(TimeDelta::seconds(offset))?.and_utc();
        (at - now).to_std().ok()
    })
}

/// Finds `2022-05-03 17:15:34`, also with a `T`, without seconds, with a fraction, with a zone, or with the day first.
fn moment(text: &str) -> Option<Moment> {
    let bytes = text.as_bytes();
    (0..bytes.len())
        .filter(|at| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[*at - 1].is_ascii_digit()))
        .find_map(|at| moment_at(&bytes[at..]))
}

fn moment_at(bytes: &[u8]) -> Option<Moment> {
    let mut rest = Cursor(bytes);
    let (first, width) = rest.number()?;
    let separator = rest.one_of(b"-./")?;
    let (second, _) = rest.number()?;
    rest.one_of(&[separator])?;
    let (third, last_width) = rest.number()?;
    let (year, month, day) = match (width, last_width) {
        (4, 1..=2) => (first, second, third),
        (1..=2, 4) => (third, second, first),
        _ => return None,
    };
    rest.one_of(b"T ,")?;
    rest.skip(b' ');
    let (hour, _) = rest.number()?;
    rest.one_of(b":")?;
    let (minute, _) = rest.number()?;
    let second = if rest.one_of(b":").is_some() { rest.number()?.0 } else { 0 };
    if rest.one_of(b".").is_some() {
        rest.number();
    }
    let local =
        NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?.and_hms_opt(hour, minute, second)?;
    Some(Moment { local, offset: rest.offset() })
}

/// Reads bytes from the front.
struct Cursor<'b>(&'b [u8]);

impl Cursor<'_> {
    /// A number of at most nine digits, and how many it has.
    fn number(&mut self) -> Option<(u32, usize)> {
        let width = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.0[..width]).ok()?.parse().ok()?;
        self.0 = &self.0[width..];
        (width <= 9).then_some((number, width))
    }

    fn one_of(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        if !wanted.contains(first) {
            return None;
        }
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, byte: u8) {
        while self.one_of(&[byte]).is_some() {}
    }

    /// `Z`, `UTC`, `GMT`, `CET`, `CEST`, `+02:00`, `+0200`, `+02`: seconds ahead of UTC.
    fn offset(&mut self) -> Option<i64> {
        self.skip(b' ');
        for (name, hours) in [("CEST", 2), ("CET", 1), ("UTC", 0), ("GMT", 0), ("Z", 0)] {
            if self.0.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes())) {
                return Some(hours * 3600);
            }
        }
        let sign = if self.one_of(b"+-")? == b'-' { -1 } else { 1 };
        let (hours, minutes) = match self.number()? {
            (all, 4) => (all / 100, all % 100),
            (hours, 1..=2) => (hours, if self.one_of(b":").is_some() { self.number()?.0 } else { 0 }),
            _ => return None,
        };
        (hours <= 14 && minutes < 60).then(|| sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
    }
}

/// Finds a time in seconds since 1970, if it is in the future.
fn epoch(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter(|digits| digits.len() == 10)
        .filter_map(|digits| DateTime::from_timestamp(digits.parse().ok()?, 0))
        .find_map(|at| (at - now).to_std().ok())
}

/// Finds a span: `for 10 minutes`, `in 90s`, `1 hour`.
fn span(text: &str) -> Option<Duration> {
    let lower = text.to_ascii_lowercase();
    let mut rest = lower.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits_end =
            rest[start..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| start + length);
        let digits = &rest[start..digits_end];
        rest = &rest[digits_end..];
        let unit = rest.trim_start();
        let seconds = match unit.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default() {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            _ => continue,
        };
        if let Ok(count) = digits.parse::<u32>() {
            return Some(Duration::from_secs(u64::from(count) * seconds));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn seconds(text: &str, now: &str) -> u64 {
        wait(text, at(now)).as_secs() - MARGIN.as_secs()
    }

    #[test]
    fn a_moment_is_the_earliest_reading_that_is_ahead() {
        let text = "Query limit exceeded, token blocked until 2022-05-03 17:15:34";
        assert_eq!(seconds(text, "2022-05-03T15:05:34Z"), 600, "the clock of a summer in Warsaw");
        assert_eq!(seconds(text, "2022-05-03T16:05:34Z"), 600, "the clock of a winter there");
        assert_eq!(seconds(text, "2022-05-03T17:05:34Z"), 600, "UTC");
    }

    #[test]
    fn other_spellings_of_a_moment_are_read() {
        for text in [
            "blocked until 2022-05-03T17:15:34Z",
            "blocked until 2022-05-03 19:15:34 CEST.",
            "blocked until 2022-05-03 19:15:34.123+02:00, sorry",
            "token 12-345 blocked until 03.05.2022, 17:15:34 UTC",
            "until 3/5/2022 12:15:34 -0500",
            "until 1651598134",
            "try again in 600 seconds",
            "blocked for 10 minutes",
        ] {
            assert_eq!(seconds(text, "2022-05-03T17:05:34Z"), 600, "{text}");
        }
        assert_eq!(seconds("until 2022-05-03 17:15 UTC", "2022-05-03T17:05:00Z"), 600);
    }

    #[test]
    fn without_a_future_time_the_block_has_the_usual_length() {
        for text in [
            "",
            "token blocked",
            "token blocked until 2022-13-45 99:99:99",
            "token blocked until 2001-01-01 00:00:00",
            "99999999999999999999999-1-1 1:1:1",
        ] {
            assert_eq!(wait(text, at("2022-05-03T17:05:34Z")), USUAL, "{text}");
        }
    }

    #[test]
    fn no_wait_is_longer_than_a_day() {
        assert_eq!(wait("until 2099-01-01 00:00:00", at("2022-05-03T17:05:34Z")), LONGEST);
        assert_eq!(wait("for 4000000000 hours", at("2022-05-03T17:05:34Z")), LONGEST);
    }

    proptest! {
        #[test]
        fn whatever_the_text_the_wait_is_within_its_bounds(text in ".{0,80}", digits in "[0-9 :.\\-TZ+/a-z]{0,60}") {
            let now = at("2022-05-03T17:05:34Z");
            for text in [text, digits] {
                let wait = wait(&text, now);
                prop_assert!(wait >= MARGIN && wait <= LONGEST);
            }
        }

        #[test]
        fn every_moment_ahead_is_waited_for_and_no_longer(minutes in 1..1400_i64, zone in 0..3_usize) {
            let now = at("2022-05-03T17:05:34Z");
            let release = now + TimeDelta::minutes(minutes);
            let local = release + TimeDelta::hours(OFFSETS[zone]);
            let text = format!("Query limit exceeded, token blocked until {}", local.format("%Y-%m-%d %H:%M:%S"));
            let waited = wait(&text, now);
            // an early reading is early by whole hours
            let due = Duration::from_secs(60 * u64::try_from(minutes).unwrap()) + MARGIN;
            let early = due.checked_sub(waited);
            prop_assert!(early.is_some_and(|early| early.as_secs().is_multiple_of(3600)), "{waited:?} of {due:?}");
        }
    }
}
