//! Orders, items, reservations and movements as they are shown.

use longshore_domain::list::fields::expedition::{EXPEDITION as ORDERS, HandoverState};
use longshore_domain::list::fields::expedition_item::{
    EXPEDITION_ITEM as ITEMS, RESERVATION as RESERVATIONS,
};
use longshore_domain::list::fields::lost_order::LOST_ORDER as LOST_ORDERS;
use longshore_domain::list::fields::movement::STOCK_MOVEMENT as MOVEMENTS;
use serde_json::{Value, json};

use super::creation;
use crate::openapi::example::{
    ANY, CHANGED, CREATED, ESHOP, EXPEDITION as ORDER, EXPEDITION_ITEM as ITEM, LOST_ORDER as LOST,
    ORGANISATION, PRODUCT, STOCK_MOVEMENT, WAREHOUSE, WMS,
};
use crate::openapi::record::Described;
use crate::openapi::schema::{
    Said, any_integer, any_object, any_text, array_of, boolean, id, named, object, one_of, or_null, text,
    timestamp,
};

/// What the fields of an order mean.
pub(super) const MEANINGS: &[(&str, &str)] = &[
    ("eshop", "The e-shop; it never changes."),
    ("warehouse", "The warehouse that ships the order. The default is the `defaultWarehouse` of the e-shop."),
    ("wms", "The wms that ships the order. The default is the `defaultWms` of the warehouse."),
    ("orderNumber", "The number of the order, unique in the e-shop; it never changes."),
    ("externalId", "The e-shop's own id, unique in the e-shop."),
    ("items", "The ordered items. A product may appear several times."),
    ("value", "What the customer pays, with at most 4 decimals."),
    ("currency", "ISO 4217."),
    (
        "carrier",
        "The carrier. Without it, one is chosen by the carrier preferences when the order is sent; if none holds, the order is `incorrect`.",
    ),
    ("carrierService", "A service of the carrier."),
    ("carrierChoice", "The preference that the carrier was chosen by; null for a given carrier."),
    (
        "differentDeliveryAddress",
        "If false, the delivery address is the billing address. The default is whether they differ.",
    ),
    ("cod", "Whether the order is paid on delivery."),
    ("codCurrency", "The default is `currency`."),
    ("priority", "Orders of a higher priority are served first."),
    ("waitBeforeProcessing", "Whether a booked order waits for its confirmation. Null: as the e-shop says."),
    ("editBeforeProcessing", "Whether an import leaves the order on hold. Null: as the e-shop says."),
    ("ignoreAddressValidation", "Whether the order may be sent with an incomplete address."),
    ("services", "Ids that are kept and not looked up."),
    ("invoice", "Its invoice, if it has one."),
    ("invoiceUrl", "The path of the content of its invoice."),
    ("invoiceOriginalName", "The name of the uploaded file."),
    ("waitsFor", "The product that the order waits for."),
    ("reservationPaused", "Whether the order is passed over until it is booked again."),
    ("errors", "What was wrong when the order was last sent."),
    ("audits", "The history of its statuses, the oldest first."),
    ("expeditedCompletely", "Whether everything was packed that was ordered; null until then."),
    ("statusSince", "When the status last changed."),
    ("handover", "Where the hand-over to the system of the warehouse is; null before the order is due."),
    ("modifiedAt", "When a body last changed the order."),
    ("removedVirtualProducts", "Ordered products that have no stock."),
    ("user", "The person who created the order; null for a program."),
];

