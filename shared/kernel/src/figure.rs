//! Figures, durations and moments as people read them.

use std::iter::Sum;

use chrono::{DateTime, Utc};

/// A number with its thousands apart.
#[must_use]
pub fn number(number: impl Into<i64>) -> String {
    let number = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of something.
#[must_use]
pub fn counted(count: i64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// A count that stops at a bound.
#[must_use]
pub fn up_to(count: i64, bound: i64) -> String {
    AtLeast::up_to(count, bound).in_words()
}

/// A count that may stop before the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtLeast {
    /// As many were counted.
    pub count: i64,
    /// There may be more.
    pub is_more: bool,
}

impl AtLeast {
    /// A count that stopped at a bound.
    #[must_use]
    pub fn up_to(count: i64, bound: i64) -> Self {
        Self { count: count.min(bound), is_more: count >= bound }
    }

    /// For people: `12`, or `12+`.
    #[must_use]
    pub fn in_words(self) -> String {
        format!("{}{}", number(self.count), if self.is_more { "+" } else { "" })
    }
}

impl Sum for AtLeast {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |all, more| Self {
            count: all.count + more.count,
            is_more: all.is_more || more.is_more,
        })
    }
}

/// A moment, to the second.
#[must_use]
pub fn stamp(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A number of seconds in suitable precision.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    milliseconds(seconds * 1e3)
}

/// A number of milliseconds in suitable precision. What began after the clock was read has lasted no time.
#[must_use]
pub fn milliseconds(ms: f64) -> String {
    let ms = ms.max(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "it is bounded before")]
    let whole = (ms / 1e3).min(1e12) as i64;
    match ms {
        ..999.5 => format!("{ms:.0} ms"),
        999.5..10_000.0 => format!("{:.1} s", ms / 1e3),
        _ => whole_seconds(whole),
    }
}

/// Whole seconds, as seconds, minutes, hours or days.
#[must_use]
pub fn whole_seconds(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..5_400 => format!("{} min", (seconds + 30) / 60),
        5_400..172_800 => format!("{} h", (seconds + 1_800) / 3_600),
        _ => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_suitable_precision() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567, -4_200].map(number),
            ["0", "999", "1,000", "1,234,567", "-4,200"]
        );
        assert_eq!(
            [-290.0, 0.4, 12.0, 1_500.0, 61_000.0].map(milliseconds),
            ["0 ms", "0 ms", "12 ms", "1.5 s", "1 min"]
        );
        assert_eq!([5, 59, 90, 7_200, 200_000].map(whole_seconds), ["5 s", "59 s", "2 min", "2 h", "2 d"]);
        assert_eq!(up_to(999, 1_000), "999");
        assert_eq!(up_to(1_000, 1_000), "1,000+");
        assert_eq!(up_to(7_412, 1_000), "1,000+");
        let [some, all] = [true, false].map(|is_more| AtLeast { count: 12, is_more });
        assert_eq!(some.in_words(), "12+");
        assert_eq!([all, some].into_iter().sum::<AtLeast>().in_words(), "24+");
        assert_eq!([all, all].into_iter().sum::<AtLeast>().in_words(), "24");
    }
}
