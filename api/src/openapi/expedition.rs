//! Orders, which the API calls expeditions, with their items, reservations and the movements of stocks.

use longshore_shared::catalog::image::{LARGEST, upload_body};
use longshore_shared::expedition::invoice::MEDIA_TYPE;
use longshore_shared::expedition::{command, create, edit, progress};
use longshore_shared::list::fields::expedition::{EXPEDITION as ORDERS, HandoverState};
use longshore_shared::list::fields::expedition_item::{
    EXPEDITION_ITEM as ITEMS, RESERVATION as RESERVATIONS,
};
use longshore_shared::list::fields::movement::STOCK_MOVEMENT as MOVEMENTS;
use longshore_shared::list::fields::receipt::{INBOUND_RECEIPT, OUTBOUND_RECEIPT};
use serde_json::{Value, json};

use super::catalog;
use super::example::{
    CARRIER, CHANGED, CREATED, ESHOP, EXPEDITION as ORDER, EXPEDITION_ITEM as ITEM, ORGANISATION, PRODUCT,
    STOCK_MOVEMENT, WAREHOUSE, WMS,
};
use super::job::answers_job;
use super::operation::{Operation, list, operation, read};
use super::record::Described;
use super::schema::{
    Said, Shape, any_integer, any_text, array_of, body_of, bytes, id, members, named, object, one_of,
    or_null, text, timestamp,
};
use crate::routes::expedition::{
    bulk, command as commands, edit as edits, invoice as invoices, read as handlers,
};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let wrong = "409 `wrong_status` if the status does not allow it.";
    let with_record = |operation: Operation, says: &str| operation.says(says).says(wrong).updated(&ORDERS);
    let many = |operation: Operation, says: &str| {
        answers_job(operation.body("Ids", catalog::ids(), json!([ORDER])), says).done()
    };
    vec![
        list(handlers::list_expeditions, &ORDERS, "Lists orders"),
        operation(edits::create_expedition, "Creates an order")
            .says(
                "`orderNumber` must be unique in the e-shop; otherwise 400 `already_taken`. With `send`, the order is sent in the same transaction. Bundles are taken apart into their parts; virtual products are put into `removedVirtualProducts`.",
            )
            .body("ExpeditionToCreate", to_create(), creation())
            .created(&ORDERS),
        read(handlers::get_expedition, &ORDERS, "Reads an order"),
        operation(edits::update_expedition, "Changes an order")
            .says(
                "Changes the given fields of an order that is `on_hold` or `incorrect`; null clears a nullable field. `items` replaces all items. `eshop` and `orderNumber` cannot be changed. `errors` stay until the order is sent again.",
            )
            .says(wrong)
            .body("ExpeditionToUpdate", to_update(), json!({"carrier": CARRIER, "deliveryStreet": "Quay Street"}))
            .updated(&ORDERS)
            .refuses(&[409]),
        operation(edits::patch_expedition, "Changes references of an order")
            .says("In any status.")
            .body(
                "ExpeditionReferences",
                body_of(&edit::patch_body()).about("The references of an order."),
                json!({"ref1": "A-7"}),
            )
            .updated(&ORDERS)
            .refuses(&[409]),
        operation(edits::delete_expedition, "Deletes an order")
            .says("An order that is `on_hold`, `incorrect` or `canceled`. Its number can then be used again.")
            .says(wrong)
            .done()
            .refuses(&[409]),
        with_record(
            operation(commands::send_expedition, "Sends an order").body(
                "Send",
                body_of(&command::send_body()).about("How to send an order; the body may be absent."),
                json!({"rebook": false}),
            ),
            "Checks the order and books its items. If something is missing, its status is `incorrect`, and `errors` has everything that is wrong. If not all of it is in stock, it waits. An order that is already sent stays as it is; with `rebook`, it is booked again.",
        )
        .refuses(&[409]),
        with_record(
            operation(commands::process_expedition, "Confirms an order"),
            "An order that is `stock_ok` becomes `awaiting_processing`.",
        )
        .refuses(&[409]),
        with_record(
            operation(commands::roll_back_expedition, "Takes an order back"),
            "Its pieces are free again, and its status is `on_hold`. An order that is handed over is asked back: 202, and the answer of the warehouse decides. Refused once the warehouse has begun with it.",
        )
        .record(202, ASKED, &ORDERS)
        .with(&["ETag", "Location"])
        .refuses(&[409]),
        with_record(
            operation(commands::cancel_expedition, "Cancels an order").body(
                "Cancellation",
                body_of(&command::cancel_body()).about("Why the order is cancelled; the body may be absent."),
                json!({"reason": "The customer changed their mind."}),
            ),
            "Its pieces are free again. An order that is handed over, and not packed, is asked back: 202, its status is `waiting_for_cancel`, and the answer of the warehouse decides. A canceled order does not come back.",
        )
        .record(202, ASKED, &ORDERS)
        .with(&["ETag", "Location"])
        .refuses(&[409]),
        with_record(
            operation(commands::rebook_expedition, "Books an order again"),
            "Gives its pieces back, and sends it again in the same transaction. If others wait for these pieces, the order is served in turn.",
        )
        .refuses(&[409]),
        with_record(
            operation(commands::unbook_expedition, "Gives the pieces of an order back"),
            "The order is passed over (`reservationPaused`) until it is booked again, or taken back and sent.",
        )
        .refuses(&[409]),
        operation(edits::report_expedition, "Reports what the warehouse did")
            .says(
                "Moves the order along the line from `take_out` to `delivered`, or to `incorrect` with `errors`. From `waiting_for_the_carrier` on, its pieces leave the stock; `items` says how many of each, otherwise all.",
            )
            .says(wrong)
            .body("Progress", report(), json!({
                "status": "waiting_for_the_carrier",
                "parcels": [{"extPackageNumber": "1", "extPackageTrackingNumber": "Z123"}],
            }))
            .updated(&ORDERS)
            .refuses(&[409]),
        many(
            operation(bulk::send_expeditions, "Sends orders in bulk"),
            "Creates a job and waits up to 10 seconds for it to end: 204 if all was done; `Prefer` changes that. Refused ids become item errors of the job.",
        ),
        many(
            operation(bulk::process_expeditions, "Confirms orders in bulk"),
            "Creates a job and waits up to 10 seconds for it to end: 204 if all was done; `Prefer` changes that. Refused ids become item errors of the job.",
        ),
        many(
            operation(bulk::roll_back_expeditions, "Takes orders back in bulk"),
            "Creates a job and waits up to 10 seconds for it to end: 204 if all was done; `Prefer` changes that. Refused ids become item errors of the job.",
        ),
        many(
            operation(bulk::cancel_expeditions, "Cancels orders in bulk"),
            "Creates a job and waits up to 10 seconds for it to end: 204 if all was done; `Prefer` changes that. Refused ids become item errors of the job.",
        ),
        operation(invoices::upload_expedition_invoice, "Uploads the invoice of an order")
            .says(&format!(
                "A PDF of at most {} MiB. The format is detected from the content. It takes the place of the invoice that the order has. 409 `wrong_status` if the order is `delivered` or `canceled`.",
                LARGEST / (1024 * 1024)
            ))
            .says("A form (`multipart/form-data`) is accepted, too: the file is its first part with the name `invoice` or `file`; other parts are ignored.")
            .body("InvoiceUpload", invoice_as_json(), json!({
                "fileName": "invoice-42.pdf", "contentType": "application/pdf", "data": ENCODED_PDF,
            }))
            .answers(201, "The stored invoice.", named("ExpeditionInvoice"), Some(invoice()))
            .with(&["ETag", "Location"])
            .refuses(&[409, 410]),
        operation(invoices::get_expedition_invoice, "Reads the invoice of an order")
            .says("Returns the file as it was uploaded.")
            .answers_as(200, "The content of the invoice.", MEDIA_TYPE, bytes(), None)
            .known()
            .refuses(&[410])
            // files are served regardless of Accept
            .never(&[406]),
        operation(invoices::delete_expedition_invoice, "Deletes the invoice of an order")
            .says(wrong)
            .done()
            .refuses(&[409, 410]),
        list(handlers::list_expedition_items, &ITEMS, "Lists items of orders"),
        list(handlers::list_reservations, &RESERVATIONS, "Lists reservations"),
        list(handlers::list_stock_movements, &MOVEMENTS, "Lists stock movements"),
        list(handlers::list_outbound_receipts, &OUTBOUND_RECEIPT, "Lists outbound receipts"),
        list(handlers::list_inbound_receipts, &INBOUND_RECEIPT, "Lists inbound receipts"),
    ]
}