/// Orders.
pub(in crate::openapi) const EXPEDITION: Described = Described {
    resource: &ORDERS,
    about: "An order of an e-shop, which is shipped from one warehouse.",
    fields: MEANINGS,
    shapes: &[
        ("carrierOptions", carrier_options),
        ("handover", handover),
        ("removedVirtualProducts", removed),
        ("errors", errors),
        ("bundles", bundles),
        ("audits", audits),
        ("items", items),
    ],
    example: || {
        let null =
            |names: &[&str], record: &mut Value| names.iter().for_each(|name| record[*name] = Value::Null);
        let mut record = creation();
        let members = json!({
            "id": ORDER, "organisation": ORGANISATION, "status": "awaiting_processing", "statusSince": CHANGED,
            "reservationPaused": false, "differentDeliveryAddress": false, "deliveryFirstName": "Ada",
            "deliveryLastName": "Byron", "deliveryStreet": "Quay Street", "deliveryHouseNr": "7",
            "deliveryZip": "BS1 4RN", "deliveryCity": "Bristol", "deliveryCountry": "GB",
            "deliveryEmail": "ada@example.com", "cod": false, "priority": 0, "ignoreAddressValidation": false,
            "fragile": false, "b2b": false, "services": [], "removedVirtualProducts": [],
            "addressValidationExecuted": true, "countOfItems": 1, "countOfSku": 1, "sumOfQuantity": 2,
            "withComplaint": false, "createdAt": CREATED, "modifiedAt": CREATED, "changedAt": CHANGED, "version": 1,
        });
        let lists = json!({
            "items": [item()], "bundles": [], "parcels": [],
            "audits": [{"id": STOCK_MOVEMENT, "statusTo": "awaiting_processing", "createdAt": CHANGED,
                        "updatedBy": "shop"}],
        });
        for (name, value) in [members, lists].iter().filter_map(Value::as_object).flatten() {
            record[name] = value.clone();
        }
        if let Some(members) = record.as_object_mut() {
            members.remove("send");
        }
        null(
            &[
                "waitsFor",
                "externalId",
                "carrierService",
                "deliveryMethod",
                "carrierPickupPlace",
                "carrierPickupPlaceCode",
                "externalCarrierPickupPlace",
                "externalCarrierPickupPlaceCode",
                "billingDegree",
                "billingCompany",
                "billingState",
                "billingPhone",
                "billingRegistrationNumber",
                "billingVatNumber",
                "deliveryDegree",
                "deliveryCompany",
                "deliveryState",
                "deliveryPhone",
                "codValue",
                "codCurrency",
                "codVariableSymbol",
                "requiredExpeditionDate",
                "eshopOrderDate",
                "waitBeforeProcessing",
                "editBeforeProcessing",
                "deliveryCost",
                "deliveryCostCurrency",
                "note",
                "carrierNote",
                "customerGroup",
                "invoiceNumber",
                "ref1",
                "ref2",
                "ref3",
                "carrierOptions",
                "partner",
                "trackingNumber",
                "trackingUrl",
                "genericTrackingUrl",
                "externalTrackingNumber",
                "externalPackageNumber",
                "packagesCount",
                "user",
                "expeditedCompletely",
                "packedAt",
                "sentAt",
                "deliveredAt",
                "errors",
                "invoice",
                "invoiceUrl",
                "invoiceOriginalName",
                "carrierChoice",
                "handover",
                "splitFrom",
                "backorderOf",
            ],
            &mut record,
        );
        record
    },
};

fn item() -> Value {
    json!({
        "id": ITEM, "expedition": ORDER, "position": 0, "product": PRODUCT, "productSku": "8590000000017", "quantity": 2,
        "booked": 2, "missing": 0, "expedited": null, "productValue": null, "productValueCurrency": null,
        "productLabel": null, "lot": null, "lifo": false, "ref1": null, "ref2": null, "ref3": null, "book": null,
        "bookLimit": null, "bookStockAdvices": null, "assignedLot": null, "serialNumbers": [], "bundle": null,
        "createdAt": CREATED, "changedAt": CHANGED,
    })
}

fn items() -> Said {
    array_of(named("ExpeditionItem"))
}

fn handover() -> Said {
    let handover = object()
        .required("state", one_of(&HandoverState::WORDS))
        .required("number", any_integer())
        .required("since", timestamp())
        .required("attempts", any_integer())
        .required("nextAttemptAt", or_null(timestamp()))
        .required("error", or_null(any_text()))
        .required("wmsInternalId", or_null(any_text()))
        .required("inDoubt", boolean())
        .required("contentsUnknown", boolean())
        .explain(&[
            ("number", "Which hand-over of the order it is."),
            ("attempts", "Calls that have begun in this state."),
            ("error", "Why the last call failed, or what the warehouse refused."),
            ("wmsInternalId", "The id that the warehouse has given it."),
            ("inDoubt", "Since a set-back of the database, the warehouse may have it under another number."),
            (
                "contentsUnknown",
                "The warehouse has it, and may have been given other items or another address.",
            ),
        ]);
    handover.called("ExpeditionHandover")
}

fn carrier_options() -> Said {
    object()
        .required("recipientIdentificationNumber", or_null(text(0..=255)))
        .called("ExpeditionCarrierOptions")
}

