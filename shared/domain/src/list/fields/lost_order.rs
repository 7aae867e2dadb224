//! What an order that only a warehouse has shows (`docs/reference/orders.md#lost-orders`).

use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Orders that a warehouse reports of since Postgres was set back, and that are not here.
pub static LOST_ORDER: Resource = Resource {
    name: "lost order",
    tables: &["wms_lost_order"],
    order: "createdAt",
    version: "1::bigint",
    tenancy: Tenancy::BY_ORGANISATION,
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("wms", "{t}.wms_id", &WMS),
    Field::id("expedition", "{t}.expedition_id"),
    Field::integer("number", "{t}.number").or_null(),
    Field::json("report", "{t}.report"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
];
