//! Partner integration: settings, and the two syncs.

mod setting;
mod wms_setting;

use longshore_domain::catalog::product::rules;
use longshore_domain::expedition::{import, news};
use longshore_domain::partner::pull;
use longshore_domain::partner::push::{self, Push};
use longshore_domain::warehouse::stock::sync as stock;
use longshore_http::extract::csv::CSV;
use longshore_http::extract::document::MOST_ROWS;
use longshore_http::extract::lines::NDJSON;
use longshore_kernel::encoding::charset::Charset;
use longshore_kernel::input::{Member, Rule, Schema};
use serde_json::{Value, json};

use super::example::{CHANGED, ESHOP, EXPEDITION, WAREHOUSE, WMS};
use super::job::JOB;
use super::operation::{JSON, Operation, operation};
use super::schema::{
    LIMIT, Said, Shape, about, accepted, any_text, array, array_of, body_of, bytes, either, members, named,
    one_of, text,
};
use super::{catalog, expedition, record};
use crate::routes::partner::sync;

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let products = body_of(&push::product_header())
        .about("The rows of a catalogue; or, without `products`, an inventory that the worker fetches from the partner.")
        .optional("products", about(array(0..=MOST_ROWS, named("ProductRow")), OF_ROWS))
        .explain(&[("inventoryId", "The partner's id of the inventory. Required without `products`.")]);
    let stocks = body_of(&push::stock_header())
        .about(
            "The rows of stock quantities; or, without `stocks`, the quantities that the worker fetches from the partner (`direction` `in`) or sends to it (`out`).",
        )
        .optional("stocks", about(array(0..=MOST_ROWS, named("StockRow")), OF_ROWS))
        .optional("direction", one_of(&["in", "out"]))
        .explain(&[("direction", "Only without `stocks`. The default is `out`.")]);
    let product_pull = body_of(&pull::wish(Push::Products)).about(
        "An inventory that the worker fetches from the e-shop's partner, as the integration setting says.",
    );
    let stock_pull = body_of(&pull::wish(Push::Stocks))
        .about("Stocks of a warehouse that the worker fetches from the e-shop's partner, as the integration setting says.");
    let orders = body_of(&push::expedition_header())
        .about("The rows of orders.")
        .required("expeditions", about(array(0..=MOST_ROWS, named("ExpeditionRow")), OF_ROWS))
        .explain(&[(
            "send",
            "Whether new orders are sent, where their rows do not say it. The default is whether the e-shop does not edit them first.",
        )]);
    let order = expedition::parts(members(&import::schema())).about(
        "A row of an import of orders: the body of a create without `eshop`; or `{\"orderNumber\", \"cancel\": true}`, which cancels the order. A new order needs `value`, `currency` and `items`.",
    );
    let report = members(&news::schema())
        .about("What a warehouse reports of one order.")
        .part("items", |item| item.explain(OF_REPORTED_ITEM).called("NewsItem"))
        .part("parcels", |parcel| parcel.called("ProgressParcel"))
        .part("errors", |error| error.called("ProgressError"))
        .explain(OF_REPORT);
    let reports = body_of(&push::news_header())
        .about("The reports of a wms.")
        .required("news", about(array(0..=MOST_ROWS, named("NewsRow")), OF_ROWS));
    let count = body_of(&stock::row())
        .about("A row of a stock sync.")
        .explain(&[("quantity", "Pieces in stock. A negative number is taken as 0, with a notice.")]);
    let mut operations = setting::operations();
    operations.extend(wms_setting::operations());
    operations.extend([
        pushes(
            operation(sync::sync_products, "Syncs products"),
            "Matches products by `productSku` in the e-shop's organisation. Creates new products, updates fields that differ, and attaches the products to the e-shop. An invalid row becomes an item error of the job; the other rows are stored. Products that are not in the request stay active.",
        )
        .says(
            "With `inventoryId` and without `products`, the worker fetches the products from the partner. If an identical job is still waiting, it is returned. An array names several inventories or e-shops: all are accepted or none, and the response is the array of jobs.",
        )
        .schema("ProductRow", row())
        .schema("ProductSync", products)
        .schema("ProductPull", product_pull)
        .form(JSON, forms("ProductSync", "ProductPull"), Some(json!({"eshop": ESHOP, "products": [
            {"productSku": "8590000000017", "name": "Harbour mug", "weight": 320},
        ]})))
        .form(NDJSON, bytes(), Some(json!(format!(
            "{}\n{}\n",
            json!({"eshop": ESHOP}),
            json!({"productSku": "8590000000017", "name": "Harbour mug", "weight": 320}),
        ))))
        .takes_csv(&push::product_header(), "guard.maxDeactivated", "productSku;name;weight\n8590000000017;Harbour mug;320\n"),
        pushes(
            operation(sync::sync_product_stocks,
                "Syncs stocks",
            ),
            "Sets quantities in a warehouse, in the wms that the e-shop's integration setting maps, or else in the default wms of the warehouse. If there is neither, the request is refused with 400. An invalid row becomes an item error of the job; the other rows are stored.",
        )
        .says("With `direction` `in` and without `stocks`, the worker fetches the quantities from the partner, as for products.")
        .says(
            "Without `stocks` and without `direction`, the worker sends available quantities (`quantity` minus `booked` minus the `reserve` of the setting) to that warehouse of the partner. It sends only quantities that differ from the last ones the partner accepted.",
        )
        .schema("StockRow", count)
        .schema("StockSync", stocks)
        .schema("StockPull", stock_pull)
        .form(JSON, forms("StockSync", "StockPull"), Some(json!({"eshop": ESHOP, "warehouseId": WAREHOUSE, "stocks": [
            {"productSku": "8590000000017", "quantity": 120},
        ]})))
        .form(NDJSON, bytes(), Some(json!(format!(
            "{}\n{}\n",
            json!({"eshop": ESHOP, "warehouseId": WAREHOUSE}),
            json!({"productSku": "8590000000017", "quantity": 120}),
        ))))
        .takes_csv(&push::stock_header(), "guard.maxZeroed", "productSku;quantity\n8590000000017;120\n"),
        pushes(
            operation(sync::sync_expeditions, "Imports orders"),
            "Matches orders by `orderNumber` in the e-shop. Creates new orders and sends them; a row that was already taken changes nothing. An order that is `on_hold` or `incorrect` gets the fields of its row; a later one is refused as an item error. The rows are executed in their order.",
        )
        .schema("ExpeditionRow", order)
        .schema("ExpeditionSync", orders)
        .form(JSON, named("ExpeditionSync"), Some(json!({"eshop": ESHOP, "expeditions": [expedition::row()]})))
        .form(NDJSON, bytes(), Some(json!(format!("{}\n{}\n", json!({"eshop": ESHOP}), expedition::row()))))
        .takes_csv(
            &push::expedition_header(),
            "guard.maxCancelled",
            "orderNumber;value;currency;item.productSku;item.quantity\nA-1;29,80;EUR;8590000000017;2\n",
        ),
        operation(sync::sync_news, "Reports what a warehouse did")
            .says(
                "Takes reports about orders of a wms. Each has an `id` that is unique in the wms and takes effect once, so a request can be repeated until it is answered. The order of reports does not matter. A report that is not possible becomes an item error of the job.",
            )
            .says(
                "Up to 100 reports are done within the request. For more, or after 10 seconds, the answer is 202; the same request with the same `Idempotency-Key` then shows how far the job is. `errors` has the first 100 item errors so far.",
            )
            .schema("NewsRow", report)
            .schema("NewsSync", reports)
            .schema("NewsJob", answered())
            .form(JSON, named("NewsSync"), Some(json!({"wms": WMS, "news": [reported()]})))
            .form(NDJSON, bytes(), Some(json!(format!("{}\n{}\n", json!({"wms": WMS}), reported()))))
            .answers(200, "The job, which has ended.", named("NewsJob"), Some(done()))
            .answers(202, "The job: accepted, not ended.", named("NewsJob"), None)
            .with(&["Location"]),
    ]);
    operations
}

