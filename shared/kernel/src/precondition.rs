//! What a caller requires of a record before it is changed (`If-Match`).

use super::answer::etag;
use super::problem::{PRECONDITION_FAILED, Problem};

/// The version of a record that does not exist.
pub const NOTHING: i64 = 0;

/// The versions from which a change may start.
#[derive(Clone, Debug, Default)]
pub struct Precondition(Option<Vec<String>>);

impl Precondition {
    /// A change may start from any version.
    pub const NONE: &Self = &Self(None);

    /// A change must start from one of the versions with these tags; `*` means any that exists.
    #[must_use]
    pub fn of(tags: Vec<String>) -> Self {
        Self(Some(tags))
    }

    /// Whether the caller requires a version.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses the change of a version that the caller has not seen.
    pub fn check(&self, version: i64) -> Result<(), Problem> {
        let current = etag(version);
        match &self.0 {
            Some(tags) if version == NOTHING || !tags.iter().any(|tag| *tag == "*" || *tag == current) => {
                Err(Problem::new(&PRECONDITION_FAILED, "the record has changed since it was read"))
            }
            _ => Ok(()),
        }
    }
}
