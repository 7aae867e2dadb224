//! What a session shows.

use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Sessions that are not over. They belong to accounts instead of organisations: [`scope`](crate::account::session::scope)
/// has the accounts whose sessions a caller may see.
pub static SESSION: Resource = Resource {
    name: "session",
    tables: &["(SELECT s.*, CASE WHEN s.admin_id IS NULL THEN 'business_user' ELSE 'admin' END AS account_type,
                    coalesce(a.first_name || ' ' || a.last_name, u.first_name || ' ' || u.last_name) AS account_name
             FROM session s
             LEFT JOIN admin a ON a.id = s.admin_id
             LEFT JOIN business_user u ON u.id = s.business_user_id
             WHERE s.ended_at IS NULL AND s.expires_at > now())"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy::of("{t}.account_id"),
    fields: FIELDS,
    look_up: LookUp::new(),
};

const ACCOUNT: &[Field] = &[
    Field::text("type", "{t}.account_type").among(&["admin", "business_user"]),
    Field::id("id", "{t}.account_id"),
    Field::text("name", "{t}.account_name"),
];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::object("account", ACCOUNT),
    Field::text("address", "{t}.address").or_null(),
    Field::text("userAgent", "{t}.user_agent").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("lastUsedAt", "date_trunc('minute', {t}.last_used_at)"),
    Field::timestamp("expiresAt", "{t}.expires_at"),
    Field::timestamp("endsAt", "{t}.ends_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