const OF_ROWS: &str = "The rows.";

/// A sync, or several pulls. One object covers all kinds of syncs, because generators make a good class of
/// it.
fn forms(sync: &str, pull: &str) -> Said {
    either([named(sync), array(1..=pull::MOST, named(pull))])
}

/// A report.
fn reported() -> Value {
    json!({
        "id": "W-1-77", "expedition": EXPEDITION, "number": 1, "status": "waiting_for_the_carrier", "at": CHANGED,
        "items": [{"productSku": "8590000000017", "expedited": 2}],
        "parcels": [{"extPackageNumber": "1", "extPackageTrackingNumber": "Z123"}],
    })
}

/// The job of reports, as the operation answers with it.
fn answered() -> Shape {
    record::members(&JOB)
        .about("A job that takes reports of a warehouse: the members of `Job`, and the first 100 reports that were refused.")
        .required("errors", array_of(named("ItemError")))
        .explain(&[("errors", "The first 100 item errors so far.")])
}

fn done() -> Value {
    let mut job = (JOB.example)();
    job["kind"] = json!("expedition.news");
    job["eshop"] = Value::Null;
    job["errors"] = json!([{
        "index": 1, "line": null, "key": "W-1-78", "code": "unknown_expedition",
        "message": "expedition must be an order of the wms",
    }]);
    job
}

