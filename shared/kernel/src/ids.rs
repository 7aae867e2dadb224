//! The one home of new identifiers.

use uuid::Uuid;

/// A new version 7 UUID (RFC 9562): ordered by time, and within one process strictly increasing.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one home of ids")]
pub fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// A random version 4 UUID, for what must not be guessed or ordered (claims, fencing).
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one home of ids")]
pub fn random_id() -> Uuid {
    Uuid::new_v4()
}

/// Reads a UUID in the one spelling the interface knows: 8-4-4-4-12 lowercase hexadecimal digits
/// (`docs/reference/records.md#identifiers-and-timestamps`).
#[must_use]
pub fn parse_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    let mut buffer = Uuid::encode_buffer();
    (id.hyphenated().encode_lower(&mut buffer) == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lowercase_hyphenated_spelling_is_an_id() {
        let id = new_id();
        assert_eq!(parse_id(&id.to_string()), Some(id));
        assert_eq!(parse_id(&id.to_string().to_uppercase()), None);
        assert_eq!(parse_id(&id.simple().to_string()), None);
        assert_eq!(parse_id(&format!("{{{id}}}")), None);
        assert_eq!(parse_id(""), None);
    }

    #[test]
    fn ids_of_one_process_increase() {
        let ids: Vec<_> = (0..10_000).map(|_| new_id()).collect();
        assert!(ids.is_sorted());
    }
}
