use std::path::Path;
use std::time::Duration;

use longshore_domain::expedition::command::Command;
use longshore_domain::job::control;
use longshore_domain::partner::push::Push;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk::run;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::Place;

/// A row of an import.
fn row(place: &Place, number: &str, items: &[(usize, i64)]) -> Value {
    let mut row = place.body(number, items);
    row.as_object_mut().unwrap().remove("eshop");
    row
}

/// Imports rows; returns the progress: changed, unchanged, failed.
async fn import(place: &Place, rows: &[Value]) -> (i64, i64, i64) {
    let job = place.world.sync(Push::Expeditions, rows.iter().map(Value::to_string)).await;
    place.world.drain().await;
    let job = place.world.job(job).await;
    assert_eq!(job["state"], "succeeded", "{job}");
    let number = |name: &str| job[name].as_i64().unwrap();
    (number("changed"), number("unchanged"), number("failed"))
}

async fn errors(place: &Place) -> Vec<(i32, String, String)> {
    sqlx::query_as(
        "SELECT index, key, i.code FROM job_item_error i JOIN job ON job.id = i.job_id
         WHERE kind = 'expedition.sync' ORDER BY job_id, index",
    )
    .fetch_all(&place.world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_import_is_taken_once_and_books_in_the_order_of_its_rows(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 5), (1, 5)]).await;
    let rows: Vec<Value> = (0..8).map(|n| row(&place, &format!("N{n}"), &[(0, 1), (1, 1)])).collect();
    assert_eq!(import(&place, &rows).await, (8, 0, 0));
    let booked: Vec<String> = place
        .statuses()
        .await
        .into_iter()
        .filter(|(_, status)| status == "awaiting_processing")
        .map(|(number, _)| number)
        .collect();
    assert_eq!(booked, ["N0", "N1", "N2", "N3", "N4"], "the first five rows");
    place.must_hold().await;
    assert_eq!(import(&place, &rows).await, (0, 8, 0), "the same again");
    // members in another order, and another way to write a number, are the same row
    let mut same = rows[0].to_string().replace("\"value\":10", "\"value\":10.0");
    same.insert_str(1, "\"send\":false,");
    let job = place.world.sync(Push::Expeditions, [same]).await;
    place.world.drain().await;
    assert_eq!(place.world.job(job).await["unchanged"], 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_is_created_while_its_row_is_read_is_not_taken_by_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let mut known = row(&place, "known", &[(0, 1)]);
    known["send"] = json!(false);
    assert_eq!(import(&place, std::slice::from_ref(&known)).await, (1, 0, 0));
    known["note"] = json!("ring twice");
    let rows = [known, row(&place, "new", &[(0, 1)])];
    let job = place.world.sync(Push::Expeditions, rows.iter().map(Value::to_string)).await;
    // it has looked for both numbers, and waits for the order that it knows
    let mut other = place.world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM expedition FOR UPDATE").execute(&mut *other).await.unwrap();
    let running = tokio::spawn(run(place.world.worker.clone(), format!("{job}:0")));
    place.world.until_locked().await;
    place.create(place.body("new", &[(0, 1)])).await.unwrap();
    other.commit().await.unwrap();
    running.await.unwrap();
    assert_eq!(errors(&place).await, []);
    assert_eq!(place.world.outcome(job).await.0, "succeeded");
    assert_eq!(place.world.count("SELECT count(*) FROM expedition").await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_error_of_a_row_names_what_is_malformed_and_what_is_not_there(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let mut malformed = row(&place, "new", &[(0, 1)]);
    malformed.as_object_mut().unwrap().remove("currency");
    malformed["items"] =
        json!([{"productSku": "NONE", "quantity": 1}, {"productSku": "NONE", "quantity": "2"}, 7]);
    assert_eq!(import(&place, &[malformed]).await, (0, 0, 1));
    let message: String =
        sqlx::query_scalar("SELECT message FROM job_item_error").fetch_one(&place.world.owner).await.unwrap();
    let sentences = [
        "items[1].quantity must be an integer, not a string",
        "items[2] must be an object, not a number",
        "currency is required for a new order",
        "items[0].productSku must be a product of the e-shop: none has the SKU \"NONE\"",
        "items[1].productSku must be a product of the e-shop: none has the SKU \"NONE\"",
    ];
    assert_eq!(message, sentences.join("; "));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_row_is_judged_by_what_the_order_is(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 50), (1, 50)]).await;
    let mut held = row(&place, "held", &[(0, 1)]);
    held["send"] = json!(false);
    let mut incorrect = row(&place, "incorrect", &[(0, 1)]);
    incorrect.as_object_mut().unwrap().remove("carrier");
    let first = [
        held.clone(),
        incorrect.clone(),
        row(&place, "sent", &[(0, 1)]),
        json!({"orderNumber": "unknown", "cancel": true}),
        row(&place, "sent", &[(0, 2)]),
        json!({"orderNumber": "new", "value": 1}),
        row(&place, "gone", &[(1, 1)]),
        json!({"orderNumber": "gone", "cancel": true}),
    ];
    assert_eq!(import(&place, &first).await, (5, 0, 3));
    assert_eq!(
        errors(&place).await,
        [
            (3, "unknown".to_owned(), "not_found".to_owned()),
            (4, "sent".to_owned(), "already_taken".to_owned()),
            (5, "new".to_owned(), "required".to_owned()),
        ]
    );
    let statuses = |expected: [&str; 4]| {
        let names = ["gone", "held", "incorrect", "sent"].map(str::to_owned);
        names.into_iter().zip(expected.map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(place.statuses().await, statuses(["canceled", "on_hold", "incorrect", "awaiting_processing"]));
    // other rows: what is on hold stays so, what was incorrect is sent again, what is sent is refused
    held["note"] = json!("wrap it");
    let corrected = row(&place, "incorrect", &[(0, 3)]);
    let mut sent = row(&place, "sent", &[(0, 1)]);
    sent["note"] = json!("too late");
    let cancel = json!({"orderNumber": "gone", "cancel": true});
    assert_eq!(import(&place, &[held, corrected, sent, cancel]).await, (2, 1, 1));
    assert_eq!(
        place.statuses().await,
        statuses(["canceled", "on_hold", "awaiting_processing", "awaiting_processing"])
    );
    assert_eq!(place.stock(0).await, (50, 4, 0));
    place.must_hold().await;
    let mut gone = row(&place, "gone", &[(1, 1)]);
    gone["note"] = json!("too late");
    import(&place, &[gone]).await;
    let messages: Vec<String> = sqlx::query_scalar(
        "SELECT i.message FROM job_item_error i WHERE i.code = 'wrong_status' ORDER BY i.job_id",
    )
    .fetch_all(&place.world.owner)
    .await
    .unwrap();
    let expected = [
        "the order is awaiting_processing: hold it first (PUT …/rollback)",
        "the order is canceled: it has ended: delete it, or use another number",
    ];
    assert_eq!(messages, expected);
    let versions =
        "SELECT version FROM expedition JOIN expedition_detail USING (id) WHERE order_number = 'incorrect'";
    assert_eq!(place.world.count(versions).await, 2, "changed and sent in one transaction");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn lines_of_no_pieces_are_left_out_with_a_notice(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 5)]).await;
    let refunded = row(&place, "A", &[(0, 1), (1, 0)]);
    let nothing = row(&place, "B", &[(0, 0)]);
    assert_eq!(import(&place, &[refunded, nothing]).await, (1, 0, 1));
    let came: Vec<(String, String, String)> =
        sqlx::query_as("SELECT key, code, message FROM job_item_error ORDER BY index")
            .fetch_all(&place.world.owner)
            .await
            .unwrap();
    let expected = [
        ("A", "notice", "items[1] is left out: its quantity is 0"),
        ("B", "required", "items must have a physical product, and at least one piece of it"),
    ];
    assert_eq!(
        came,
        expected.map(|(key, code, message)| (key.to_owned(), code.to_owned(), message.to_owned()))
    );
    assert_eq!(place.world.count("SELECT count(*) FROM expedition_item").await, 1);
    assert_eq!(place.world.count("SELECT count(*) FROM product_stock").await, 1, "none for what is left out");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_person_who_corrects_an_order_is_not_set_back_by_the_same_row(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let mut incorrect = row(&place, "A", &[(0, 1)]);
    incorrect.as_object_mut().unwrap().remove("carrier");
    import(&place, std::slice::from_ref(&incorrect)).await;
    let id = sqlx::query_scalar("SELECT id FROM expedition").fetch_one(&place.world.owner).await.unwrap();
    let (services, context) = (&place.world.services, &place.world.context);
    let carrier = place.body("A", &[])["carrier"].clone();
    let body = json!({"carrier": carrier, "note": "by hand"});
    longshore_domain::expedition::edit::update(services, context, id, body, |_| Ok(())).await.unwrap();
    place.command(id, &Command::Send { rebook: false }).await.unwrap();
    assert_eq!(import(&place, &[incorrect]).await, (0, 1, 0));
    let note = "SELECT count(*) FROM expedition_detail WHERE note = 'by hand'";
    assert_eq!(place.world.count(note).await, 1);
}

/// Two products, the one with the lower id first: stocks are made in the order of these.
async fn by_id(place: &Place) -> [usize; 2] {
    let skus: Vec<String> = sqlx::query_scalar("SELECT product_sku FROM product ORDER BY id")
        .fetch_all(&place.world.owner)
        .await
        .unwrap();
    let numbers: Vec<usize> = skus.iter().map(|sku| sku[1..].parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

async fn lock_product(connection: &mut PgConnection, product: usize) {
    sqlx::query("SELECT FROM product WHERE product_sku = $1 FOR UPDATE")
        .bind(format!("P{product}"))
        .execute(connection)
        .await
        .unwrap();
}

/// Runs the first chunk of an import beside a product sync, which has one product, and takes the other one as soon as the chunk waits.
/// Both must come to an end.
async fn run_beside_a_product_sync(place: &Place, job: JobId, [had, taken]: [usize; 2]) {
    let mut sync = place.world.owner.begin().await.unwrap();
    lock_product(&mut sync, had).await;
    let running = tokio::spawn(run(place.world.worker.clone(), format!("{job}:0")));
    place.world.until_locked().await;
    let both = async {
        lock_product(&mut sync, taken).await;
        sync.commit().await.unwrap();
        running.await.unwrap();
    };
    assert!(tokio::time::timeout(Duration::from_secs(5), both).await.is_ok(), "they wait for each other");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_import_makes_the_stocks_of_its_new_orders_before_it_locks_anything(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    let [had, taken] = by_id(&place).await;
    // a cancelled number ends what is written together
    let rows = [
        row(&place, "first", &[(taken, 1)]),
        json!({"orderNumber": "first", "cancel": true}),
        row(&place, "second", &[(had, 1)]),
    ];
    let job = place.world.sync(Push::Expeditions, rows.iter().map(Value::to_string)).await;
    run_beside_a_product_sync(&place, job, [had, taken]).await;
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert_eq!(place.world.count("SELECT count(*) FROM product_stock").await, 2);
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_import_gives_its_locks_back_when_a_known_order_lacks_a_stock_of_a_locked_product(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    let [had, taken] = by_id(&place).await;
    let corrected = row(&place, "incorrect", &[(had, 1)]);
    let mut incorrect = corrected.clone();
    incorrect.as_object_mut().unwrap().remove("carrier");
    assert_eq!(import(&place, &[incorrect]).await, (1, 0, 0));
    place.world.execute("DELETE FROM product_stock").await;
    let rows =
        [row(&place, "first", &[(taken, 1)]), json!({"orderNumber": "first", "cancel": true}), corrected];
    let job = place.world.sync(Push::Expeditions, rows.iter().map(Value::to_string)).await;
    run_beside_a_product_sync(&place, job, [had, taken]).await;
    // under a heavy load, the chunk has been put back
    place.world.execute("UPDATE job_chunk SET next_attempt_at = now() WHERE state = 'queued'").await;
    place.world.drain().await;
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_import_makes_no_stock_for_orders_that_are_not_sent_or_are_refused(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    let mut held = row(&place, "held", &[(0, 1)]);
    held["send"] = json!(false);
    let mut edited = row(&place, "edited", &[(0, 1)]);
    edited["editBeforeProcessing"] = json!(true);
    let mut malformed = row(&place, "malformed", &[(1, 1)]);
    malformed["currency"] = json!(7);
    assert_eq!(import(&place, &[held.clone(), edited, malformed]).await, (2, 0, 1));
    // the same again, to be sent: it is known, and stays as it is
    held["send"] = json!(true);
    assert_eq!(import(&place, &[held]).await, (0, 1, 0));
    assert_eq!(place.world.count("SELECT count(*) FROM product_stock").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_retry_leaves_the_row_that_repeats_an_earlier_one(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    let held = |number: &str, pieces: i64, external_id: &str| {
        let mut row = row(&place, number, &[(0, pieces)]);
        row["send"] = json!(false);
        row["externalId"] = json!(external_id);
        row.to_string()
    };
    let (services, context) = (&place.world.services, &place.world.context);
    let job = place.world.sync(Push::Expeditions, [held("D1", 1, "d1"), held("D1", 7, "d1")]).await;
    place.world.drain().await;
    assert_eq!(place.world.errors(job).await, ["1 D1 already_taken"]);
    let refused = control::retry(services, context, job).await.unwrap_err();
    assert_eq!((refused.kind().status, refused.detail()), (409, "this job has nothing to retry"));
    assert_eq!(place.world.count("SELECT quantity::bigint FROM expedition_item").await, 1);

    // a value that another order had may be free by now
    let rows = [held("E1", 1, "e"), held("E2", 1, "e"), held("E1", 7, "e")];
    let job = place.world.sync(Push::Expeditions, rows).await;
    place.world.drain().await;
    assert_eq!(place.world.errors(job).await, ["1 E2 already_taken", "2 E1 already_taken"]);
    place.world.execute("UPDATE expedition_detail SET external_id = NULL WHERE order_number = 'E1'").await;
    control::retry(services, context, job).await.unwrap();
    place.world.drain().await;
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 1]));
    assert_eq!(place.world.errors(job).await, ["2 E1 already_taken"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn chunks_of_an_import_run_one_after_the_other(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 700)]).await;
    let rows: Vec<String> =
        (0..1_200).map(|n| row(&place, &format!("N{n:04}"), &[(0, 1)]).to_string()).collect();
    place.world.sync(Push::Expeditions, rows).await;
    let due = longshore_domain::job::dispatch::due(&place.world.services.db.main).await.unwrap();
    assert_eq!(due.len(), 1, "the others wait for the first: {due:?}");
    place.world.drain().await;
    let booked = "SELECT count(*) FROM expedition JOIN expedition_detail USING (id)
                  WHERE status = 'awaiting_processing' AND order_number < 'N0700'";
    assert_eq!(place.world.count(booked).await, 700, "the first in the stream are the first in turn");
    place.must_hold().await;
}

/// The real orders of a shop, as they are: no addresses, negative counts, postage.
#[sqlx::test(migrator = "MIGRATIONS")]
async fn real_orders_are_taken_or_refused_with_reasons(_: PgPoolOptions, options: PgConnectOptions) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let (Ok(products), Ok(orders)) = (
        std::fs::read_to_string(data.join("online-retail-products.ndjson")),
        std::fs::read_to_string(data.join("online-retail-orders.ndjson")),
    ) else {
        println!("SKIPPED: there is no real data beside the checkout");
        return;
    };
    let place = Place::new(&options, 0).await;
    let products = products.lines().map(|line| {
        let product: Value = serde_json::from_str(line).unwrap();
        json!({"productSku": product["sku"], "name": product["name"]}).to_string()
    });
    place.world.sync(Push::Products, products).await;
    place.world.drain().await;
    let rows: Vec<Value> =
        orders.lines().map(|line| converted(&serde_json::from_str(line).unwrap())).collect();
    let (changed, unchanged, failed) = import(&place, &rows).await;
    assert_eq!(usize::try_from(changed + failed).unwrap(), rows.len());
    assert!(changed > 0 && failed > 0 && unchanged == 0, "{changed} taken, {failed} refused");
    assert_eq!(errors(&place).await.len(), usize::try_from(failed).unwrap());
    place.must_hold().await;
    assert_eq!(import(&place, &rows).await, (0, changed, failed), "the same again");
    let incorrect = "SELECT count(*) FROM expedition WHERE status <> 'incorrect'";
    assert_eq!(place.world.count(incorrect).await, 0, "none has an address or a carrier");
}

/// The fields of a real order by our names; nothing is cleaned.
fn converted(order: &Value) -> Value {
    let items = order["items"].as_array().unwrap();
    let number = |value: &Value| value.as_str().map_or_else(|| value.as_f64(), |text| text.parse().ok());
    let sum: f64 =
        items.iter().filter_map(|item| Some(number(&item["unitPrice"])? * number(&item["quantity"])?)).sum();
    let items: Vec<Value> = items
        .iter()
        .map(|item| {
            json!({"productSku": item["sku"], "quantity": item["quantity"], "productValue": item["unitPrice"],
                   "productValueCurrency": "GBP"})
        })
        .collect();
    json!({"orderNumber": order["orderNumber"], "value": format!("{sum:.2}"), "currency": "GBP", "items": items})
}
