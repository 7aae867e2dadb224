//! JSON from outside. A duplicate key in one object is refused, not silently overwritten
//! (`docs/reference/records.md#strings-and-numbers`). A whole number within 64 bits is an integer, however it is written
//! (`225.0`, `2.25e2`): many programs cannot write it otherwise. Everything else is as in `serde_json`, including its depth
//! limit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::SliceRead;
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Deserializer, Map, Value};

use super::encoding::Foreign;
use super::problem::{MALFORMED_BODY, Problem};

/// Why a text was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The path of a duplicate key in one object.
    #[error("{0} {TWICE}")]
    Repeated(String),
    /// It has a float that is no number of JSON, as some programs write it; and where.
    #[error(
        "is not valid JSON: it has {0} {1}, which is no number; write a number, or null where the field may be null"
    )]
    NoNumber(&'static str, String),
    /// It is not UTF-8.
    #[error("is not valid UTF-8: {0}")]
    Foreign(Foreign),
    /// It is not JSON.
    #[error("is not valid JSON: {}", at_its_place(.0))]
    Malformed(serde_json::Error),
}

/// Floats that are no numbers of JSON.
const NO_NUMBERS: [&str; 2] = ["NaN", "Infinity"];

/// What to do where a text has several values: it was NDJSON, before its sender removed the ends of its lines.
pub const ONE_A_LINE: &str =
    "NDJSON has one value a line: curl removes the ends of lines with -d, and keeps them with --data-binary";

/// What is wrong, and where.
fn at_its_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    match said.strip_suffix(&format!(" at line {} column {}", error.line(), error.column())) {
        Some("trailing characters") => format!("another value follows {}; {ONE_A_LINE}", place_of(error)),
        Some(what) => format!("{what} {}", place_of(error)),
        None => said,
    }
}

/// Where it is. A text of one line is often a line of a file, which has another number there.
fn place_of(error: &serde_json::Error) -> String {
    match (error.line(), error.column()) {
        (1, column) => format!("at column {column}"),
        (line, column) => format!("at line {line} column {column}"),
    }
}

/// What is wrong with a repeated key, for programs.
pub const REPEATED_KEY: &str = "repeated_key";

const TWICE: &str = "must be given only once";

impl Unread {
    /// Why `serde_json` did not take a text.
    #[must_use]
    pub fn of(text: &[u8], error: serde_json::Error) -> Self {
        if let Some(foreign) = Foreign::of(text) {
            return Self::Foreign(foreign);
        }
        let line = text.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
        let rest = line.get(error.column().saturating_sub(1)..).unwrap_or_default();
        match NO_NUMBERS.iter().find(|word| rest.starts_with(word.as_bytes())) {
            Some(word) => Self::NoNumber(word, place_of(&error)),
            None => Self::Malformed(error),
        }
    }

    /// The same of the member of an object.
    #[must_use]
    pub fn within(self, name: &str) -> Self {
        match self {
            Self::Repeated(path) => Self::Repeated(joined(name, &path)),
            malformed => malformed,
        }
    }

    /// The message for the sender, who knows the text by that name.
    #[must_use]
    pub fn problem(self, text: &str) -> Problem {
        match self {
            Self::Repeated(path) => Problem::violation(path, REPEATED_KEY, TWICE),
            // serde_json's sentence names the line and column, and nothing of ours
            malformed => Problem::new(&MALFORMED_BODY, format!("{text} {malformed}")),
        }
    }
}

/// What some programs write before a text in UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// About how many bytes the value of a text has in memory, at most: a number of one digit needs a whole value, an object of
/// one member a node for eleven.
#[must_use]
pub fn weight(text: &[u8]) -> usize {
    let (mut place, mut weight) = (0, 0);
    while let Some(byte) = text.get(place) {
        place += 1;
        match byte {
            b'"' => {
                let end = string_end(text, place);
                weight += STRING + (end - place);
                place = end;
            }
            b'{' => weight += OBJECT,
            b'[' | b',' => weight += VALUE,
            b':' => weight += MEMBER,
            _ => {}
        }
    }
    weight
}

