//! Decimal numbers by their digits: 0.1 kg is exactly 100 g, unlike with floats.

/// Larger measures are refused by the rules of a product anyway.
const LARGEST: i64 = 1_000_000_000_000;

/// A measure in whole smaller units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// The nearest whole number; a half is rounded away from zero.
    pub value: i64,
    /// Whether it is not exactly what was said.
    pub rounded: bool,
}

/// Reads a decimal number, times ten to the power of `power`. A comma counts as a point; exponents are accepted.
#[must_use]
pub fn scale(text: &str, power: i32) -> Option<Scaled> {
    let text = text.trim();
    let (negative, text) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once(['.', ',']).unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    // how many of the digits are before the point after it has moved
    let before = i64::try_from(whole.len()).ok()? + i64::from(exponent) + i64::from(power);
    let mut value = 0_i64;
    for at in 0..before {
        let digit = usize::try_from(at).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
        value = (value * 10 + i64::from(digit)).min(LARGEST);
        // further zeros change nothing
        if value == LARGEST || (value == 0 && at >= i64::try_from(digits.len()).ok()?) {
            break;
        }
    }
    let after = usize::try_from(before.max(0)).ok()?.min(digits.len());
    let rounded = digits[after..].iter().any(|digit| *digit != 0);
    // a point that moved past the first digit has zeros after it
    if before >= 0 && digits.get(after).is_some_and(|digit| *digit >= 5) {
        value += 1;
    }
    Some(Scaled { value: if negative { -value } else { value }, rounded })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scaled(text: &str, power: i32) -> (i64, bool) {
        let scaled = scale(text, power).unwrap();
        (scaled.value, scaled.rounded)
    }

    #[test]
    fn kilograms_become_grams_by_their_digits() {
        for (text, grams) in [
            ("0.1", 100),
            ("0.29", 290),
            ("1.005", 1005),
            ("0.001", 1),
            ("12", 12_000),
            ("1e-3", 1),
            ("1.5E1", 15_000),
            ("0,25", 250),
            (".5", 500),
            ("7.", 7000),
            ("-0.5", -500),
            ("0.000", 0),
        ] {
            assert_eq!(scaled(text, 3), (grams, false), "{text}");
        }
    }

    #[test]
    fn a_fraction_of_a_gram_is_rounded_with_a_notice() {
        for (text, grams) in
            [("0.0005", 1), ("0.0004", 0), ("0.00049999", 0), ("1.0015", 1002), ("1e-9", 0), ("-0.0005", -1)]
        {
            assert_eq!(scaled(text, 3), (grams, true), "{text}");
        }
        assert_eq!(scaled("12.34", 1), (123, true));
    }

    #[test]
    fn text_that_is_not_a_number_gives_none() {
        for text in ["", " ", "-", "1.2.3", "1 kg", "0x10", "NaN", "e3", "1e", "1e99999999999", "١"] {
            assert_eq!(scale(text, 3), None, "{text}");
        }
    }

    #[test]
    fn a_number_without_end_is_large_and_costs_nothing() {
        assert_eq!(scale("1e2000000000", 3).unwrap().value, LARGEST);
        assert_eq!(scale("0e2000000000", 3).unwrap().value, 0);
        assert_eq!(scaled("1e-2000000000", 3), (0, true));
    }

    proptest! {
        #[test]
        fn thousandths_come_out_as_they_went_in(grams in 0..1_000_000_000_i64) {
            let text = format!("{}.{:03}", grams / 1000, grams % 1000);
            prop_assert_eq!(scaled(&text, 3), (grams, false));
        }

        #[test]
        fn no_text_is_a_fault(text in ".{0,40}", power in 0..4) {
            let _ = scale(&text, power);
        }
    }
}
