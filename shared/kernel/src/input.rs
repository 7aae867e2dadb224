//! Reads input: from JSON to typed values, with all violations at once (`docs/reference/errors.md#violations`).
//!
//! A [`Reader`] walks a [`Value`] and keeps the path; an [`Object`] returns its members and, at its end, refuses unknown ones; a
//! [`Rule`] turns one value into a typed one or reports a violation, and says which values it accepts (its [`Schema`]).
//!
//! ```
//! use longshore_kernel::input::{self, Reader, Rule as _};
//!
//! let rule = input::object(|object| object.required("name", input::text(2..=255)));
//! println!("{:?}", rule.schema());
//!
//! let body = serde_json::json!({"name": "x", "colour": "red"});
//! let problem = Reader::read(body, rule).unwrap_err();
//! let paths: Vec<_> = problem.violations().iter().map(|v| v.property_path.as_str()).collect();
//! assert_eq!(paths, ["name", "colour"]);
//! ```
//!
//! # Bodies that refer to records
//!
//! A use-case that looks up what a body refers to reads it by [`Reader::draft`], and the arrays of its references by [`drafts()`]:
//! what the rules refuse is blank, the rest is looked up, and [`with_found`](super::problem::with_found) puts both together.
//! So a malformed item does not hide that another one names an unknown product.
//!
//! # One line a member
//!
//! The schema of an object comes from the function that reads it: [`Object::schema`] runs that function on an object that
//! notes what it is asked for, with the rule of each member. So such a function asks for every member, and
//! where one member decides about others, a [`custom`] rule has a schema of its own.

mod object;
mod rule;
mod schema;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::Hash;

use serde_json::Value;

pub use self::object::{Given, Object, closest};
pub use self::rule::{
    Rule, array, boolean, custom, date, drafts, id, int32, integer, number, object, one_of, or_null, secret,
    text, text_like, timestamp, url,
};
pub use self::schema::{Member, Schema};
use super::problem::{Problem, Violation};

/// The place of a value that is being read.
#[derive(Clone, Debug)]
enum Step {
    Name(String),
    Static(&'static str),
    Index(usize),
}

/// Walks a value and collects what is wrong with it.
#[derive(Debug, Default)]
pub struct Reader {
    path: Vec<Step>,
    violations: Vec<Violation>,
    /// How many rules of secrets are being applied.
    secrets: usize,
    /// Unknown names that were compared with the known ones.
    compared: usize,
}

impl Reader {
    /// Reads a whole body: `Ok` only when nothing was wrong.
    pub fn read<R: Rule>(value: Value, rule: R) -> Result<R::Out, Problem> {
        let mut reader = Self::default();
        match rule.apply(&mut reader, value) {
            Some(value) if reader.violations.is_empty() => Ok(value),
            _ => {
                if reader.violations.is_empty() {
                    reader.refuse("invalid", "is invalid");
                }
                Err(Problem::invalid(reader.violations))
            }
        }
    }

    /// Reads a whole body that a use-case judges further: what it comes to, and what is wrong with it. What a rule refuses is
    /// blank: absent, nil or empty. So a use-case looks up the references beside it, and reports all together:
    /// [`with_found`](super::problem::with_found).
    pub fn draft<R: Rule<Out: Default>>(value: Value, rule: R) -> (R::Out, Vec<Violation>) {
        let mut reader = Self::default();
        let read = rule.apply(&mut reader, value);
        if read.is_none() && reader.violations.is_empty() {
            reader.refuse("invalid", "is invalid");
        }
        (read.unwrap_or_default(), reader.violations)
    }

