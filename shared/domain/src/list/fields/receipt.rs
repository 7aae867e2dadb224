//! What receipts show (`docs/reference/orders.md#receipts`): an outbound one says what left a warehouse for an order, an inbound
//! one what came at once of a stock advice.

use crate::list::fields::expedition::EXPEDITION;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::stock_advice::{STOCK_ADVICE, of_own_products};
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Of each order that is packed: an order has one, under its own id.
pub static OUTBOUND_RECEIPT: Resource = Resource {
    name: "outbound receipt",
    tables: &["(SELECT * FROM expedition WHERE packed_at IS NOT NULL)"],
    order: "issuedAt",
    version: "1::bigint",
    tenancy: Tenancy {
        eshop: Some("{t}.eshop_id = {e}"),
        // what is packed was handed over
        wms: Some("{t}.wms_id = {w}"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: OUTBOUND,
    look_up: LookUp::new(),
};

/// Of each time that goods of a stock advice came.
pub static INBOUND_RECEIPT: Resource = Resource {
    name: "inbound receipt",
    tables: &["inbound_receipt"],
    order: "createdAt",
    version: "1::bigint",
    tenancy: Tenancy {
        eshop: Some(of_own_products!("{t}.stock_advice_id")),
        wms: Some("{t}.wms_id = {w}"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: INBOUND,
    look_up: LookUp::new(),
};

/// All that a receipt can be. An expression of the row: Postgres sorts by no constant.
const STATUS: Field =
    Field::text("status", "(CASE WHEN {t}.id IS NOT NULL THEN 'processed' END)").among(&["processed"]);

/// A figure of what left.
macro_rules! left {
    ($figure:literal) => {
        concat!(
            "(SELECT ",
            $figure,
            " FROM expedition_item i WHERE i.expedition_id = {t}.id AND i.expedited > 0)"
        )
    };
}

const OUTBOUND: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("expedition", "{t}.id", &EXPEDITION),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("warehouse", "{t}.warehouse_id", &WAREHOUSE),
    Field::one("wms", "{t}.wms_id", &WMS),
    Field::text("wmsInternalId", "NULL::text").or_null(),
    Field::timestamp("issuedAt", "{t}.packed_at"),
    Field::timestamp("createdAt", "{t}.packed_at"),
    Field::integer("countOfItems", left!("count(*)")),
    Field::integer("countOfSku", left!("count(DISTINCT i.product_id)")),
    Field::integer("sumOfQuantity", left!("coalesce(sum(i.expedited), 0)")),
    STATUS,
];

const INBOUND: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("stockAdvice", "{t}.stock_advice_id", &STOCK_ADVICE),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("warehouse", "{t}.warehouse_id", &WAREHOUSE),
    Field::one("wms", "{t}.wms_id", &WMS),
    Field::text("wmsInternalId", "NULL::text").or_null(),
    Field::timestamp("receivedAt", "{t}.created_at"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::integer("countOfItems", "{t}.count_of_items"),
    Field::integer("countOfSku", "{t}.count_of_sku"),
    Field::integer("sumOfQuantity", "{t}.sum_of_quantity"),
    STATUS,
];
