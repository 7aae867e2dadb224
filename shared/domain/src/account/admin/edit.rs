//! The requested fields of an admin, read by their rules.

use serde_json::Value;

use super::super::person::Person;
use crate::list::fields::admin::{ADMIN, ROLES};
use crate::record::settle_ids;
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::input::{Reader, Rule, Schema, boolean, custom, drafts, id, object, one_of};
use longshore_kernel::problem::{Problem, Violation};

/// Bytes that preferences may have (`docs/reference/accounts.md#admins`).
pub const PREFERENCES_BYTES: usize = 16 * 1024;
/// How many organisations one admin may be added to.
pub const ORGANISATIONS: std::ops::RangeInclusive<usize> = 0..=10_000;

/// What is given of an admin.
#[derive(Debug, Default)]
pub struct Edit {
    pub(super) person: Person,
    pub(super) role: Option<&'static str>,
    /// As they came.
    pub(super) organisations: Option<Vec<OrganisationId>>,
    pub(super) preferences: Option<Value>,
    /// Whether the tokens that it has made end with its password.
    pub(super) ends_tokens: bool,
    /// Read-only members.
    pub(super) echo: Echo,
}

/// An admin as it is stored, or as it is to be; the password is apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fields {
    pub(super) email: String,
    pub(super) first_name: String,
    pub(super) last_name: String,
    pub(super) phone: Option<String>,
    pub(super) role: String,
    pub(super) active: bool,
    /// In order, each once.
    pub(super) organisations: Vec<OrganisationId>,
    pub(super) preferences: Value,
    pub(super) version: i64,
}

impl Edit {
    /// Reads a body, with what is wrong with it; where the admin is new, what it must have is required.
    pub(super) fn read(body: Value, is_new: bool) -> (Self, Vec<Violation>) {
        Reader::draft(body, self::body(is_new))
    }

    /// What an admin becomes by it.
    pub(super) fn apply(mut self, old: Fields) -> Fields {
        settle_ids(&mut self.organisations);
        Fields {
            email: self.person.email.unwrap_or(old.email),
            first_name: self.person.first_name.unwrap_or(old.first_name),
            last_name: self.person.last_name.unwrap_or(old.last_name),
            phone: self.person.phone.or_keep(old.phone),
            role: self.role.map_or(old.role, str::to_owned),
            active: self.person.active.unwrap_or(old.active),
            organisations: self.organisations.unwrap_or(old.organisations),
            preferences: self.preferences.unwrap_or(old.preferences),
            version: old.version,
        }
    }
}

/// The body of a create or of an update.
pub fn body(is_new: bool) -> impl Rule<Out = Edit> {
    object(move |object| {
        let has_password = object.has("password");
        let ends_tokens = !is_new && object.nullable("tokens", boolean()).value().unwrap_or(false);
        if ends_tokens && !has_password {
            object.refuse("tokens", "invalid", "belongs to a new password: send password, too");
        }
        Some(Edit {
            person: Person::members(object, is_new),
            ends_tokens,
            role: object.required_if(is_new, "role", one_of(ROLES)),
            organisations: object
                .optional("organisations", drafts(ORGANISATIONS, id()))
                .map(|ids| ids.into_iter().map(OrganisationId::from).collect()),
            preferences: object.optional("preferences", preferences()),
            echo: Echo::of(object, is_new, |name| ADMIN.shows(name)),
        })
    })
}

/// Reads the body that replaces the preferences.
pub(super) fn read_preferences(body: Value) -> Result<Value, Problem> {
    Reader::read(body, preferences())
}

/// Preferences: any object that is not too large.
pub fn preferences() -> impl Rule<Out = Value> + Clone {
    custom(Schema::AnyObject, read_object)
}

fn read_object(reader: &mut Reader, value: Value) -> Option<Value> {
    if !value.is_object() {
        reader.wrong_type("an object", &value);
        return None;
    }
    if value.to_string().len() > PREFERENCES_BYTES {
        reader.refuse("too_large", format!("must have at most {PREFERENCES_BYTES} bytes"));
        return None;
    }
    if holds_null_character(&value) {
        reader.refuse("invalid_character", "must not contain U+0000");
        return None;
    }
    Some(value)
}

/// Whether a string somewhere in it has what Postgres cannot hold.
fn holds_null_character(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(elements) => elements.iter().any(holds_null_character),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains('\0') || holds_null_character(value))
        }
        _ => false,
    }
}