    /// What is wrong so far.
    #[must_use]
    pub fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// Notes what is wrong with the value that is being read.
    pub fn refuse(&mut self, code: &'static str, message: impl Into<String>) {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Index(i) => {
                    let _ = write!(path, "[{i}]");
                }
                Step::Name(name) => push_name(&mut path, name),
                Step::Static(name) => push_name(&mut path, name),
            }
        }
        let is_secret = self.secrets > 0;
        self.violations.push(Violation { is_secret, ..Violation::new(path, code, message) });
    }

    /// Refuses a name that is not among those that are known: perhaps one of them was meant, otherwise there may be an advice. Only
    /// the first such names are compared, since a body may have any number.
    pub fn refuse_unknown<'k>(&mut self, name: &str, known: impl Iterator<Item = &'k str>, advice: &str) {
        const COMPARED: usize = 10;
        let unknown = "is not a known field";
        self.compared += 1;
        match (self.compared <= COMPARED).then(|| closest(name, known)).flatten() {
            Some(meant) => self.refuse("unknown_field", format!("{unknown}; did you mean {meant}?")),
            None => self.refuse("unknown_field", format!("{unknown}{advice}")),
        }
    }

    /// Notes what is wrong with a member of the object that is being read.
    pub fn refuse_member(&mut self, name: &'static str, code: &'static str, message: impl Into<String>) {
        self.path.push(Step::Static(name));
        self.refuse(code, message);
        self.path.pop();
    }

    /// Refuses the elements of an array whose member equals that of an earlier one. `keys` are those members, in the order of
    /// the array; one that is blank was refused already.
    pub fn differ<K: Default + Eq + Hash>(&mut self, member: &'static str, keys: impl Iterator<Item = K>) {
        let (mut seen, blank) = (HashSet::new(), K::default());
        for (index, key) in keys.enumerate() {
            if key != blank && !seen.insert(key) {
                self.element(index, |reader| {
                    reader.refuse_member(member, "duplicate", "is already in the array");
                });
            }
        }
    }

    /// Reads an element of an array at its position.
    pub fn element<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(Step::Index(index));
        let read = read(self);
        self.path.pop();
        read
    }

    /// Reads a member whose name the caller chose.
    pub fn member<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(Step::Name(name.to_owned()));
        let read = read(self);
        self.path.pop();
        read
    }

    /// Opens an object.
    pub fn object(&mut self, value: Value) -> Option<Object<'_>> {
        match value {
            Value::Object(members) => Some(Object::new(self, members)),
            other => {
                self.wrong_type("an object", &other);
                None
            }
        }
    }

    /// Says that a value of another type was expected.
    pub fn wrong_type(&mut self, expected: &str, found: &Value) {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.refuse("wrong_type", format!("must be {expected}, not {found}"));
    }
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::json;
    use super::*;

    fn check<R: Rule>(rule: R, value: Value) -> Result<R::Out, String> {
        Reader::read(value, rule)
            .map_err(|p| format!("{} {}", p.violations()[0].code, p.violations()[0].message))
    }

    #[test]
    fn text_counts_characters_not_bytes_on_both_sides_of_each_bound() {
        assert!(check(text(2..=3), json!("a")).is_err());
        assert_eq!(check(text(2..=3), json!("ab")).unwrap(), "ab");
        assert_eq!(check(text(2..=3), json!("äöü")).unwrap(), "äöü");
        assert!(check(text(2..=3), json!("ä")).is_err());
        assert!(check(text(2..=3), json!("abcd")).is_err());
        assert!(check(text(1..=255), json!("")).is_err());
        assert!(check(text(1..=255), json!("ü".repeat(255))).is_ok());
        assert!(check(text(1..=255), json!("ü".repeat(256))).is_err());
        assert!(check(text(0..=255), json!("")).is_ok());
    }

    #[test]
    fn the_null_character_is_refused() {
        assert!(check(text(0..=255), json!("a\0b")).unwrap_err().starts_with("invalid_character"));
    }

    #[test]
    fn integers_are_exact() {
        assert_eq!(check(int32(0..=10), json!(10)).unwrap(), 10);
        assert!(check(int32(0..=10), json!(11)).unwrap_err().contains("between 0 and 10"));
        assert!(check(int32(0..=10), json!(-1)).is_err());
        assert!(check(int32(0..=10), json!(1.5)).is_err());
        assert!(check(int32(0..=10), json!("1")).is_err());
        assert!(check(integer(0..=10), json!(u64::MAX)).unwrap_err().starts_with("out_of_range"));
    }

    #[test]
    fn a_whole_number_is_an_integer_and_one_beyond_64_bits_is_refused_with_the_bounds() {
        let judged = |bounds, text: &str| check(integer(bounds), json::parse(text.as_bytes()).unwrap());
        for (whole, expected) in [("1.0", 1), ("1e1", 10), ("-0", 0), ("2.25e0002", 225), ("-10.50e+1", -105)]
        {
            assert_eq!(judged(-105..=1_000, whole), Ok(expected), "{whole}");
        }
        assert_eq!(judged(0..=i64::MAX, "9007199254740993.0"), Ok(9_007_199_254_740_993));
        for past in [
            "9223372036854775808",
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "1e300",
        ] {
            assert_eq!(judged(0..=10, past).unwrap_err(), "out_of_range must be between 0 and 10", "{past}");
            assert!(
                judged(i64::MIN..=i64::MAX, past).unwrap_err().ends_with(" and 9223372036854775807"),
                "{past}"
            );
        }
        for float in ["1.5", "1e-1", "-0.1", "9007199254740993.5", "1.00000000000000000000000001"] {
            assert!(judged(0..=10, float).unwrap_err().ends_with("without a fraction"), "{float}");
        }
        assert_eq!(judged(i64::MIN..=i64::MAX, "-9223372036854775808").unwrap(), i64::MIN);
    }

    #[test]
    fn paths_name_members_and_elements() {
        let item = object(|item| item.required("quantity", int32(1..=5)));
        let body = object(|object| object.required("items", array(1..=10, item)));
        let problem = Reader::read(json!({"items": [{"quantity": 1}, {"quantity": 0}]}), body).unwrap_err();
        assert_eq!(problem.violations()[0].property_path, "items[1].quantity");
    }

    #[test]
    fn a_refused_element_of_a_draft_is_blank_and_keeps_its_place() {
        let own = uuid::Uuid::from_u128(7);
        let body = || {
            object(|object| {
                let eshops = object.required("eshops", drafts(1..=3, id()));
                let name = object.required("name", text(1..=9));
                Some((eshops.unwrap_or_default(), name.unwrap_or_default()))
            })
        };
        let paths = |violations: &[Violation]| -> Vec<String> {
            violations.iter().map(|violation| violation.property_path.clone()).collect()
        };
        let (read, refused) = Reader::draft(json!({"eshops": ["x", own], "name": 1}), body());
        assert_eq!(read, (vec![uuid::Uuid::nil(), own], String::new()));
        assert_eq!(paths(&refused), ["eshops[0]", "name"]);
        let (read, refused) = Reader::draft(json!({"eshops": [], "name": "mug"}), body());
        assert_eq!((read.1.as_str(), paths(&refused)), ("mug", vec!["eshops".to_owned()]));
        assert_eq!(paths(&Reader::draft(json!([]), body()).1), [""]);
        assert!(Reader::draft(json!({"eshops": [own], "name": "mug"}), body()).1.is_empty());
        assert_eq!(drafts(1..=3, id()).schema(), array(1..=3, id()).schema());
    }

    #[test]
    fn only_the_first_unknown_names_are_compared() {
        let rule = object(|object: &mut Object<'_>| object.required("orderedQuantity", int32(0..=1)));
        let mut body = serde_json::Map::new();
        for n in 0..50_000 {
            body.insert(format!("orderedQuantity{n:04x}"), json!(n));
        }
        let refused = Reader::draft(Value::Object(body), rule).1;
        assert_eq!(refused.len(), 50_001);
        assert_eq!(refused.iter().filter(|violation| violation.message.contains("did you mean")).count(), 10);
    }

    #[test]
    fn equal_members_are_refused_and_blank_ones_are_not_compared() {
        let mut reader = Reader::default();
        reader.differ("name", ["", "a", "", "b", "a"].into_iter());
        let violations = reader.into_violations();
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].to_string(), "[4].name is already in the array");
    }

    #[test]
    fn absent_and_null_are_distinguished() {
        let given = |value: Value| {
            Reader::read(value, object(|object| Some(object.nullable("x", boolean())))).unwrap()
        };
        assert_eq!(given(json!({})), Given::Absent);
        assert_eq!(given(json!({"x": null})), Given::Null);
        assert_eq!(given(json!({"x": true})), Given::Value(true));
    }

    #[test]
    fn a_similar_name_is_suggested() {
        let known = ["productSku", "internalSku", "name", "weight", "countryOfOrigin", "id"];
        let meant = |name: &str| closest(name, known.into_iter());
        assert_eq!(meant("sku"), Some("productSku"));
        assert_eq!(meant("product_sku"), Some("productSku"));
        assert_eq!(meant("wieght"), Some("weight"));
        assert_eq!(meant("Name"), Some("name"));
        assert_eq!(meant("country"), Some("countryOfOrigin"));
        for unlike in ["colour", "x", "volume", "", &"name".repeat(100)] {
            assert_eq!(meant(unlike), None, "{unlike}");
        }
    }

    #[test]
    fn a_refused_secret_is_masked_and_so_is_a_misspelt_one() {
        let body = json!({"login": 1, "password": "x", "pasword": "hush"});
        let rule = object(|object| {
            object.holds_secrets();
            object.required("login", text(1..=9));
            object.required("password", secret(text(8..=9)));
            Some(())
        });
        let problem = Reader::read(body, rule).unwrap_err();
        let found: Vec<_> =
            problem.violations().iter().map(|v| (v.property_path.as_str(), v.is_secret)).collect();
        assert_eq!(found, [("login", false), ("password", true), ("pasword", true)]);
    }

    #[test]
    fn the_schema_of_an_object_is_what_its_reader_asks_for() {
        let rule = object(|object| {
            object.required("name", secret(text(2..=255)));
            object.optional_or("count", int32(0..=9), 3);
            object.optional_with("active", boolean(), None);
            object.nullable("parts", array(1..=2, super::object(|part| part.required_if(false, "id", id()))));
            Some(())
        });
        let member = |name, schema, is_required, default| Member { name, schema, is_required, default };
        let text = Schema::Text { length: 2..=255, pattern: None, format: None };
        let part = Schema::Object(vec![member("id", Schema::Id, false, None)]);
        let parts = Schema::OrNull(Box::new(Schema::Array(1..=2, Box::new(part))));
        let expected = vec![
            member("name", text, true, None),
            member("count", Schema::Integer(0..=9), false, Some(json!(3))),
            member("active", Schema::Boolean, false, None),
            member("parts", parts, false, None),
        ];
        assert_eq!(rule.schema(), Schema::Object(expected));
        assert!(Reader::read(json!({"name": "mug", "parts": null}), rule).is_ok());
    }
}
