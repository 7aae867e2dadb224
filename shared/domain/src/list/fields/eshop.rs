//! What an e-shop shows (`docs/reference/organisations.md#e-shop`).

use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};

/// E-shops.
pub static ESHOP: Resource = Resource {
    name: "e-shop",
    tables: &["eshop"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy { eshop: Some("{t}.id = {e}"), ..Tenancy::BY_ORGANISATION },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const WAREHOUSES: &Link =
    &Link { table: "eshop_warehouse", of: "{l}.eshop_id = {t}.id", id: "{l}.warehouse_id" };

/// Kinds of integration (`docs/reference/organisations.md#e-shop`).
pub const INTEGRATION_TYPES: &[&str] = &["baselinker", "feed"];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("defaultWarehouse", "{t}.default_warehouse_id", &WAREHOUSE).or_null(),
    Field::many("warehouses", WAREHOUSES, &WAREHOUSE),
    Field::boolean("active", "{t}.active"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::json("partners", "{t}.partners").or_null(),
    Field::text("salesChannelId", "{t}.sales_channel_id").or_null(),
    Field::boolean("waitBeforeProcessing", "{t}.wait_before_processing"),
    Field::boolean("editBeforeProcessing", "{t}.edit_before_processing"),
    Field::text("integrationType", "{t}.integration_type").or_null().among(INTEGRATION_TYPES),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
