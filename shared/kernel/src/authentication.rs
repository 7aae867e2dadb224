//! How an external system authenticates this service: a header of every call. Webhooks and partners use it.
//!
//! It is sealed at rest, and shown masked; a masked member that is sent back keeps the stored value.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::input::{self, Object, Reader, Rule, Schema, custom, secret};
use super::problem::Problem;

/// The mask of a stored secret in answers; sent back, it keeps the stored one.
pub const MASK: &str = "***";

/// The types, and the members each has.
const MEMBERS: [(&str, &[&str]); 4] = [
    ("none", &[]),
    ("basic", &["username", "password"]),
    ("bearer", &["token"]),
    ("header", &["header", "token"]),
];

/// Every type.
pub const TYPES: &[&str] = &[MEMBERS[0].0, MEMBERS[1].0, MEMBERS[2].0, MEMBERS[3].0];

/// Headers that the call itself sets, or that would change what a request is.
const RESERVED: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Credentials.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Authentication {
    /// None beside what signs the call.
    None,
    /// HTTP basic authentication.
    Basic {
        /// User; without a colon.
        username: String,
        /// Password.
        password: String,
    },
    /// A bearer token.
    Bearer {
        /// The token.
        token: String,
    },
    /// A header of one's own.
    Header {
        /// Its name.
        header: String,
        /// Its value.
        token: String,
    },
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authentication({})", self.kind())
    }
}

impl Authentication {
    /// Its type.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic { .. } => "basic",
            Self::Bearer { .. } => "bearer",
            Self::Header { .. } => "header",
        }
    }

    /// How a type is shown: every member but `type` is masked.
    #[must_use]
    pub fn masked(kind: &str) -> Value {
        let mut shown = json!({"type": kind});
        for name in MEMBERS.iter().find(|(k, _)| *k == kind).map_or(&[][..], |(_, names)| names) {
            shown[*name] = json!(MASK);
        }
        shown
    }

    /// The header that it adds to a call.
    #[must_use]
    pub fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        let (name, value) = match self {
            Self::None => return None,
            Self::Basic { username, password } => {
                (AUTHORIZATION, format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
            }
            Self::Bearer { token } => (AUTHORIZATION, format!("Bearer {token}")),
            Self::Header { header, token } => (HeaderName::try_from(header).ok()?, token.clone()),
        };
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }

    /// Takes masked members from what is stored; names the first that is masked where nothing of that type is stored.
    pub fn unmask(self, stored: &Self) -> Result<Self, &'static str> {
        let of = |given: String, stored: Option<&String>, member| match stored {
            Some(stored) if given == MASK => Ok(stored.clone()),
            None if given == MASK => Err(member),
            _ => Ok(given),
        };
        Ok(match self {
            Self::None => Self::None,
            Self::Basic { username, password } => {
                let (u, p) = match stored {
                    Self::Basic { username, password } => (Some(username), Some(password)),
                    _ => (None, None),
                };
                Self::Basic { username: of(username, u, "username")?, password: of(password, p, "password")? }
            }
            Self::Bearer { token } => {
                let t = if let Self::Bearer { token } = stored { Some(token) } else { None };
                Self::Bearer { token: of(token, t, "token")? }
            }
            Self::Header { header, token } => {
                let (h, t) = match stored {
                    Self::Header { header, token } => (Some(header), Some(token)),
                    _ => (None, None),
                };
                Self::Header { header: of(header, h, "header")?, token: of(token, t, "token")? }
            }
        })
    }
}

/// The refusal of a masked member that nothing is stored for; `object` is the member that holds the credentials.
#[must_use]
pub fn nothing_stored(object: &str, member: &str) -> Problem {
    Problem::violation(
        format!("{object}.{member}"),
        "required",
        "is masked, but no value is stored for this destination",
    )
}

/// Reads `{type, username, password, token, header}`, of these types: the members of its type, and no others.
pub fn read(types: &'static [&'static str]) -> impl Rule<Out = Authentication> + Clone {
    let read = move |reader: &mut Reader, value: Value| read_one_of(types, reader, value);
    secret(custom(schema(types, true), read))
}

/// One object with the members of all these types.
#[must_use]
pub fn schema(types: &'static [&'static str], is_type_required: bool) -> Schema {
    Object::schema(|object| {
        object.required_if(is_type_required, "type", input::one_of(types));
        object.optional("username", username());
        object.optional("password", visible());
        object.optional("token", visible());
        if types.contains(&"header") {
            object.optional("header", header_name());
        }
    })
}

fn read_one_of(types: &'static [&'static str], reader: &mut Reader, value: Value) -> Option<Authentication> {
    let mut object = reader.object(value)?;
    let kind = object.required("type", input::one_of(types));
    let Some(kind) = kind else {
        for name in ["username", "password", "token", "header"] {
            object.take(name);
        }
        object.finish();
        return None;
    };
    let read = match kind {
        "basic" => {
            let username = object.required("username", username());
            let password = object.required("password", visible());
            username.zip(password).map(|(username, password)| Authentication::Basic { username, password })
        }
        "bearer" => object.required("token", visible()).map(|token| Authentication::Bearer { token }),
        "header" => {
            let header = object.required("header", header_name());
            let token = object.required("token", visible());
            header.zip(token).map(|(header, token)| Authentication::Header { header, token })
        }
        _ => Some(Authentication::None),
    };
    refuse_others(&mut object, kind);
    object.finish();
    read
}

