//! What an admin shows (`docs/reference/accounts.md#admins`): never a password.

use crate::list::fields::organisation::ORGANISATION;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};

/// Admins. An admin of some organisations sees the admins of the same organisations.
pub static ADMIN: Resource = Resource {
    name: "admin",
    tables: &["admin"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy::of(
        "EXISTS (SELECT FROM admin_organisation m
             WHERE m.admin_id = {t}.id AND m.organisation_id = ANY({o}))",
    ),
    fields: FIELDS,
    look_up: LookUp::new(),
};

/// Those that the caller may see.
const ORGANISATIONS: &Link = &Link {
    table: "admin_organisation",
    of: "{l}.admin_id = {t}.id AND ({o} IS NULL OR {l}.organisation_id = ANY ({o}))",
    id: "{l}.organisation_id",
};

/// What an admin may be.
pub const ROLES: &[&str] = &["admin", "superadmin", "viewer"];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("email", "{t}.email"),
    Field::text("firstName", "{t}.first_name"),
    Field::text("lastName", "{t}.last_name"),
    Field::text("phone", "{t}.phone").or_null(),
    Field::text("role", "{t}.role").among(ROLES),
    Field::boolean("active", "{t}.active"),
    Field::many("organisations", ORGANISATIONS, &ORGANISATION),
    Field::json("preferences", "{t}.preferences"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
