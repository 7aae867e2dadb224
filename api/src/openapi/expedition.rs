//! Orders, which the API calls expeditions, with their items, reservations and the movements of stocks.

mod record;

use longshore_domain::catalog::image::{LARGEST, upload_body};
use longshore_domain::expedition::bulk::body as bulk_body;
use longshore_domain::expedition::invoice::MEDIA_TYPE;
use longshore_domain::expedition::{command, create, edit, progress};
use serde_json::{Value, json};

use self::record::MEANINGS;
pub(super) use self::record::{EXPEDITION, EXPEDITION_ITEM, LOST_ORDER, MOVEMENT, RESERVATION};
use super::example::{CARRIER, ESHOP, EXPEDITION as ORDER, PRODUCT, WAREHOUSE, WMS};
use super::job::{answers_job, chosen};
use super::operation::{Operation, list, operation, read};
use super::receipt::{INBOUND, OUTBOUND};
use super::schema::{Shape, body_of, bytes, file_form, members, named};
use crate::routes::expedition::{
    bulk, command as commands, edit as edits, invoice as invoices, lost_order, read as handlers,
};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let with_record =
        |operation: Operation, says: &str| operation.says(says).updated(&EXPEDITION).refuses(&[409]);
    let many = |operation: Operation| {
        let says = "Creates a job and waits up to 10 seconds for its end: 204 if all was done. Refused ids become item errors.";
        answers_job(chosen(operation, "Chosen", &bulk_body(), json!([ORDER])), says).done()
    };
    vec![
        list(handlers::list_expeditions, &EXPEDITION, "Lists orders"),
        operation(edits::create_expedition, "Creates an order")
            .says(
                "`orderNumber` must be unique in the e-shop; otherwise 400 `already_taken`. With `send`, the order is sent in the same transaction. Bundles are taken apart into their parts; virtual products are put into `removedVirtualProducts`.",
            )
            .body("ExpeditionToCreate", to_create(), creation())
            .created(&EXPEDITION),
        read(handlers::get_expedition, &EXPEDITION, "Reads an order"),
        operation(edits::update_expedition, "Changes an order")
            .says(
                "Changes the given fields of an order that is `on_hold` or `incorrect`; null, or an empty string, clears a nullable field. `items` replaces all items. `eshop` and `orderNumber` cannot be changed. `errors` stay until the order is sent again. Of an order that was sent and is not handed over, the addresses, the carrier, notes, references and `requiredExpeditionDate` can be changed: it keeps its pieces.",
            )
            .says("400 with `wrong_status` at `status` if the status does not allow it.")
            .body("ExpeditionToUpdate", to_update(), json!({"carrier": CARRIER, "deliveryStreet": "Quay Street"}))
            .updated(&EXPEDITION)
            .refuses(&[409]),
        operation(edits::patch_expedition, "Changes references of an order")
            .says("In any status.")
            .body(
                "ExpeditionReferences",
                body_of(&edit::patch_body()).about("The references of an order."),
                json!({"ref1": "A-7"}),
            )
            .updated(&EXPEDITION)
            .refuses(&[409]),
        operation(edits::delete_expedition, "Deletes an order")
            .says("An order that is `on_hold`, `incorrect` or `canceled`. Its number can then be used again.")
            .done()
            .refuses(&[409]),
        with_record(
            operation(commands::send_expedition, "Sends an order").body(
                "Send",
                body_of(&command::send_body()).about("How to send an order; the body may be absent."),
                json!({"rebook": false}),
            ),
            "Checks the order and books its items. If something is missing, its status is `incorrect`, and `errors` has everything that is wrong. If not all of it is in stock, it waits. An order that is already sent stays as it is; with `rebook`, it is booked again.",
        ),
        with_record(
            operation(commands::process_expedition, "Confirms an order"),
            "An order that is `stock_ok` becomes `awaiting_processing`.",
        ),
        with_record(
            operation(commands::roll_back_expedition, "Takes an order back"),
            "Its pieces are free again, and its status is `on_hold`. An order that is handed over is asked back: 202, and the answer of the warehouse decides. Refused once the warehouse has begun with it.",
        )
        .record(202, ASKED, &EXPEDITION)
        .with(&["ETag", "Location"]),
        with_record(
            operation(commands::cancel_expedition, "Cancels an order").body(
                "Cancellation",
                body_of(&command::cancel_body()).about("Why the order is cancelled; the body may be absent."),
                json!({"reason": "The customer changed their mind."}),
            ),
            "Its pieces are free again. An order that is handed over, and not packed, is asked back: 202, its status is `waiting_for_cancel`, and the answer of the warehouse decides. A canceled order does not come back.",
        )
        .record(202, ASKED, &EXPEDITION)
        .with(&["ETag", "Location"]),
        with_record(
            operation(commands::rebook_expedition, "Books an order again"),
            "Gives its pieces back, and sends it again in the same transaction. If others wait for these pieces, the order is served in turn.",
        ),
        with_record(
            operation(commands::unbook_expedition, "Gives the pieces of an order back"),
            "The order is passed over (`reservationPaused`) until it is booked again, or taken back and sent.",
        ),
        operation(edits::report_expedition, "Reports what the warehouse did")
            .says(
                "Moves the order along the line from `take_out` to `delivered`, or to `incorrect` with `errors`. From `waiting_for_the_carrier` on, its pieces leave the stock; `items` says how many of each, otherwise all.",
            )
            .body("Progress", report(), json!({
                "status": "waiting_for_the_carrier",
                "parcels": [{"extPackageNumber": "1", "extPackageTrackingNumber": "Z123"}],
            }))
            .updated(&EXPEDITION)
            .refuses(&[409]),
        many(operation(bulk::send_expeditions, "Sends orders in bulk")),
        many(operation(bulk::process_expeditions, "Confirms orders in bulk")),
        many(operation(bulk::roll_back_expeditions, "Takes orders back in bulk")),
        many(operation(bulk::cancel_expeditions, "Cancels orders in bulk")),
        operation(invoices::upload_expedition_invoice, "Uploads the invoice of an order")
            .says(&format!(
                "A PDF of at most {} MiB. The format is detected from the content. It takes the place of the invoice that the order has. 409 `wrong_status` if the order is `delivered` or `canceled`.",
                LARGEST / (1024 * 1024)
            ))
            .says("Parts of a form with other names are ignored.")
            .body("InvoiceUpload", invoice_as_json(), json!({
                "fileName": "invoice-42.pdf", "contentType": "application/pdf", "data": ENCODED_PDF,
            }))
            .schema("InvoiceForm", file_form("invoice", "The file with the invoice.").about("An invoice in a form."))
            .form("multipart/form-data", named("InvoiceForm"), Some(json!({"invoice": PDF})))
            .answers(201, "The stored invoice.", named("ExpeditionInvoice"), Some(invoice()))
            .with(&["ETag", "Location"])
            .refuses(&[409]),
        operation(invoices::get_expedition_invoice, "Reads the invoice of an order")
            .says("Returns the file as it was uploaded.")
            .answers_as(200, "The content of the invoice.", MEDIA_TYPE, bytes(), None)
            .known(),
        operation(invoices::delete_expedition_invoice, "Deletes the invoice of an order")
            .done()
            .refuses(&[409]),
        list(handlers::list_expedition_items, &EXPEDITION_ITEM, "Lists items of orders"),
        list(handlers::list_reservations, &RESERVATION, "Lists reservations"),
        list(handlers::list_stock_movements, &MOVEMENT, "Lists stock movements"),
        list(handlers::list_outbound_receipts, &OUTBOUND, "Lists outbound receipts"),
        list(handlers::list_inbound_receipts, &INBOUND, "Lists inbound receipts"),
        list(lost_order::list_lost_orders, &LOST_ORDER, "Lists orders that only a warehouse has"),
        operation(lost_order::dismiss_lost_order, "Dismisses an order that only a warehouse has")
            .says("404 if it is not kept.")
            .done()
            .never(&[410]),
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
            (
                "force",
                "Moves an order of a wms with an active setting, whose system reports itself. An order that the system has is \
                 asked back before it is `incorrect`. The default is false.",
            ),
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
