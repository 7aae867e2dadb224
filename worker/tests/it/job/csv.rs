//! Files of CSV, executed (`docs/reference/syncs.md#csv`).

use longshore_domain::job::control;
use longshore_domain::job::row::form::Form;
use longshore_domain::partner::push::Push::{Expeditions, Products, Stocks};
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;
use crate::expedition::support::Place;

/// The item errors of a job: line, key, code and message.
async fn refused(world: &World, job: JobId) -> Vec<(i64, Option<String>, String, String)> {
    sqlx::query_as(
        "SELECT line, key, code, message FROM job_item_error WHERE job_id = $1 AND NOT notice ORDER BY index",
    )
    .bind(job)
    .fetch_all(&world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn rows_of_csv_do_what_those_of_ndjson_do(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let text =
        "productSku;name;weight;active;referenceNumbers;_mark\nP1;Hrníček;320;yes;1|2;x\nP2;'=Mug;;no;;\n";
    let job = world.sync_csv(Products, text).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));
    let rows = [
        json!({"productSku": "P1", "name": "Hrníček", "weight": 320, "active": true, "referenceNumbers": ["1", "2"], "_mark": "y"}),
        json!({"productSku": "P2", "name": "=Mug", "active": false, "_": {}}),
    ];
    let job = world.sync(Products, rows.iter().map(ToString::to_string)).await;
    world.drain().await;
    assert_eq!(
        world.outcome(job).await,
        ("succeeded".to_owned(), [0, 2, 0]),
        "{:?}",
        world.errors(job).await
    );
    // a cleared field, and those that are not given
    let job = world.sync_csv(Products, "productSku,weight\nP1,\\N\nP2,\n").await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 1, 0]));
    let job = world.sync_csv(Stocks, "productSku\tquantity\nP1\t7\nP2\t-1\n").await;
    world.drain().await;
    assert_eq!(
        world.outcome(job).await,
        ("succeeded".to_owned(), [2, 0, 0]),
        "{:?}",
        world.errors(job).await
    );
    assert_eq!(world.count("SELECT quantity::bigint FROM product_stock WHERE quantity > 0").await, 7);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refused_row_of_csv_names_line_and_column_also_after_a_retry(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let text = "productSku;weight;name;active\n\
                P1;heavy;\"two\nlines\";perhaps\n\
                8,59E+12;;Mug;\n\
                P2;1;Mug;;;surplus\n\
                P3;3,5;Mug;\n\
                P3;4;Mug;\n";
    let job = world.sync_csv(Products, text).await;
    let expected = [
        (
            2,
            "P1",
            "invalid_data",
            "weight must be an integer, not a string; active must be a boolean, not a string",
        ),
        (
            4,
            "8,59E+12",
            "looks_like_a_spreadsheet_number",
            "productSku looks like a number that a spreadsheet has shortened (8,59E+12); format the column as text, and fill it again",
        ),
        (5, "P2", "malformed_row", "has 6 cells, and the first line of the file names 4"),
        (6, "P3", "wrong_type", "weight must be an integer, without a fraction"),
    ];
    let expected = expected
        .map(|(line, key, code, message)| (line, Some(key.to_owned()), code.to_owned(), message.to_owned()));
    let duplicate = (
        7,
        Some("P3".to_owned()),
        "duplicate".to_owned(),
        "the row in line 6 has the same productSku".to_owned(),
    );
    world.drain().await;
    assert_eq!(refused(&world, job).await, [&expected[..], std::slice::from_ref(&duplicate)].concat());
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!(refused(&world, job).await, [&expected[..], &[duplicate]].concat());
    // what is kept of them is what was sent
    let parameters = world.job(job).await["parameters"].clone();
    let Form::Csv(form) = Form::of_parameters(&parameters) else { panic!("{parameters}") };
    let kept: Vec<Vec<u8>> =
        sqlx::query_scalar("SELECT payload FROM job_item_error WHERE job_id = $1 ORDER BY index")
            .bind(job)
            .fetch_all(&world.owner)
            .await
            .unwrap();
    let cells: Vec<Vec<String>> = kept.iter().flat_map(|row| form.cells(row)).collect();
    assert_eq!(cells[0], ["P1", "heavy", "two\nlines", "perhaps"]);
    assert_eq!(cells[1], ["8,59E+12", "", "Mug", ""]);
    assert_eq!(cells[2], ["P2", "1", "Mug", "", "", "surplus"]);
    assert_eq!(cells[3], ["P3", "3,5", "Mug", ""]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_of_several_lines_are_taken_over_and_refused_as_one(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    let world = &place.world;
    let text = "orderNumber;value;currency;billingZip;item.productSku;item.quantity;_note\n\
                A;10,50;EUR;01234;P0;1;x\n\
                A;;;;P1;2;y\n\
                B;10;EUR;;P0;1;\n\
                B;11;EUR;;P1;1;\n\
                C;10;EUR;;P0;1;\n\
                C;;;;P1;two;\n\
                D;10;EUR;1,5E+3;P0;1;\n";
    let job = world.sync_csv(Expeditions, text).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 3]));
    let refused: Vec<_> = refused(world, job)
        .await
        .into_iter()
        .map(|(line, key, code, message)| {
            (line, key.unwrap(), code, message.split(';').next().unwrap().to_owned())
        })
        .collect();
    let expected = [
        (4, "B", "contradiction", "value of the 2. line of the order differs from the first"),
        (6, "C", "wrong_type", "item.quantity of item 2 must be an integer, not a string"),
        (
            8,
            "D",
            "looks_like_a_spreadsheet_number",
            "billingZip looks like a number that a spreadsheet has shortened (1,5E+3)",
        ),
    ];
    assert_eq!(
        refused,
        expected.map(|(line, key, code, message)| (
            line,
            key.to_owned(),
            code.to_owned(),
            message.to_owned()
        ))
    );
    let taken = "SELECT count(*) FROM expedition_detail d JOIN expedition_item i ON i.expedition_id = d.id
                 WHERE order_number = 'A' AND value = 10.5 AND billing_zip = '01234'";
    assert_eq!(world.count(taken).await, 2);
    // the same order as NDJSON, with another member that is ignored, is the same row
    let row = json!({"orderNumber": "A", "value": 10.5, "currency": "EUR", "billingZip": "01234", "_note": 7,
                     "items": [{"productSku": "P0", "quantity": 1}, {"productSku": "P1", "quantity": 2}]});
    let job = world.sync(Expeditions, [row.to_string()]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 1, 0]));
    let job = world.sync_csv(Expeditions, "orderNumber,cancel\nA,yes\n").await;
    world.drain().await;
    assert_eq!(
        world.outcome(job).await,
        ("succeeded".to_owned(), [1, 0, 0]),
        "{:?}",
        world.errors(job).await
    );
}
