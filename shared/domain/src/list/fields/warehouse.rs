//! What a warehouse shows (`docs/reference/warehouses.md#warehouse`).

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};

/// Warehouses.
pub static WAREHOUSE: Resource = Resource {
    name: "warehouse",
    tables: &["warehouse"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy::BY_ORGANISATION,
    fields: FIELDS,
    look_up: LookUp::new(),
};

const WMSES: &Link = &Link { table: "warehouse_wms", of: "{l}.warehouse_id = {t}.id", id: "{l}.wms_id" };

/// Callers that are bound to an e-shop may filter only by that one.
const ESHOPS: &Link = &Link {
    table: "eshop_warehouse",
    of: "{l}.warehouse_id = {t}.id AND ({e} IS NULL OR {l}.eshop_id = {e})",
    id: "{l}.eshop_id",
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::text("customId", "{t}.custom_id"),
    Field::many("wmses", WMSES, &WMS),
    Field::one("defaultWms", "{t}.default_wms_id", &WMS).or_null(),
    // the e-shops that name it: what they change is no change of the warehouse
    Field::many("eshops", ESHOPS, &ESHOP).hidden(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
