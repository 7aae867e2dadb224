//! What a packaging option shows (`docs/reference/products.md#packaging-options`).

use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Packaging options.
pub static PACKAGING_OPTION: Resource = Resource {
    name: "packaging option",
    tables: &["packaging_option"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy::of(Tenancy::COMMON),
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("code", "{t}.code"),
    Field::text("name", "{t}.name"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