/// A PDF whose bytes are all ASCII, so that JSON can contain them.
const PDF: &str = "%PDF-1.4\n%%EOF\n";

/// The same in base64.
const ENCODED_PDF: &str = "JVBERi0xLjQKJSVFT0YK";

fn invoice_as_json() -> Shape {
    body_of(&upload_body::body()).about("An invoice in JSON.").explain(&[
        ("fileName", "The name of the file: its `originalName`."),
        ("contentType", "Ignored: the format is detected from the content."),
        ("data", "The content in base64, with or without a `data:` URL around it."),
    ])
}

fn invoice() -> Value {
    json!({
        "name": format!("{}.pdf", super::example::ANY), "originalName": "invoice-42.pdf", "mimeType": MEDIA_TYPE,
        "size": PDF.len(),
    })
}

/// The warehouse is asked for an order.
const ASKED: &str = "The order; its warehouse is asked to give it back.";

fn to_create() -> Shape {
    parts(members(&create::schema()))
        .about("An order to create.")
        .explain(MEANINGS)
        .explain(&[("send", "Whether to send it at once. The default is false.")])
}

fn to_update() -> Shape {
    parts(members(&edit::schema())).about("Fields of an order to change.").explain(MEANINGS)
}

/// Names the objects in a body of an order.
pub(super) fn parts(body: Shape) -> Shape {
    let of_item = &[
        ("product", "The id of the product; or `productSku`."),
        ("productSku", "The SKU of the product, if `product` is absent."),
        ("quantity", "Pieces."),
        ("lifo", "Whether the newest pieces are picked first. Some clients send it as a string."),
    ];
    body.part("items", |item| {
        item.part("bookStockAdvices", |advice| advice.called("BookStockAdvice"))
            .explain(of_item)
            .called("ExpeditionItemToCreate")
    })
    .part("carrierOptions", |options| options.called("CarrierOptions"))
}

