//! What a stock movement shows (`docs/reference/orders.md#movements`): pieces that came into a stock, or left it.

use crate::list::fields::expedition::EXPEDITION;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::product::PRODUCT;
use crate::list::fields::receipt::{INBOUND_RECEIPT, OUTBOUND_RECEIPT};
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Movements of pieces that are there: announcements move none.
pub static STOCK_MOVEMENT: Resource = Resource {
    name: "stock movement",
    tables: &["(SELECT * FROM stock_movement WHERE quantity <> 0)"],
    order: "createdAt",
    version: "1::bigint",
    tenancy: Tenancy {
        eshop: Some(
            "EXISTS (SELECT 1 FROM product_eshop p WHERE p.product_id = {t}.product_id AND p.eshop_id = {e})",
        ),
        wms: Some("{t}.wms_id = {w}"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

/// A column about an order, which a caller of one e-shop sees of orders of that e-shop only.
macro_rules! of_own_eshop {
    ($column:literal) => {
        concat!(
            "(CASE WHEN {e} IS NULL OR EXISTS (SELECT 1 FROM expedition x WHERE x.id = {t}.expedition_id
                                               AND x.eshop_id = {e}) THEN {t}.",
            $column,
            " END)"
        )
    };
}

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("product", "{t}.product_id", &PRODUCT),
    Field::text("movementType", "(CASE WHEN {t}.quantity > 0 THEN 'in' ELSE 'out' END)")
        .among(&["in", "out"]),
    Field::text(
        "movementSubType",
        "(CASE {t}.kind WHEN 'received' THEN 'new' WHEN 'expedited' THEN 'completion' ELSE 'inventory' END)",
    )
    .among(&["new", "completion", "inventory"]),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("warehouse", "{t}.warehouse_id", &WAREHOUSE),
    Field::one("wms", "{t}.wms_id", &WMS),
    Field::one("expedition", of_own_eshop!("expedition_id"), &EXPEDITION).or_null(),
    Field::id("expeditionItem", of_own_eshop!("expedition_item_id")).or_null(),
    Field::integer("quantity", "abs({t}.quantity)"),
    Field::text("lot", "NULL::text").or_null(),
    Field::texts("serialNumbers", "ARRAY[]::text[]"),
    Field::timestamp("createdAt", "{t}.at"),
    Field::timestamp("movedAt", "{t}.at"),
    // an expression of the row: Postgres sorts by no constant
    Field::boolean("reported", "({t}.id IS NOT NULL)"),
    Field::text("wmsInternalId", "NULL::text").or_null(),
    Field::one("inboundReceipt", "{t}.receipt_id", &INBOUND_RECEIPT).or_null(),
    // that of its order, under the same id; what left although the order was canceled has none
    Field::one(
        "outboundReceipt",
        "(SELECT x.id FROM expedition x WHERE {t}.kind = 'expedited' AND x.id = {t}.expedition_id
              AND x.packed_at IS NOT NULL AND ({e} IS NULL OR x.eshop_id = {e}))",
        &OUTBOUND_RECEIPT,
    )
    .or_null(),
];
