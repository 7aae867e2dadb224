//! Violated rules of fields.

use std::collections::HashSet;
use std::fmt;

use serde::Serialize;
use uuid::Uuid;

/// One violated rule of one field. Its message continues its path, as in `items[0].quantity must be between 1 and 10`, and so
/// begins with a verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// Path of the field in the body, for example `items[0].quantity`.
    pub property_path: String,
    /// What is wrong, for people.
    pub message: String,
    /// What is wrong, for programs.
    pub code: &'static str,
    /// The value is a secret: nothing shows it.
    #[serde(skip)]
    pub is_secret: bool,
    /// The record that has the value, where the caller may see it.
    #[serde(skip)]
    pub other: Option<Uuid>,
    /// How many there are, where another number was expected.
    #[serde(skip)]
    pub count: Option<i64>,
}

impl Violation {
    /// What is wrong with the field of that path.
    pub fn new(path: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        let (property_path, message) = (path.into(), message.into());
        Self { property_path, message, code, is_secret: false, other: None, count: None }
    }

    /// A unique value that belongs to another record; `other` is its id, where the caller may see it.
    pub fn taken(path: impl Into<String>, message: impl Into<String>, other: Option<Uuid>) -> Self {
        Self { other, ..Self::new(path, ALREADY_TAKEN, message) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.property_path.is_empty() {
            return f.write_str(&self.message);
        }
        // a caller chooses the names of unknown fields
        match self.property_path.char_indices().nth(LONGEST_PATH) {
            Some((end, _)) => write!(f, "{}… {}", &self.property_path[..end], self.message),
            None => write!(f, "{} {}", self.property_path, self.message),
        }
    }
}

/// Whether a field, or something within it, is refused.
#[must_use]
pub fn refuses(violations: &[Violation], field: &str) -> bool {
    violations.iter().any(|violation| {
        let rest = violation.property_path.strip_prefix(field);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
    })
}

/// Everything that is wrong with a body: what its rules refused, and what was found wrong with the rest. What was refused is
/// blank, so what was found there is left out.
#[must_use]
pub fn with_found(mut refused: Vec<Violation>, found: Vec<Violation>) -> Vec<Violation> {
    if refused.is_empty() {
        return found;
    }
    let paths: HashSet<&str> = refused.iter().map(|violation| violation.property_path.as_str()).collect();
    let is_refused = |path: &str| {
        let within = || path.match_indices(['[', '.']).any(|(end, _)| paths.contains(&path[..end]));
        paths.contains("") || paths.contains(path) || within()
    };
    let rest: Vec<_> = found.into_iter().filter(|violation| !is_refused(&violation.property_path)).collect();
    refused.extend(rest);
    refused
}

/// Code of the violation of a rule that a value is unique.
pub const ALREADY_TAKEN: &str = "already_taken";

/// Characters of a path that a sentence has room for.
const LONGEST_PATH: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_reported_with_what_was_refused_unless_it_is_about_a_refused_field() {
        let violations = |paths: &[&str]| -> Vec<_> {
            paths.iter().map(|path| Violation::new(*path, "invalid", "is invalid")).collect()
        };
        let refused = || violations(&["items[1]", "items[2].product", "eshop", "name"]);
        let found =
            ["eshop", "eshops", "items[1].product", "items[2].product", "items[2].lot", "items[10].product"];
        let paths: Vec<_> = with_found(refused(), violations(&found))
            .into_iter()
            .map(|violation| violation.property_path)
            .skip(refused().len())
            .collect();
        assert_eq!(paths, ["eshops", "items[2].lot", "items[10].product"]);
        assert_eq!(with_found(violations(&[""]), violations(&found)).len(), 1);
        assert_eq!(with_found(Vec::new(), violations(&found)).len(), found.len());
        assert!(refuses(&refused(), "items") && refuses(&refused(), "eshop"));
        assert!(!refuses(&refused(), "item") && !refuses(&refused(), "eshops"));
    }
}
