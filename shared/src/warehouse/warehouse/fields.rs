//! What a warehouse shows (specification, part 2).

use crate::account::organisation::fields::ORGANISATION;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};
use crate::warehouse::wms::fields::WMS;

/// Warehouses.
pub static WAREHOUSE: Resource = Resource {
    name: "warehouse",
    table: "warehouse",
    order: "createdAt",
    version: "{t}.changed_at",
    tenancy: Tenancy { organisation: "{t}.organisation_id", several: None, eshop: None },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const WMSES: &Link = &Link { table: "warehouse_wms", of: "{l}.warehouse_id = {t}.id", id: "{l}.wms_id" };

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::text("customId", "{t}.custom_id"),
    Field::many("wmses", WMSES, &WMS),
    Field::one("defaultWms", "{t}.default_wms_id", &WMS).or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::timestamp("changedAt", "{t}.changed_at"),
];
