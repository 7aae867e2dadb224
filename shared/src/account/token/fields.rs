//! What an access token shows (decisions, section 3): never itself.

use crate::account::eshop::fields::ESHOP;
use crate::account::organisation::fields::ORGANISATION;
use crate::account::token::issue::ROLES;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Access tokens with a role and a scope of their own; those of logins are nobody else's business.
pub static ACCESS_TOKEN: Resource = Resource {
    name: "access_token",
    table: "(SELECT * FROM access_token WHERE admin_id IS NULL AND business_user_id IS NULL)",
    order: "createdAt",
    version: "{t}.changed_at",
    tenancy: Tenancy {
        organisation: "{t}.organisation_id",
        several: None,
        eshop: Some("{t}.eshop_id = {e}"),
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::text("role", "{t}.role").among(ROLES),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION).or_null(),
    Field::one("eshop", "{t}.eshop_id", &ESHOP).or_null(),
    Field::timestamp("expiresAt", "{t}.expires_at").or_null(),
    Field::text("createdBy", "{t}.created_by"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
];
