//! What an access token shows (`docs/reference/accounts.md#access-tokens`): never itself.

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Access tokens with their own role and scope, without login tokens.
pub static ACCESS_TOKEN: Resource = Resource {
    name: "access_token",
    tables: &["(SELECT * FROM access_token WHERE admin_id IS NULL AND business_user_id IS NULL)"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy { eshop: Some("{t}.eshop_id = {e}"), ..Tenancy::BY_ORGANISATION },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const CREATED_BY: &[Field] = &[
    Field::text("type", "{t}.created_by_type").or_null(),
    Field::id("id", "coalesce({t}.made_by_admin_id, {t}.made_by_token_id)").or_null(),
    Field::text("name", "{t}.created_by"),
];

const REVOKED_BY: &[Field] = &[
    Field::text("type", "{t}.revoked_by_type").or_null(),
    Field::id("id", "{t}.revoked_by_id").or_null(),
    Field::text("name", "{t}.revoked_by").or_null(),
];

/// What a token may be.
pub const ROLES: &[&str] = &["superadmin", "admin", "user", "connector", "viewer", "warehouse"];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::text("role", "{t}.role").among(ROLES),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION).or_null(),
    Field::one("eshop", "{t}.eshop_id", &ESHOP).or_null(),
    Field::one("wms", "{t}.wms_id", &WMS).or_null(),
    Field::timestamp("expiresAt", "{t}.expires_at").or_null(),
    Field::object("createdBy", CREATED_BY),
    Field::timestamp("revokedAt", "{t}.revoked_at").or_null(),
    Field::object("revokedBy", REVOKED_BY).or_null().shown_as(
        "(CASE WHEN {t}.revoked_by IS NOT NULL
               THEN json_build_object('type', {t}.revoked_by_type, 'id', {t}.revoked_by_id, 'name', {t}.revoked_by) END)",
    ),
    Field::timestamp("lastUsedAt", "date_trunc('minute', {t}.last_used_at)").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
