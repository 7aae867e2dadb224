//! Partner integration: settings, and the two syncs.

mod setting;

use longshore_http::extract::lines::NDJSON;
use longshore_shared::list::fields::job::JOB as JOBS;
use longshore_shared::partner::pull;
use longshore_shared::warehouse::stock::sync::LARGEST_QUANTITY;
use serde_json::json;

use super::catalog;
use super::example::{ESHOP, WAREHOUSE};
use super::operation::{JSON, Operation, post};
use super::schema::{Said, Shape, about, array, bytes, either, id, integer, named, object, one_of, text};
use crate::routes::partner::sync;

/// No limit on the rows of one document other than its bytes.
const ROWS: usize = 32 * 1024 * 1024;

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let products = object()
        .about("A catalogue with its rows, or, without `products`, an inventory that the worker fetches from the partner.")
        .required("eshop", id())
        .optional("inventoryId", text(1..=255))
        .optional("products", about(array(0..=ROWS, named("ProductRow")), OF_ROWS))
        .explain(&[("inventoryId", "The partner's id of the inventory; it must be there without `products`.")]);
    let stocks = object()
        .about(
            "Stock counts with their rows; or, without `stocks`, what the worker fetches from the partner (`direction` `in`) \
             or sends to it.",
        )
        .required("eshop", id())
        .required("warehouseId", text(1..=255))
        .optional("stocks", about(array(0..=ROWS, named("StockRow")), OF_ROWS))
        .optional("direction", one_of(&["in", "out"]))
        .explain(&[("direction", "Only without `stocks`; `out` where it is left out.")]);
    let product_pull = object()
        .about("An inventory of the e-shop's partner, which the worker fetches by the integration setting.")
        .required("eshop", id())
        .required("inventoryId", text(1..=255));
    let stock_pull = object()
        .about("Stocks of a warehouse of the e-shop's partner, which the worker fetches by the integration setting.")
        .required("eshop", id())
        .required("warehouseId", text(1..=255))
        .required("direction", one_of(&["in"]));
    let count = object()
        .about("A row of a stock sync.")
        .required("productSku", text(1..=255))
        .required("quantity", integer(0..=i64::from(LARGEST_QUANTITY)));
    let mut operations = setting::operations();
    operations.extend([
        pushes(
            post("/api/partner-integration/eshop/sync/products", sync::sync_products, "Takes over a catalogue"),
            "A product is matched by `productSku` in the e-shop's organisation: created when new, updated where a given \
             field differs, and attached to the e-shop. Each row is a `ProductRow`; one that breaks a rule is an item \
             error of the job, and the others go in. Nothing is deactivated for being absent.",
        )
        .says(
            "With `inventoryId` and without `products`, the worker fetches them from the partner by the e-shop's integration \
             setting; what it fetches is executed while the rest comes. An equal request returns the job that waits still. \
             An array names several inventories or e-shops, all accepted or none; its answer is the array of the jobs.",
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
        )))),
        pushes(
            post(
                "/api/partner-integration/eshop/sync/product-stocks",
                sync::sync_product_stocks,
                "Takes over stock counts",
            ),
            "Sets quantities in a warehouse, in the wms that the e-shop's integration setting maps, or else in the \
             warehouse's default one; where there is neither, it is refused (400). Each row is a `StockRow`; one that breaks \
             a rule is an item error of the job, and the others go in.",
        )
        .says("With `direction` `in` and without `stocks`, the worker fetches them from the partner, as with products.")
        .says(
            "Without `stocks` and without `direction`, the worker sends what is available (`quantity` less `booked` less the \
             setting's `reserve`) to that warehouse of the partner, where it differs from what the partner last took. An \
             equal request returns the job that waits still.",
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
        )))),
    ]);
    operations
}

const OF_ROWS: &str = "The rows. One that breaks a rule is an item error of the job, and the others go in.";

/// A sync, or several pulls. One object covers all kinds of syncs, because generators make a good class of
/// it.
fn forms(sync: &str, pull: &str) -> Said {
    either([named(sync), array(1..=pull::MOST, named(pull))])
}

fn pushes(operation: Operation, says: &str) -> Operation {
    operation
        .says(says)
        .says(
            "As one JSON document of at most 32 MiB and 100,000 rows, or as NDJSON of any length: the first line says what the rows are \
             for, every other line is a row of at most 1 MiB. A stream that breaks off leaves nothing behind. Answers \
             with the job at once unless `Prefer` says otherwise.",
        )
        .record(200, "The job: ended, or answered at once without being asked to wait.", &JOBS)
        .record(202, "The job: accepted, and not ended yet.", &JOBS)
        .or_several(&JOBS)
        .with(&["Location"])
}

/// A row of a product sync: the fields of a product, without the organisation and e-shops, which are those of
/// the sync. It has no defaults: generated clients would send them, and overwrite stored values.
fn row() -> Shape {
    catalog::said().without_defaults().explain(catalog::MEANINGS).about(
        "A row of a product sync. What it leaves out stays as it is. A new product needs a `name`. Where its \
         row does not say otherwise, its `internalSku` is its `productSku`, its `packagingType` is `A`, the four `workAround…` \
         switches and `imeiCheckRequired` are false, and `active` is true.",
    )
}
