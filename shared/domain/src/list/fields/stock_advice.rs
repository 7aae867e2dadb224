//! What a stock advice shows (`docs/reference/warehouses.md#stock-advice`).

use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::product::PRODUCT;
use crate::list::fields::supplier::SUPPLIER;
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};
use longshore_kernel::words;

words! {
    /// The state of a stock advice.
    pub enum AdviceStatus ("status of stock advices") {
        /// Nothing has come.
        New = "new",
        /// Some of it has come.
        Receiving = "receiving",
        /// No more of it is to come.
        Closed = "closed",
        /// It was called off.
        Cancelled = "cancelled",
    }
}

impl AdviceStatus {
    /// Whether something is still to come.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::New | Self::Receiving)
    }
}

/// That a stock advice announces a product of the e-shop `{e}`.
macro_rules! of_own_products {
    ($advice:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM stock_advice_item i JOIN product_eshop p ON p.product_id = i.product_id
                     WHERE i.stock_advice_id = ",
            $advice,
            " AND p.eshop_id = {e})"
        )
    };
}

pub(super) use of_own_products;

/// Stock advices. A connector of an e-shop reads those that announce a product of it.
pub static STOCK_ADVICE: Resource = Resource {
    name: "stock advice",
    tables: &["stock_advice"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy {
        eshop: Some(of_own_products!("{t}.id")),
        wms: Some("{t}.wms_id = {w}"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const ITEMS: &Link =
    &Link { table: "stock_advice_item", of: "{l}.stock_advice_id = {t}.id", id: "{l}.product_id" };

const ITEM: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("product", "{t}.product_id", &PRODUCT),
    Field::integer("quantity", "{t}.quantity"),
    Field::integer("received", "{t}.received"),
];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("warehouse", "{t}.warehouse_id", &WAREHOUSE),
    Field::one("wms", "{t}.wms_id", &WMS),
    Field::one("supplier", "{t}.supplier_id", &SUPPLIER),
    Field::text("packagingUnit", "{t}.packaging_unit").or_null(),
    Field::integer("countOfUnits", "{t}.count_of_units").or_null(),
    Field::rows(
        "items",
        ITEMS,
        ITEM,
        "(SELECT json_agg(json_build_object('id', i.id, 'product', i.product_id, 'quantity', i.quantity,
                                            'received', i.received) ORDER BY i.position)
          FROM stock_advice_item i WHERE i.stock_advice_id = {t}.id)",
    ),
    Field::text("note", "{t}.note").or_null(),
    Field::text("internalId", "{t}.internal_id"),
    Field::timestamp("expectedAt", "{t}.expected_at"),
    Field::text("ref1", "{t}.ref1").or_null(),
    Field::text("ref2", "{t}.ref2").or_null(),
    Field::text("ref3", "{t}.ref3").or_null(),
    Field::text("status", "{t}.status").among(&AdviceStatus::WORDS),
    Field::integer("countOfItems", "{t}.count_of_items"),
    Field::integer("countOfSku", "{t}.count_of_sku"),
    Field::integer("sumOfQuantity", "{t}.sum_of_quantity"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
