//! JSON from outside. A key that stands twice in one object is refused, not silently overwritten (decisions, section 1);
//! all else is as `serde_json` has it, its depth limit too.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::SliceRead;
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Deserializer, Map, Value};

use super::problem::{MALFORMED_BODY, Problem};

/// Why a text was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// A key stands twice in one object; its path.
    #[error("{0} {TWICE}")]
    Repeated(String),
    /// It is not JSON.
    #[error("is not valid JSON: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// What is wrong with a repeated key, for programs.
pub const REPEATED_KEY: &str = "repeated_key";

const TWICE: &str = "must not be given twice";

impl Unread {
    /// The same of the member of an object.
    #[must_use]
    pub fn within(self, name: &str) -> Self {
        match self {
            Self::Repeated(path) => Self::Repeated(joined(name, &path)),
            malformed @ Self::Malformed(_) => malformed,
        }
    }

    /// What the sender is told, who knows the text by that name.
    #[must_use]
    pub fn problem(self, text: &str) -> Problem {
        match self {
            Self::Repeated(path) => Problem::violation(path, REPEATED_KEY, TWICE),
            // serde_json's sentence names the line and column, and nothing of ours
            malformed @ Self::Malformed(_) => Problem::new(&MALFORMED_BODY, format!("{text} {malformed}")),
        }
    }
}

/// Reads a text.
pub fn parse(text: &[u8]) -> Result<Value, Unread> {
    let mut repeated = None;
    let mut deserializer = Deserializer::from_slice(text);
    let read = Strict(&mut repeated).deserialize(&mut deserializer);
    finish(read, deserializer, repeated)
}

/// Reads the members of an object, and leaves their values as they are.
pub fn members(text: &[u8]) -> Result<BTreeMap<String, &RawValue>, Unread> {
    let mut repeated = None;
    let mut deserializer = Deserializer::from_slice(text);
    let read = deserializer.deserialize_map(Members(&mut repeated));
    finish(read, deserializer, repeated)
}

fn finish<T>(
    read: Result<T, serde_json::Error>,
    mut deserializer: Deserializer<SliceRead<'_>>,
    repeated: Option<String>,
) -> Result<T, Unread> {
    let read = read.map_err(|error| repeated.map_or(Unread::Malformed(error), Unread::Repeated))?;
    deserializer.end()?;
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
            "[0,-1,18446744073709551615,-9223372036854775808,18446744073709551616,1.5,-0,1e3,5e-324,0.1]",
            " \"x\" ",
            "",
            "{",
            "[1,]",
            "{\"a\":1}x",
            "{1:2}",
            "1e400",
            "NaN",
            r#""\ud800""#,
            &deep(127),
            &deep(128),
            &deep(10_000),
        ] {
            let expected = serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
            let read = parse(text.as_bytes()).map_err(|unread| match unread {
                Unread::Malformed(error) => error.to_string(),
                Unread::Repeated(path) => panic!("{path} in {text}"),
            });
            assert_eq!(read, expected, "{text}");
        }
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