/// Bytes of a value, in an array that has grown to twice what it holds.
const VALUE: usize = 64;
/// Bytes that a string takes besides its text.
const STRING: usize = 24;
/// Bytes of the first node of an object …
const OBJECT: usize = 640;
/// … and of what each member takes of the next ones, half full.
const MEMBER: usize = 64;

/// Reads a text.
pub fn parse(text: &[u8]) -> Result<Value, Unread> {
    match with_whole_numbers(text) {
        Cow::Borrowed(text) => read(text),
        Cow::Owned(rewritten) => match read(&rewritten) {
            // the place in the message is that in the text as it came
            Err(Unread::Malformed(_) | Unread::NoNumber(..)) => read(text),
            read => read,
        },
    }
}

fn read(text: &[u8]) -> Result<Value, Unread> {
    let mut repeated = None;
    let mut deserializer = Deserializer::from_slice(text);
    let read = Strict(&mut repeated).deserialize(&mut deserializer);
    finish(text, read, deserializer, repeated)
}

/// The text with its whole numbers as integers are written: later, as floats, their digits would be lost.
fn with_whole_numbers(text: &[u8]) -> Cow<'_, [u8]> {
    let mut rewritten: Option<Vec<u8>> = None;
    let (mut place, mut copied) = (0, 0);
    while let Some(byte) = text.get(place) {
        match byte {
            b'"' => place = string_end(text, place + 1),
            b'-' | b'0'..=b'9' => {
                let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let length = text[place..].iter().take_while(|byte| is_digit(byte)).count();
                let end = place + length;
                if let Some(whole) = whole(&text[place..end]) {
                    let rewritten = rewritten.get_or_insert_with(|| Vec::with_capacity(text.len()));
                    rewritten.extend_from_slice(&text[copied..place]);
                    rewritten.extend_from_slice(whole.to_string().as_bytes());
                    copied = end;
                }
                place = end;
            }
            _ => place += 1,
        }
    }
    match rewritten {
        None => Cow::Borrowed(text),
        Some(mut rewritten) => {
            rewritten.extend_from_slice(&text[copied..]);
            Cow::Owned(rewritten)
        }
    }
}

/// Where a string ends that has begun.
fn string_end(text: &[u8], mut place: usize) -> usize {
    while let Some(byte) = text.get(place) {
        place += match byte {
            b'"' => return place + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    place
}

/// The text without white space between its values, as the service writes JSON; Postgres writes some.
#[must_use]
pub fn compact(text: &str) -> String {
    let (bytes, mut compact) = (text.as_bytes(), String::with_capacity(text.len()));
    let (mut place, mut copied) = (0, 0);
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'"' => place = string_end(bytes, place + 1),
            b' ' | b'\t' | b'\r' | b'\n' => {
                compact.push_str(text.get(copied..place).unwrap_or_default());
                place += 1;
                copied = place;
            }
            _ => place += 1,
        }
    }
    compact.push_str(text.get(copied..).unwrap_or_default());
    compact
}

/// The integer that a number of JSON is, decided by its digits: where it has a fraction or an exponent (or is `-0`), is
/// whole all the same, and fits into 64 bits.
fn whole(number: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(number).ok()?;
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (mantissa, None),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = integer.len() > 1 && integer.starts_with('0');
    if !is_digits(integer) || has_leading_zero || fraction.is_some_and(|digits| !is_digits(digits)) {
        return None;
    }
    let shift = match exponent {
        None => 0,
        Some(exponent) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if !is_digits(digits) {
                return None;
            }
            // one past all bounds moves the point out of sight either way
            let shift = digits.parse::<i64>().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
            if exponent.starts_with('-') { -shift } else { shift }
        }
    };
    if exponent.is_none() && fraction.is_none() && !(is_negative && integer == "0") {
        // it is written as an integer already
        return None;
    }
    let digits = format!("{integer}{}", fraction.unwrap_or_default());
    let significant = digits.trim_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    // 0.significant × 10^point
    let point = i64::try_from(integer.len()).ok()? - i64::try_from(zeros).ok()? + shift;
    let count = i64::try_from(significant.len()).ok()?;
    if count > point || point > LONGEST_INTEGER {
        return None;
    }
    let value = significant.parse::<i128>().ok()? * 10_i128.pow(u32::try_from(point - count).ok()?);
    let value = if is_negative { -value } else { value };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