const OF_REPORT: &[(&str, &str)] = &[
    ("id", "The id of the report, unique in the wms."),
    ("expedition", "The order; or `eshop` and `orderNumber`."),
    ("eshop", "The e-shop of the order, with `orderNumber`."),
    ("orderNumber", "The number of the order in the e-shop."),
    ("number", "The number of the hand-over that the report is about. The default is the latest one."),
    ("at", "When it happened, at most five minutes ahead. The default is when the report came."),
    ("status", "The status that the order has reached."),
    ("items", "What left of each item; of an item that is not named, nothing. The default is everything."),
    ("parcels", "Parcels, merged by `extPackageNumber`."),
    ("errors", "Why the warehouse cannot do it. Required with `incorrect`."),
    ("cancel", "Whether the warehouse gives the order back that it was asked for."),
    ("wmsInternalId", "What the warehouse calls the order."),
];

const OF_REPORTED_ITEM: &[(&str, &str)] = &[
    ("id", "The item; or `product`, or `productSku`."),
    ("product", "The product; if several items have it, they are filled by position."),
    ("expedited", "How many pieces left."),
    ("lot", "The lot that they were taken from."),
    ("serialNumbers", "Their serial numbers."),
];

impl Operation {
    /// It takes a file of CSV, with what is in the header of NDJSON in the query.
    fn takes_csv(self, header: &impl Rule, of_guard: &'static str, example: &'static str) -> Self {
        let Schema::Object(members) = header.schema() else { return self };
        let charsets: Vec<&str> = Charset::names().collect();
        let of_member = |operation: Self, member: Member| {
            if let Schema::Object(inner) = &member.schema {
                let limit = inner.first().map_or_else(any_text, |limit| accepted(&limit.schema));
                return operation.schema(LIMIT, limit).query(of_guard, any_text(), None);
            }
            let schema = match &member.schema {
                Schema::OrNull(schema) => &**schema,
                schema => schema,
            };
            let example = match member.name {
                "eshop" => Some(json!(ESHOP)),
                "warehouseId" => Some(json!(WAREHOUSE)),
                _ => None,
            };
            operation.query(member.name, accepted(schema), example)
        };
        members
            .into_iter()
            .fold(self, of_member)
            .query("delimiter", text(1..=3), None)
            .query("charset", one_of(&charsets), None)
            .form(CSV, any_text(), Some(json!(example)))
    }
}

fn pushes(operation: Operation, says: &str) -> Operation {
    operation
        .says(says)
        .says("Returns the job at once.")
        .record(200, "The job: ended, or returned without waiting.", &JOB)
        .record(202, "The job: accepted, not ended.", &JOB)
        .or_several(&JOB)
        .with(&["Location"])
}

/// A row of a product sync: the fields of a product, without the organisation and e-shops, which are those of
/// the sync. It has no defaults: generated clients would send them, and overwrite stored values.
fn row() -> Shape {
    catalog::product_of(&rules::schema_of_sync_row()).about(
        "A row of a product sync. Fields that are left out stay as they are. A new product needs a `name`. Defaults of a new product: `internalSku` is the `productSku`, `packagingType` is `A`, the four `workAround…` fields and `imeiCheckRequired` are false, and `active` is true.",
    )
}
