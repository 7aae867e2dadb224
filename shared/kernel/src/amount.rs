//! Amounts of money: decimals of up to four places, kept exactly (`docs/reference/orders.md#order`).

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::input::{Reader, Rule, Schema, custom};

/// Ten thousandths in one.
const SCALE: i64 = 10_000;

/// The largest amount.
pub const LARGEST: i64 = 1_000_000;

/// An amount, in ten thousandths of its currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i64);

impl Amount {
    /// Reads a decimal as it is written in JSON: digits, at most four of them after the point.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let has_places = fraction.len() <= 4 || fraction.bytes().skip(4).all(|b| b == b'0');
        if whole.is_empty() || text.ends_with('.') || !is_digits(whole) || !is_digits(fraction) || !has_places
        {
            return None;
        }
        let places = format!("{fraction:0<4}").get(..4)?.parse::<i64>().ok()?;
        Some(Self(whole.parse::<i64>().ok()?.checked_mul(SCALE)?.checked_add(places)?))
    }
}

impl Display for Amount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (whole, places) = (self.0 / SCALE, self.0 % SCALE);
        if places == 0 {
            return write!(f, "{whole}");
        }
        f.write_str(format!("{whole}.{places:04}").trim_end_matches('0'))
    }
}

/// A JSON number.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % SCALE == 0 {
            return serializer.serialize_i64(self.0 / SCALE);
        }
        // the nearest double is written in the digits of the decimal: they are at most eleven
        serializer.serialize_f64(self.to_string().parse().map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        Self::parse(&number.to_string()).ok_or_else(|| serde::de::Error::custom("no amount"))
    }
}

/// A decimal in a string.
const DECIMAL: Schema = Schema::Text { length: 1..=16, pattern: Some(r"^[0-9]+(\.[0-9]+)?$"), format: None };

/// An amount of 0 to [`LARGEST`]: a number, or a decimal in a string, as some clients send it.
pub fn amount() -> impl Rule<Out = Amount> + Clone {
    custom(Schema::Either(vec![Schema::Number(0..=LARGEST), DECIMAL]), read)
}

#[expect(clippy::needless_pass_by_value, reason = "a rule takes its value")]
fn read(reader: &mut Reader, value: Value) -> Option<Amount> {
    let text = match &value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        other => {
            reader.wrong_type("a number", other);
            return None;
        }
    };
    if text.starts_with('-') && text.len() > 1 {
        reader.refuse("out_of_range", format!("must be between 0 and {LARGEST}"));
        return None;
    }
    // a whole number may be written as a float
    match Amount::parse(text.strip_suffix(".0").unwrap_or(&text)) {
        Some(amount) if amount.0 <= LARGEST * SCALE => Some(amount),
        Some(_) => {
            reader.refuse("out_of_range", format!("must be between 0 and {LARGEST}"));
            None
        }
        None if text.parse::<f64>().is_ok_and(|number| number > 1e6) => {
            reader.refuse("out_of_range", format!("must be between 0 and {LARGEST}"));
            None
        }
        None => {
            reader.refuse("invalid_amount", "must be a number with at most 4 decimals");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn take(value: Value) -> Result<Amount, String> {
        Reader::read(value, amount()).map_err(|problem| problem.violations()[0].code.to_string())
    }

    #[test]
    fn an_amount_is_a_number_or_a_decimal_in_a_string_of_four_places() {
        for (given, shown) in [
            (json!(0), "0"),
            (json!(12.5), "12.5"),
            (json!("12.50"), "12.5"),
            (json!("0.0001"), "0.0001"),
            (json!(1e6), "1000000"),
            (json!(100.0), "100"),
            (json!("007"), "7"),
        ] {
            assert_eq!(take(given.clone()).unwrap().to_string(), shown, "{given}");
        }
        for (given, code) in [
            (json!(-1), "out_of_range"),
            (json!(1_000_000.000_1), "out_of_range"),
            (json!(1e300), "out_of_range"),
            (json!("0.00001"), "invalid_amount"),
            (json!(""), "invalid_amount"),
            (json!("1,5"), "invalid_amount"),
            (json!("1."), "invalid_amount"),
            (json!("NaN"), "invalid_amount"),
            (json!(true), "wrong_type"),
        ] {
            assert_eq!(take(given.clone()).unwrap_err(), code, "{given}");
        }
    }

    proptest! {
        #[test]
        fn an_amount_survives_json(ten_thousandths in 0..=LARGEST * SCALE) {
            let amount = Amount(ten_thousandths);
            let json = serde_json::to_string(&amount).unwrap();
            prop_assert_eq!(&json, &amount.to_string());
            prop_assert_eq!(serde_json::from_str::<Amount>(&json).unwrap(), amount);
            prop_assert_eq!(take(json!(amount)).unwrap(), amount);
        }
    }
}
