//! The guard of a sync (`docs/reference/syncs.md#guard`): how much it may switch off, cancel or set to 0 before that is
//! [withheld](super::withheld).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kind::JobKind;
use longshore_kernel::input::{Object, Reader, Rule, Schema, custom, object};

/// Rows that a percentage always allows.
const FEW: i64 = 10;

/// The member of a header that has it.
pub(crate) const GUARD: &str = "guard";

/// What an integration setting has that says nothing of it.
pub(crate) const OF_NEW_SETTINGS: &str = "20%";

/// How much a sync may do of what destroys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Guard {
    /// Products that it may switch off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_deactivated: Option<Limit>,
    /// Orders that it may cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cancelled: Option<Limit>,
    /// Stocks that it may set from above 0 to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_zeroed: Option<Limit>,
}

/// A number of rows, or a percentage of what there is, in hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many rows.
    Rows(i64),
    /// So many hundredths of a percent.
    Share(i64),
}

impl Limit {
    /// How many rows it allows, of so many, where so many were done of late.
    #[must_use]
    pub fn allows(self, base: i64, of_late: i64) -> i64 {
        match self {
            Self::Rows(rows) => rows,
            Self::Share(share) => (base.saturating_mul(share) / 10_000).max(FEW) - of_late,
        }
    }

    /// Whether it depends on how much there is.
    #[must_use]
    pub fn is_share(self) -> bool {
        matches!(self, Self::Share(_))
    }

    /// Reads it: `500`, `"500"`, `"20%"`, `"0.5%"`.
    fn read(value: &Value) -> Option<Self> {
        if let Some(rows) = value.as_i64() {
            return (0..=i64::from(i32::MAX)).contains(&rows).then_some(Self::Rows(rows));
        }
        let text = value.as_str()?;
        let Some(percent) = text.strip_suffix('%') else {
            let rows = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))?;
            return (0..=i64::from(i32::MAX)).contains(&rows).then_some(Self::Rows(rows));
        };
        let (whole, part) = percent.split_once('.').unwrap_or((percent, "0"));
        let digits = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, 3) || !digits(part, 2) {
            return None;
        }
        let part: i64 = format!("{part:0<2}").parse().ok()?;
        let share = whole.parse::<i64>().ok()? * 100 + part;
        (share <= 10_000).then_some(Self::Share(share))
    }
}

impl Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Rows(rows) => serializer.serialize_i64(rows),
            Self::Share(share) if share % 100 == 0 => {
                serializer.collect_str(&format_args!("{}%", share / 100))
            }
            Self::Share(share) => {
                let text = format!("{}.{:02}", share / 100, share % 100);
                serializer.collect_str(&format_args!("{}%", text.trim_end_matches('0')))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::read(&value).ok_or_else(|| serde::de::Error::custom("not a limit of a guard"))
    }
}

/// A number of rows, or a percentage.
fn limit() -> impl Rule<Out = Limit> {
    let percentage =
        Schema::Text { length: 1..=10, pattern: Some(r"^\d{1,10}$|^\d{1,3}(\.\d{1,2})?%$"), format: None };
    let forms = Schema::Either(vec![Schema::Integer(0..=i64::from(i32::MAX)), percentage]);
    custom(forms, |reader: &mut Reader, value: Value| {
        let limit = Limit::read(&value);
        if limit.is_none() {
            reader.refuse(
                "invalid_guard",
                "must be a number of rows, or a percentage up to \"100%\", such as \"20%\"",
            );
        }
        limit
    })
}

/// A guard as a request gives it.
pub fn rule() -> impl Rule<Out = Guard> {
    object(|guard: &mut Object<'_>| {
        Some(Guard {
            max_deactivated: guard.optional("maxDeactivated", limit()),
            max_cancelled: guard.optional("maxCancelled", limit()),
            max_zeroed: guard.optional("maxZeroed", limit()),
        })
    })
}

impl Guard {
    /// That of an integration setting that says nothing of it.
    #[must_use]
    pub fn of_new_settings() -> Self {
        Self { max_deactivated: Limit::read(&OF_NEW_SETTINGS.into()), ..Self::default() }
    }

    /// What it says of jobs of a kind.
    #[must_use]
    pub fn of(&self, kind: JobKind) -> Option<Limit> {
        match kind {
            JobKind::ProductSync => self.max_deactivated,
            JobKind::StockSync => self.max_zeroed,
            JobKind::ExpeditionSync => self.max_cancelled,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_a_number_or_a_percentage() {
        let read = |value: Value| Limit::read(&value);
        for (value, limit) in [
            (json!(0), Limit::Rows(0)),
            (json!("500"), Limit::Rows(500)),
            (json!("20%"), Limit::Share(2_000)),
            (json!("0.5%"), Limit::Share(50)),
            (json!("0.05%"), Limit::Share(5)),
            (json!("100%"), Limit::Share(10_000)),
        ] {
            assert_eq!(read(value.clone()), Some(limit), "{value}");
            let written = serde_json::to_value(limit).unwrap();
            assert_eq!(read(written.clone()), Some(limit), "{written}");
        }
        for wrong in [
            json!(-1),
            json!(1.5),
            json!("-5%"),
            json!("101%"),
            json!("5 %"),
            json!("0.005%"),
            json!("%"),
            json!(""),
        ] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn a_percentage_allows_a_few_rows_and_counts_what_was_done_of_late() {
        let fifth = Limit::Share(2_000);
        assert_eq!(fifth.allows(9_400, 0), 1_880);
        assert_eq!(fifth.allows(9_400, 1_500), 380);
        assert_eq!(fifth.allows(30, 0), 10);
        assert_eq!(Limit::Rows(5).allows(9_400, 1_500), 5);
    }
}