/// Digits of the largest integer of 64 bits.
const LONGEST_INTEGER: i64 = 20;

/// Reads the members of an object, and leaves their values as they are.
pub fn members(text: &[u8]) -> Result<BTreeMap<String, &RawValue>, Unread> {
    let mut repeated = None;
    let mut deserializer = Deserializer::from_slice(text);
    let read = deserializer.deserialize_map(Members(&mut repeated));
    finish(text, read, deserializer, repeated)
}

fn finish<T>(
    text: &[u8],
    read: Result<T, serde_json::Error>,
    mut deserializer: Deserializer<SliceRead<'_>>,
    repeated: Option<String>,
) -> Result<T, Unread> {
    let read = read.map_err(|error| repeated.map_or_else(|| Unread::of(text, error), Unread::Repeated))?;
    deserializer.end().map_err(Unread::Malformed)?;
    Ok(read)
}

/// Makes a value as `serde_json` does, but of repeated keys, whose path it leaves behind.
struct Strict<'p>(&'p mut Option<String>);

impl Strict<'_> {
    /// The same for a value inside this one.
    fn inner(&mut self) -> Strict<'_> {
        Strict(self.0)
    }

    /// On the way out of a value that was refused: its path begins here.
    fn leave(&mut self, step: &str) {
        if let Some(path) = self.0 {
            *path = joined(step, path);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut given: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        loop {
            match given.next_element_seed(self.inner()) {
                Ok(Some(element)) => elements.push(element),
                Ok(None) => return Ok(Value::Array(elements)),
                Err(error) => {
                    self.leave(&format!("[{}]", elements.len()));
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut given: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = given.next_key::<String>()? {
            match members.entry(key) {
                Entry::Occupied(taken) => return Err(repeated(self.0, taken.key())),
                Entry::Vacant(free) => match given.next_value_seed(self.inner()) {
                    Ok(value) => {
                        free.insert(value);
                    }
                    Err(error) => {
                        self.leave(free.key());
                        return Err(error);
                    }
                },
            }
        }
        Ok(Value::Object(members))
    }
}

/// The members of one object.
struct Members<'p>(&'p mut Option<String>);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = BTreeMap<String, &'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(key) = given.next_key::<String>()? {
            if members.contains_key(&key) {
                return Err(repeated(self.0, &key));
            }
            members.insert(key, given.next_value()?);
        }
        Ok(members)
    }
}

fn repeated<E: Error>(path: &mut Option<String>, key: &str) -> E {
    *path = Some(key.to_owned());
    E::custom(TWICE)
}

