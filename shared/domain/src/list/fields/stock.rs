//! What a stock row shows (`docs/reference/warehouses.md#product-stock`).

use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::product::PRODUCT;
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Stock rows.
pub static PRODUCT_STOCK: Resource = Resource {
    name: "product stock",
    tables: &["product_stock"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy {
        eshop: Some(
            "EXISTS (SELECT 1 FROM product_eshop p WHERE p.product_id = {t}.product_id AND p.eshop_id = {e})",
        ),
        ..Tenancy::BY_ORGANISATION
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("product", "{t}.product_id", &PRODUCT),
    Field::one("warehouse", "{t}.warehouse_id", &WAREHOUSE),
    Field::one("wms", "{t}.wms_id", &WMS),
    Field::integer("quantity", "{t}.quantity"),
    Field::integer("booked", "{t}.booked"),
    Field::integer("available", "({t}.quantity - {t}.booked)"),
    Field::integer("missing", "{t}.missing"),
    Field::integer("required", "{t}.required"),
    Field::integer("incoming", "{t}.incoming"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