fn removed() -> Said {
    array_of(
        object()
            .required("productId", id())
            .required("quantity", any_integer())
            .called("ExpeditionRemovedProduct"),
    )
}

fn errors() -> Said {
    array_of(
        object()
            .required("propertyPath", any_text())
            .required("message", any_text())
            .required("code", any_text())
            .required("parameters", named("ViolationParameters"))
            .called("ExpeditionError"),
    )
}

fn bundles() -> Said {
    array_of(
        object()
            .required("product", id())
            .required("quantity", any_integer())
            .required("items", array_of(id()))
            .called("ExpeditionBundle"),
    )
}

fn audits() -> Said {
    array_of(
        object()
            .required("id", id())
            .required("statusTo", any_text())
            .required("createdAt", timestamp())
            .required("updatedBy", any_text())
            .called("ExpeditionAudit"),
    )
}

const OF_ITEMS: &[(&str, &str)] = &[
    ("booked", "Pieces that are booked: all or none; 0 again from packing on."),
    ("missing", "Pieces that are not booked; null until the order is sent, and from packing on."),
    ("expedited", "Pieces that were packed; null until then."),
    ("position", "Its place in the order, from 0."),
    ("bundle", "The bundle that the item is a part of."),
];

/// Items of orders.
pub(in crate::openapi) const EXPEDITION_ITEM: Described = Described {
    resource: &ITEMS,
    about: "A physical product and a quantity in an order.",
    fields: OF_ITEMS,
    shapes: &[("bookStockAdvices", advices)],
    example: item,
};

fn advices() -> Said {
    array_of(
        object()
            .required("stockAdviceItem", id())
            .required("quantity", any_integer())
            .called("ExpeditionItemAdvice"),
    )
}

/// Reservations.
pub(in crate::openapi) const RESERVATION: Described = Described {
    resource: &RESERVATIONS,
    about: "An item of an order that is sent and not packed.",
    fields: OF_ITEMS,
    shapes: &[],
    example: || {
        json!({
            "id": ITEM, "organisation": ORGANISATION, "expedition": ORDER, "orderNumber": "2026-0042", "eshop": ESHOP,
            "product": PRODUCT, "warehouse": WAREHOUSE, "wms": WMS, "quantity": 2, "booked": 2, "missing": 0, "lot": null,
            "createdAt": CREATED, "changedAt": CHANGED,
        })
    },
};

/// Orders that only a warehouse has.
pub(in crate::openapi) const LOST_ORDER: Described = Described {
    resource: &LOST_ORDERS,
    about: "An order that a warehouse reports of since Postgres was set back, and that is not here.",
    fields: &[
        ("expedition", "The id that the order had."),
        ("number", "The highest number of a hand-over that was reported."),
        ("report", "The last report; of one above 16 KiB, a few members."),
        ("createdAt", "When the first report came."),
        ("changedAt", "When the last report came."),
    ],
    shapes: &[("report", any_object)],
    example: || {
        json!({
            "id": LOST, "organisation": ORGANISATION, "wms": WMS, "expedition": ANY, "number": 1,
            "report": {"id": "N-7", "expedition": ANY, "number": 1, "status": "take_out"},
            "createdAt": CREATED, "changedAt": CHANGED,
        })
    },
};

/// Movements of stocks.
pub(in crate::openapi) const MOVEMENT: Described = Described {
    resource: &MOVEMENTS,
    about: "Pieces that came into a stock, or left it.",
    fields: &[
        ("movementType", "`in`: pieces came; `out`: they left."),
        (
            "movementSubType",
            "`new`: received; `completion`: packed for an order; `inventory`: counted or found.",
        ),
        ("quantity", "Pieces."),
        ("inboundReceipt", "The receipt of what came with it; null for other movements."),
        ("outboundReceipt", "The receipt of what left with it; null for other movements."),
    ],
    shapes: &[],
    example: || {
        json!({
            "id": STOCK_MOVEMENT, "product": PRODUCT, "movementType": "out", "movementSubType": "completion",
            "organisation": ORGANISATION, "warehouse": WAREHOUSE, "wms": WMS, "expedition": ORDER, "expeditionItem": ITEM,
            "quantity": 2, "lot": null, "serialNumbers": [], "createdAt": CHANGED, "movedAt": CHANGED, "reported": true,
            "wmsInternalId": null, "inboundReceipt": null, "outboundReceipt": ORDER,
        })
    },
};