fn joined(step: &str, path: &str) -> String {
    let dot = if path.starts_with('[') { "" } else { "." };
    format!("{step}{dot}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_repeated_key_is_named_by_its_path() {
        for (text, path) in [
            (r#"{"a":1,"a":1}"#, "a"),
            (r#"{"a":1,"\u0061":2}"#, "a"),
            (r#"{"a":{"b":[1,{"c":null,"d":[],"c":{}}]}}"#, "a.b[1].c"),
            (r#"[[{}],[{"a":0},{"a":0,"b":0,"a":0}]]"#, "[1][1].a"),
            (r#"{"":1,"":2}"#, ""),
        ] {
            assert_eq!(refusal(text), format!("{path} {TWICE}"), "{text}");
        }
        assert!(parse(br#"{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn all_else_is_as_serde_json_has_it() {
        let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
        for text in [
            r#"{"b":[null,true,false,"ü\ud83e\uded6\n","",{}],"a":{"c":[[]]}}"#,
            "[0,-1,18446744073709551615,-9223372036854775808,18446744073709551616,1.5,5e-324,0.1,1e20,1e300]",
            "[1.0, 2.]",
            "[1.0, 01.0]",
            "[1e3x]",
            "[1.0.0]",
            r#"{"a":1e3,"b":"#,
            " \"x\" ",
            "",
            "{",
            "[1,]",
            "{\"a\":1}x",
            "{1:2}",
            "1e400",
            "nan",
            "Nan",
            r#"["NaN", x]"#,
            r#""\ud800""#,
            &deep(127),
            &deep(128),
            &deep(10_000),
        ] {
            let expected = serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
            let read = parse(text.as_bytes()).map_err(|unread| match unread {
                Unread::Malformed(error) => error.to_string(),
                other => panic!("{other} in {text}"),
            });
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn a_compact_text_has_no_white_space_but_in_its_strings() {
        for (text, compacted) in [
            (
                r#"{"a" : 1, "b": [ "x : , y", "\" ü \\" ],"c":{ }}"#,
                r#"{"a":1,"b":["x : , y","\" ü \\"],"c":{}}"#,
            ),
            ("[\n 1,\r\n\t2]", "[1,2]"),
            ("{}", "{}"),
            (" ", ""),
        ] {
            assert_eq!(compact(text), compacted);
        }
    }

    #[test]
    fn a_float_that_is_no_number_is_named() {
        for (text, said) in [
            (r#"{"a":NaN}"#, "NaN at column 6"),
            (r#"{"b":1.0,"a":-Infinity}"#, "Infinity at column 15"),
            ("[1,\n  Infinity]", "Infinity at line 2 column 3"),
        ] {
            let said = format!("is not valid JSON: it has {said}, which is no number; ");
            assert!(refusal(text).starts_with(&said), "{}", refusal(text));
        }
    }

    #[test]
    fn a_whole_number_is_an_integer_by_its_digits() {
        for (text, expected) in [
            ("225.0", Some(225)),
            ("2.25e2", Some(225)),
            ("1E3", Some(1_000)),
            ("1e+03", Some(1_000)),
            ("100e-2", Some(1)),
            ("-0", Some(0)),
            ("-0.0", Some(0)),
            ("0e999999999999999999999", Some(0)),
            ("0.000e-400", Some(0)),
            ("0.00225e5", Some(225)),
            ("-12.50e1", Some(-125)),
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("18446744073709551615.0", Some(i128::from(u64::MAX))),
            ("-9223372036854775808.0", Some(i128::from(i64::MIN))),
            ("-9223372036854775809.0", None),
            ("18446744073709551616.0", None),
            ("1e400", None),
            ("1e99999999999999999999", None),
            ("1e-1", None),
            ("1e-99999999999999999999", None),
            ("225.00000000000000000001", None),
            ("9007199254740992.5", None),
            // integers already, and no numbers at all
            ("225", None),
            ("0", None),
            ("-1", None),
            ("1.", None),
            (".5", None),
            ("01.0", None),
            ("1e", None),
            ("1e+", None),
            ("--1.0", None),
            ("1.0.0", None),
            ("1.0e1e1", None),
            ("-", None),
            ("+1.0", None),
        ] {
            assert_eq!(whole(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn only_numbers_are_rewritten_and_only_whole_ones() {
        let text = br#"{"a":1.0,"b 2.0":"3.0 \" 4.0","c":[5.50e1,-6.5,{"d":1E3}],"e":7}"#;
        let read = parse(text).unwrap();
        assert_eq!(read.to_string(), r#"{"a":1,"b 2.0":"3.0 \" 4.0","c":[55,-6.5,{"d":1000}],"e":7}"#);
        let malformed = parse(b"[1.0000, 1e3, x]").unwrap_err().to_string();
        assert!(malformed.ends_with("at column 15"), "{malformed}");
    }

    #[test]
    fn members_are_left_as_they_are_and_stand_once() {
        let read = members(br#" {"a": [1, {"x":0,"x":0}], "b":1.50} "#).unwrap();
        let read: Vec<_> = read.iter().map(|(name, raw)| (name.as_str(), raw.get())).collect();
        assert_eq!(read, [("a", r#"[1, {"x":0,"x":0}]"#), ("b", "1.50")]);
        assert_eq!(members(br#"{"a":1,"b":2,"a":3}"#).unwrap_err().to_string(), format!("a {TWICE}"));
        for text in ["[]", "1", "", "{\"a\":1} 2"] {
            assert!(matches!(members(text.as_bytes()), Err(Unread::Malformed(_))), "{text}");
        }
        let inner = parse(read[0].1.as_bytes()).unwrap_err();
        assert_eq!(inner.within("a").problem("").violations()[0].property_path, "a[1].x");
    }
}
