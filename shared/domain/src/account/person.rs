//! The common fields of the accounts of people, and how they are read.

use std::ops::RangeInclusive;

use secrecy::SecretString;
use serde_json::Value;

use super::password::{DIFFERENT, is_common, is_simple};
use longshore_kernel::crypto::sha256;
use longshore_kernel::input::{Given, Object, Reader, Rule, boolean, object, secret, text, text_like};

/// Characters that an address may have: the longest that mail can be sent to (RFC 5321).
pub const EMAIL_LENGTH: RangeInclusive<usize> = 3..=254;
/// Characters that a password may have. The bound above keeps hashing cheap for us.
pub const PASSWORD_LENGTH: RangeInclusive<usize> = 12..=128;

/// The fields of a person, as far as they are given.
#[derive(Debug, Default)]
pub struct Person {
    pub(super) email: Option<String>,
    pub(super) first_name: Option<String>,
    pub(super) last_name: Option<String>,
    pub(super) phone: Given<String>,
    pub(super) password: Given<SecretString>,
    pub(super) active: Option<bool>,
}

impl Person {
    /// Reads them; where the account is new, those that it must have are required.
    pub(super) fn members(object: &mut Object<'_>, is_new: bool) -> Self {
        object.holds_secrets();
        Self {
            email: object.required_if(is_new, "email", email()),
            first_name: object.required_if(is_new, "firstName", text(1..=255)),
            last_name: object.required_if(is_new, "lastName", text(1..=255)),
            phone: object.nullable("phone", text(1..=50)),
            password: object.nullable("password", password()),
            active: object.optional_with("active", boolean(), is_new.then_some(true)),
        }
    }
}

/// What an address looks like.
pub const EMAIL_PATTERN: &str = r"^[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+$";

/// An address: something before and after its one `@`, and nothing that cannot be seen.
pub(crate) fn email() -> impl Rule<Out = String> + Clone {
    text_like(EMAIL_LENGTH, EMAIL_PATTERN).then(|reader: &mut Reader, text: String| {
        let whole = text
            .split_once('@')
            .is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty() && !domain.contains('@'));
        if !whole || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            reader.refuse("invalid_email", "must be an e-mail address");
            return None;
        }
        Some(text)
    })
}

/// A new password: long enough, and none of those that are tried first or guessed soon.
pub(super) fn password() -> impl Rule<Out = SecretString> + Clone {
    secret(text(PASSWORD_LENGTH).then(|reader: &mut Reader, text: String| {
        if is_common(&text) {
            reader.refuse("too_common", "is one of the most common passwords");
            return None;
        }
        if is_simple(&text) {
            let message = format!("must have at least {DIFFERENT} different characters, and not only blanks");
            reader.refuse("too_simple", message);
            return None;
        }
        Some(SecretString::from(text))
    }))
}

/// A secret that is not new: a password, a token or a code, as it was sent.
pub(super) fn credential(length: RangeInclusive<usize>) -> impl Rule<Out = SecretString> + Clone {
    secret(text(length).then(|_: &mut Reader, text: String| Some(SecretString::from(text))))
}

/// Checks an address and a password that came another way than in a body.
pub(super) fn check(email: &str, password: &str) -> Result<(), longshore_kernel::problem::Problem> {
    let rule = object(|object| {
        object.required("email", self::email());
        object.required("password", self::password());
        Some(())
    });
    Reader::read(serde_json::json!({"email": email, "password": password}), rule)
}

/// SHA-256 of a body without its password and code: the value that an idempotency key stores must not help to guess the password, and
/// a repetition may give another code.
#[must_use]
pub fn body_hash(body: &Value) -> [u8; 32] {
    let mut body = body.clone();
    for name in ["password", "code"] {
        if let Some(secret) = body.get_mut(name) {
            *secret = "***".into();
        }
    }
    sha256(body.to_string().as_bytes())
}
