//! What a wms shows (`docs/reference/warehouses.md#wms`).

use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};

/// Wms.
pub static WMS: Resource = Resource {
    name: "wms",
    tables: &["wms"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy::BY_ORGANISATION,
    fields: FIELDS,
    look_up: LookUp::new(),
};

const WAREHOUSES: &Link = &Link { table: "warehouse_wms", of: "{l}.wms_id = {t}.id", id: "{l}.warehouse_id" };

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::id("distributionCenter", "{t}.distribution_center"),
    Field::text("storeKey", "{t}.store_key"),
    Field::text("internalId", "{t}.internal_id"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::many("warehouses", WAREHOUSES, &WAREHOUSE),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
