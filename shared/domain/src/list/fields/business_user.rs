//! What a business user shows (`docs/reference/accounts.md#business-users`): never a password.

use crate::list::fields::organisation::ORGANISATION;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Business users.
pub static BUSINESS_USER: Resource = Resource {
    name: "business_user",
    tables: &["business_user"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy::BY_ORGANISATION,
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("email", "{t}.email"),
    Field::text("firstName", "{t}.first_name"),
    Field::text("lastName", "{t}.last_name"),
    Field::text("phone", "{t}.phone").or_null(),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::boolean("active", "{t}.active"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