fn report() -> Shape {
    body_of(&progress::body())
        .about("What the warehouse did.")
        .part("items", |item| item.called("ProgressItem"))
        .part("parcels", |parcel| parcel.called("ProgressParcel"))
        .part("errors", |error| error.called("ProgressError"))
        .explain(&[
            ("at", "When it happened. The default is now."),
            (
                "items",
                "What left of each item; of an item that is not named, nothing. The default is everything.",
            ),
            ("parcels", "Parcels, merged by `extPackageNumber`."),
            ("status", "Required without `cancel`. `canceled` only with `force`, of an order that is `waiting_for_cancel`."),
            ("cancel", "Whether the warehouse gives back what it was asked for; without a status."),
            ("force", "Moves an order of a wms with an active setting, whose system reports itself. The default is false."),
            ("errors", "Why the warehouse cannot do it. Required with `incorrect`."),
        ])
}

fn creation() -> Value {
    json!({
        "eshop": ESHOP, "warehouse": WAREHOUSE, "wms": WMS, "orderNumber": "2026-0042", "value": 19.9, "currency": "EUR",
        "carrier": CARRIER, "billingFirstName": "Ada", "billingLastName": "Byron", "billingStreet": "Quay Street",
        "billingHouseNr": "7", "billingCity": "Bristol", "billingZip": "BS1 4RN", "billingCountry": "GB",
        "billingEmail": "ada@example.com", "items": [{"product": PRODUCT, "quantity": 2}], "send": true,
    })
}

/// A row of an import.
pub(super) fn row() -> Value {
    json!({
        "orderNumber": "2026-0043", "value": "19.90", "currency": "EUR", "deliveryLastName": "Byron",
        "deliveryStreet": "Quay Street", "deliveryCity": "Bristol", "deliveryZip": "BS1 4RN", "deliveryCountry": "GB",
        "items": [{"productSku": "8590000000017", "quantity": 2}],
    })
}

const MEANINGS: &[(&str, &str)] = &[
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
pub(super) const EXPEDITION: Described = Described {
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
        .explain(&[
            ("number", "Which hand-over of the order it is."),
            ("attempts", "Calls that have begun in this state."),
            ("error", "Why the last call failed, or what the warehouse refused."),
            ("wmsInternalId", "The id that the warehouse has given it."),
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
pub(super) const EXPEDITION_ITEM: Described = Described {
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
pub(super) const RESERVATION: Described = Described {
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

/// Movements of stocks.
pub(super) const MOVEMENT: Described = Described {
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
