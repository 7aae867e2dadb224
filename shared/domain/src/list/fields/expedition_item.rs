//! What an item of an order shows (`docs/reference/orders.md#item`), and a reservation: an item that is sent and not packed.

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::expedition::{EXPEDITION, OF_WMS};
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::product::PRODUCT;
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Items with what they have of their order. What is booked and missing follows from its status.
pub(super) const TABLE: &str = "(SELECT i.*, e.organisation_id, e.eshop_id, e.warehouse_id, e.wms_id, e.status, h.handover_state,
        greatest(i.changed_at, e.status_since) AS shown_changed_at,
        CASE WHEN is_booked(e.status) THEN i.quantity ELSE 0 END AS booked,
        CASE WHEN is_waiting(e.status) THEN i.quantity
             WHEN is_booked(e.status) THEN 0 END AS missing
    FROM expedition_item i JOIN expedition e ON e.id = i.expedition_id LEFT JOIN expedition_handover h ON h.id = e.id)";

/// Those of orders that are sent and not packed.
const RESERVED: &str = "(SELECT i.*, e.organisation_id, e.eshop_id, e.warehouse_id, e.wms_id, e.status, h.handover_state,
        greatest(i.changed_at, e.status_since) AS shown_changed_at,
        CASE WHEN is_waiting(e.status) THEN 0 ELSE i.quantity END AS booked,
        CASE WHEN is_waiting(e.status) THEN i.quantity ELSE 0 END AS missing
    FROM expedition_item i JOIN expedition e ON e.id = i.expedition_id LEFT JOIN expedition_handover h ON h.id = e.id
    WHERE e.status IN ('awaiting_reservation', 'waiting_for_goods', 'stock_ok', 'awaiting_processing', 'take_out', 'completion',
             'waiting_for_cancel')
      AND i.expedited IS NULL)";

const TENANCY: Tenancy = Tenancy {
    organisation: "{t}.organisation_id",
    several: None,
    eshop: Some("{t}.eshop_id = {e}"),
    wms: Some(OF_WMS),
    maker: None,
};

/// Items of orders.
pub static EXPEDITION_ITEM: Resource = Resource {
    name: "expedition item",
    tables: &[TABLE],
    order: "createdAt",
    version: "1::bigint",
    tenancy: TENANCY,
    fields: ITEM,
    look_up: LookUp::new(),
};

/// Reservations.
pub static RESERVATION: Resource = Resource {
    name: "reservation",
    tables: &[RESERVED],
    order: "createdAt",
    version: "1::bigint",
    tenancy: TENANCY,
    fields: RESERVATION_FIELDS,
    look_up: LookUp::new(),
};

/// The items of an order, as its record shows them.
pub(super) const SHOWN: &str = "(SELECT json_agg(json_build_object(
        'id', i.id, 'expedition', i.expedition_id, 'position', i.position, 'product', i.product_id,
        'productSku', (SELECT product_sku FROM product WHERE id = i.product_id), 'quantity', i.quantity,
        'booked', CASE WHEN is_booked({t}.status)
                       THEN i.quantity ELSE 0 END,
        'missing', CASE WHEN is_waiting({t}.status) THEN i.quantity
                        WHEN is_booked({t}.status) THEN 0 END,
        'expedited', i.expedited, 'productValue', trim_scale(i.product_value),
        'productValueCurrency', i.product_value_currency, 'productLabel', i.product_label, 'lot', i.lot, 'lifo', i.lifo,
        'ref1', i.ref1, 'ref2', i.ref2, 'ref3', i.ref3, 'book', i.book, 'bookLimit', i.book_limit,
        'bookStockAdvices', i.book_stock_advices, 'assignedLot', i.assigned_lot, 'serialNumbers', coalesce(i.serial_numbers, ARRAY[]::text[]),
        'bundle', (SELECT b.product_id FROM expedition_bundle b
                   WHERE b.expedition_id = i.expedition_id AND b.position = i.bundle_position),
        'createdAt', to_char(i.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'),
        'changedAt', to_char(greatest(i.changed_at, {t}.status_since) AT TIME ZONE 'UTC',
                             'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"')) ORDER BY i.position)
    FROM expedition_item i WHERE i.expedition_id = {t}.id)";

/// The fields of an item.
pub(super) const ITEM: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("expedition", "{t}.expedition_id", &EXPEDITION),
    Field::integer("position", "{t}.position"),
    Field::one("product", "{t}.product_id", &PRODUCT),
    Field::text("productSku", "(SELECT p.product_sku FROM product p WHERE p.id = {t}.product_id)"),
    Field::integer("quantity", "{t}.quantity"),
    Field::integer("booked", "{t}.booked"),
    Field::integer("missing", "{t}.missing").or_null(),
    Field::integer("expedited", "{t}.expedited").or_null(),
    Field::number("productValue", "{t}.product_value").or_null(),
    Field::text("productValueCurrency", "{t}.product_value_currency").or_null(),
    Field::text("productLabel", "{t}.product_label").or_null(),
    Field::text("lot", "{t}.lot").or_null(),
    Field::boolean("lifo", "{t}.lifo"),
    Field::text("ref1", "{t}.ref1").or_null(),
    Field::text("ref2", "{t}.ref2").or_null(),
    Field::text("ref3", "{t}.ref3").or_null(),
    Field::integer("book", "{t}.book").or_null(),
    Field::integer("bookLimit", "{t}.book_limit").or_null(),
    Field::json("bookStockAdvices", "{t}.book_stock_advices").or_null(),
    Field::text("assignedLot", "{t}.assigned_lot").or_null(),
    Field::texts("serialNumbers", "coalesce({t}.serial_numbers, ARRAY[]::text[])"),
    Field::one(
        "bundle",
        "(SELECT b.product_id FROM expedition_bundle b
          WHERE b.expedition_id = {t}.expedition_id AND b.position = {t}.bundle_position)",
        &PRODUCT,
    )
    .or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.shown_changed_at"),
];

const RESERVATION_FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("expedition", "{t}.expedition_id", &EXPEDITION),
    Field::text(
        "orderNumber",
        "(SELECT d.order_number FROM expedition_detail d WHERE d.id = {t}.expedition_id)",
    ),
    Field::one("eshop", "{t}.eshop_id", &ESHOP),
    Field::one("product", "{t}.product_id", &PRODUCT),
    Field::one("warehouse", "{t}.warehouse_id", &WAREHOUSE),
    Field::one("wms", "{t}.wms_id", &WMS),
    Field::integer("quantity", "{t}.quantity"),
    Field::integer("booked", "{t}.booked"),
    Field::integer("missing", "{t}.missing"),
    Field::text("lot", "{t}.lot").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.shown_changed_at"),
];
