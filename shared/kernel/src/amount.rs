//! Amounts of money: decimals of up to four places, kept exactly (`docs/reference/orders.md#order`).

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use crate::input::{Reader, Rule, Schema, custom};

/// Ten thousandths in one.
const SCALE: i64 = 10_000;

/// The largest amount.
pub const LARGEST: i64 = 1_000_000;

/// Digits after the point with which decimals are compared: all of those that a double near an amount has.
const PLACES: usize = 30;
/// One, in units of the last of them.
const ONE: i128 = 10_i128.pow(30);
/// A ten thousandth, in units of the last of them.
const UNIT: i128 = 10_i128.pow(26);
/// A number that differs by less from an amount is that amount: a thousand-millionth …
const CLOSE: u128 = 10_u128.pow(21);
/// … or this part of it, where that is more.
const RELATIVE: u128 = 10_u128.pow(12);

/// An amount, in ten thousandths of its currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i64);

impl Amount {
    /// Reads a decimal as a string has it: digits, at most four of them after the point.
    fn of_text(text: &str) -> Option<Self> {
        let (nearest, exact) = Self::nearest(text)?;
        (nearest.exact() == Some(exact)).then_some(nearest)
    }

    /// Reads a number of JSON. Programs that add up floats send `22.200000000000003` for 22.2, so it is the nearest amount if
    /// it is that close.
    #[must_use]
    pub fn of_number(number: &Number) -> Option<Self> {
        // the shortest digits that are this number, without an exponent
        let text = number.as_f64()?.to_string();
        let (nearest, exact) = Self::nearest(text.strip_prefix('-').unwrap_or(&text))?;
        let difference = nearest.exact()?.abs_diff(exact);
        let is_close = difference < CLOSE || difference.checked_mul(RELATIVE)? < exact.unsigned_abs();
        // a sum that should have come to nothing may be a little less
        let is_zero = nearest == Self::default();
        (difference == 0 || is_close).then_some(nearest).filter(|_| is_zero || !text.starts_with('-'))
    }

    /// The amount that is nearest to a decimal without a sign, and that decimal in units of the last of [`PLACES`].
    fn nearest(text: &str) -> Option<(Self, i128)> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        // what is behind them is less than any double that is close to an amount
        let (places, rest) = fraction.split_at_checked(PLACES).unwrap_or((fraction, ""));
        let places = format!("{places:0<PLACES$}").parse::<i128>().ok()?;
        let exact = whole.parse::<i128>().ok()?.checked_mul(ONE)?.checked_add(places)?;
        let exact = exact.checked_add(i128::from(rest.bytes().any(|b| b != b'0')))?;
        let nearest = exact.checked_add(UNIT / 2)? / UNIT;
        Some((Self(i64::try_from(nearest).ok()?), exact))
    }

    /// The same in units of the last of [`PLACES`].
    fn exact(self) -> Option<i128> {
        i128::from(self.0).checked_mul(UNIT)
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
        let number = Number::deserialize(deserializer)?;
        Self::of_number(&number).ok_or_else(|| serde::de::Error::custom("no amount"))
    }
}

/// A decimal in a string.
const DECIMAL: Schema = Schema::Text { length: 1..=16, pattern: Some(r"^[0-9]+(\.[0-9]+)?$"), format: None };

/// An amount of 0 to [`LARGEST`]: a number, or a decimal in a string, as some clients send it. A string is exact.
pub fn amount() -> impl Rule<Out = Amount> + Clone {
    custom(Schema::Either(vec![Schema::Number(0.0..=1e6), DECIMAL]), read)
}

#[expect(clippy::needless_pass_by_value, reason = "a rule takes its value")]
fn read(reader: &mut Reader, value: Value) -> Option<Amount> {
    let (amount, float) = match &value {
        Value::Number(number) => (Amount::of_number(number), number.as_f64()),
        Value::String(text) => {
            let float = text.parse::<f64>().ok().filter(|float| !float.is_nan());
            (Amount::of_text(text), float)
        }
        other => {
            reader.wrong_type("a number", other);
            return None;
        }
    };
    match amount {
        Some(amount) if amount.0 <= LARGEST * SCALE => return amount.into(),
        None if float.is_none_or(|float| (0.0..=1e6).contains(&float) && !float.is_sign_negative()) => {
            reader.refuse("invalid_amount", "must be a number with at most 4 decimals");
        }
        _ => reader.refuse("out_of_range", format!("must be between 0 and {LARGEST}")),
    }
    None
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

    #[test]
    fn a_number_that_is_a_sum_of_floats_is_the_amount_that_it_is_close_to() {
        for (given, shown) in [
            ("22.200000000000003", "22.2"),
            ("59.980000000000004", "59.98"),
            ("0.30000000000000004", "0.3"),
            ("199.99999999999997", "200"),
            ("5.551115123125783e-17", "0"),
            ("-5.551115123125783e-17", "0"),
            ("-0.0", "0"),
            ("0.00009999999999999999", "0.0001"),
            ("9.999999999999999e-10", "0"),
            ("22.2000000009", "22.2"),
            ("1000000.0000009", "1000000"),
            ("999999.9999999999", "1000000"),
            ("123456.78900000001", "123456.789"),
        ] {
            let number: Value = serde_json::from_str(given).unwrap();
            assert_eq!(take(number).unwrap().to_string(), shown, "{given}");
        }
        assert_eq!(take(json!("22.200000000000003")).unwrap_err(), "invalid_amount");
        assert_eq!(take(json!("1000000.0000009")).unwrap_err(), "out_of_range");
        assert_eq!(take(json!("9".repeat(400))).unwrap_err(), "out_of_range");
        for (given, code) in [
            ("1e-9", "invalid_amount"),
            ("22.200000001", "invalid_amount"),
            ("22.199999999", "invalid_amount"),
            ("22.20005", "invalid_amount"),
            ("-1e-9", "out_of_range"),
            ("-0.0001", "out_of_range"),
            ("1000000.000002", "out_of_range"),
        ] {
            let number: Value = serde_json::from_str(given).unwrap();
            assert_eq!(take(number).unwrap_err(), code, "{given}");
        }
    }

    proptest! {
        #[test]
        fn amounts_that_are_added_up_as_floats_come_to_their_sum(
            parts in prop::collection::vec(0..=10_000_000_i64, 1..10)
        ) {
            #[expect(clippy::cast_precision_loss, reason = "they are small")]
            let sum: f64 = parts.iter().map(|part| *part as f64 / 1e4).sum();
            prop_assert_eq!(take(json!(sum)).unwrap(), Amount(parts.iter().sum()));
        }

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