fn refuse_others(object: &mut Object<'_>, kind: &str) {
    for name in ["username", "password", "token", "header"] {
        // null says as much as absence
        if object.take(name).is_some_and(|value| !value.is_null()) {
            object.refuse(name, "not_allowed", format!("must be absent where type is {kind}"));
        }
    }
}

/// A value that a header can carry: 1 to 2,000 visible ASCII characters and inner spaces.
pub fn visible() -> impl Rule<Out = String> + Clone {
    visible_like("^[!-~]([ -~]*[!-~])?$")
}

fn username() -> impl Rule<Out = String> + Clone {
    visible_like("^[!-9;-~]([ -9;-~]*[!-9;-~])?$").then(|reader: &mut Reader, name: String| {
        if name.contains(':') {
            reader.refuse("invalid_character", "must not contain a colon");
            return None;
        }
        Some(name)
    })
}

fn visible_like(pattern: &'static str) -> impl Rule<Out = String> + Clone {
    input::text_like(1..=2_000, pattern).then(|reader: &mut Reader, text: String| {
        let why = if text.contains(['\r', '\n']) {
            "must not have a line break; send the value without it"
        } else if text.trim() != text {
            "must not begin or end with a blank"
        } else if !text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            "must contain visible ASCII characters only"
        } else {
            return Some(text);
        };
        reader.refuse("invalid_character", why);
        None
    })
}

/// A name that a header can have, of none that the call itself sets.
fn header_name() -> impl Rule<Out = String> + Clone {
    let name = input::text_like(1..=255, "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$");
    name.then(|reader: &mut Reader, text: String| {
        if text == MASK {
            return Some(text);
        }
        match HeaderName::try_from(&text) {
            Err(_) => {
                reader.refuse("invalid_character", "must be a valid HTTP header name");
                None
            }
            Ok(name) if RESERVED.contains(&name.as_str()) => {
                reader.refuse("not_allowed", "is a header that the service sets itself");
                None
            }
            Ok(_) => Some(text),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: Value) -> Result<Authentication, Vec<String>> {
        Reader::read(value, read(TYPES))
            .map_err(|p| p.violations().iter().map(|v| format!("{} {}", v.property_path, v.code)).collect())
    }

    #[test]
    fn each_type_has_its_members_and_becomes_its_header() {
        for (given, expected) in [
            (json!({"type": "none"}), None),
            (json!({"type": "none", "token": null}), None),
            (
                json!({"type": "basic", "username": "shop", "password": "a:b"}),
                Some(("authorization", "Basic c2hvcDphOmI=")),
            ),
            (json!({"type": "bearer", "token": "t0"}), Some(("authorization", "Bearer t0"))),
            (json!({"type": "header", "header": "X-Api-Key", "token": "k 1"}), Some(("x-api-key", "k 1"))),
        ] {
            let header = check(given).unwrap().header();
            let header = header.as_ref().map(|(n, v)| (n.as_str(), v.to_str().unwrap()));
            assert_eq!(header, expected);
        }
    }

    #[test]
    fn members_of_other_types_missing_ones_and_reserved_headers_are_refused() {
        for (given, expected) in [
            (json!({}), &["type required"][..]),
            (json!({"type": "digest"}), &["type not_allowed"]),
            (json!({"type": "none", "token": "x"}), &["token not_allowed"]),
            (json!({"type": "basic", "username": "x"}), &["password required"]),
            (json!({"type": "basic", "username": "a:b", "password": "x"}), &["username invalid_character"]),
            (json!({"type": "bearer", "token": "a\r\nHost: x"}), &["token invalid_character"]),
            (json!({"type": "header", "header": "Host", "token": "x"}), &["header not_allowed"]),
            (json!({"type": "header", "header": "a b", "token": "x"}), &["header invalid_character"]),
            (json!({"type": "none", "realm": "x"}), &["realm unknown_field"]),
        ] {
            assert_eq!(check(given.clone()).unwrap_err(), expected, "{given}");
        }
    }

    #[test]
    fn a_masked_member_keeps_the_stored_value() {
        let stored = Authentication::Basic { username: "u".into(), password: "p".into() };
        let given = check(json!({"type": "basic", "username": "new", "password": "***"})).unwrap();
        let expected = Authentication::Basic { username: "new".into(), password: "p".into() };
        assert!(given.clone().unmask(&stored) == Ok(expected));
        assert!(given.unmask(&Authentication::None).is_err());
    }

    #[test]
    fn the_credentials_are_not_printed() {
        let stored = Authentication::Bearer { token: "hush".into() };
        assert_eq!(format!("{stored:?}"), "Authentication(bearer)");
        assert_eq!(Authentication::masked("bearer"), json!({"type": "bearer", "token": "***"}));
    }
}
