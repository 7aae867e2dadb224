//! Rows of an import, and the orders that they change (`docs/reference/orders.md#import`).

use longshore_domain::expedition::command::Command;
use longshore_domain::job::receiving::Receiving;
use longshore_domain::partner::push::{self, Push};
use longshore_domain::warehouse::warehouse::{self, NewWarehouse};
use longshore_kernel::context::Origin;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::quota::Quotas;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::{Place, id};

fn row(place: &Place, number: &str) -> Value {
    let mut row = place.body(number, &[(0, 1)]);
    row.as_object_mut().unwrap().remove("eshop");
    row
}

/// Imports rows below a header; returns the progress: changed, unchanged, failed.
async fn import(place: &Place, header: Value, rows: &[Value]) -> [i64; 3] {
    let world = &place.world;
    let mut header = header;
    header["eshop"] = json!(world.tenant.eshop);
    let target = push::target(&world.services, &world.context, Push::Expeditions, header).await.unwrap();
    let mut receiving = Receiving::begin(&world.services, &world.context, target).await.unwrap();
    for row in rows {
        receiving.row(row.to_string().as_bytes(), None).await.unwrap();
    }
    let job = receiving.finish(None).await.unwrap().job.unwrap();
    world.drain().await;
    let (state, counts) = world.outcome(job).await;
    assert_eq!(state, "succeeded", "{:?}", world.errors(job).await);
    counts
}

/// A column of an order by its number, as text.
async fn value(place: &Place, number: &str, column: &str) -> Option<String> {
    let sql = format!(
        "SELECT {column}::text FROM expedition e JOIN expedition_detail d USING (id) WHERE d.order_number = $1"
    );
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(number).fetch_one(&place.world.owner).await.unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_imported_order_is_created_when_its_import_is_accepted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let world = &place.world;
    let header = json!({"eshop": world.tenant.eshop});
    let target = push::target(&world.services, &world.context, Push::Expeditions, header).await.unwrap();
    let mut receiving = Receiving::begin(&world.services, &world.context, target).await.unwrap();
    receiving.row(row(&place, "I1").to_string().as_bytes(), None).await.unwrap();
    receiving.row(row(&place, "I2").to_string().as_bytes(), None).await.unwrap();
    // it comes while the stream is still being received, and is earlier in turn
    place.send("M", &[(0, 1)]).await;
    receiving.finish(None).await.unwrap();
    world.drain().await;
    let by_turn: Vec<String> = sqlx::query_scalar(
        "SELECT order_number FROM expedition e JOIN expedition_detail d USING (id) ORDER BY e.created_at, e.id",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    assert_eq!(by_turn, ["M", "I1", "I2"]);
    let apart =
        "SELECT extract(microseconds FROM max(created_at) - min(created_at))::bigint FROM expedition e
                 JOIN expedition_detail d USING (id) WHERE order_number LIKE 'I%'";
    assert_eq!(world.count(apart).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn whether_a_row_is_sent_is_said_by_it_or_the_header_or_the_eshop(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 100)]).await;
    let mut number = 0;
    for (of_row, of_header, of_order, of_eshop, is_sent) in [
        (None, None, None, false, true),
        (None, None, None, true, false),
        (None, None, Some(false), true, true),
        (None, None, Some(true), false, false),
        (None, Some(true), Some(true), true, true),
        (Some(false), Some(true), None, false, false),
        (Some(true), Some(false), Some(true), true, true),
    ] {
        number += 1;
        let number = number.to_string();
        sqlx::query("UPDATE eshop SET edit_before_processing = $1")
            .bind(of_eshop)
            .execute(&place.world.owner)
            .await
            .unwrap();
        let mut row = row(&place, &number);
        let mut header = json!({});
        (row["send"], header["send"]) = (json!(of_row), json!(of_header));
        row["editBeforeProcessing"] = json!(of_order);
        assert_eq!(import(&place, header, &[row]).await, [1, 0, 0]);
        let status = value(&place, &number, "status").await.unwrap();
        let expected = if is_sent { "awaiting_processing" } else { "on_hold" };
        assert_eq!(status, expected, "{of_row:?} {of_header:?} {of_order:?} {of_eshop}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_that_names_another_carrier_by_its_code_changes_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place
        .world
        .execute(
            "WITH made AS (
                 INSERT INTO carrier (id, name, code, countries_of_operation, active)
                 VALUES (uuid_v7(), 'Courier', 2, '{}', true) RETURNING id
             ), served AS (
                 INSERT INTO carrier_service (id, carrier_id, name, code) SELECT uuid_v7(), id, 'Van', 5 FROM made
             )
             INSERT INTO carrier_organisation (carrier_id, organisation_id) SELECT made.id, organisation.id FROM made, organisation",
        )
        .await;
    let first = row(&place, "A");
    assert_eq!(import(&place, json!({"send": false}), std::slice::from_ref(&first)).await, [1, 0, 0]);
    let mut other = first.clone();
    other.as_object_mut().unwrap().remove("carrier");
    (other["carrierCode"], other["carrierServiceCode"]) = (json!(2), json!(5));
    assert_eq!(import(&place, json!({}), std::slice::from_ref(&other)).await, [1, 0, 0]);
    let carrier = "(SELECT name FROM carrier WHERE id = d.carrier_id)";
    assert_eq!(value(&place, "A", carrier).await.as_deref(), Some("Courier"));
    let service = "(SELECT name FROM carrier_service WHERE id = d.carrier_service_id)";
    assert_eq!(value(&place, "A", service).await.as_deref(), Some("Van"));
    assert_eq!(import(&place, json!({}), &[other.clone()]).await, [0, 1, 0]);
    other["carrierCode"] = json!(404);
    assert_eq!(import(&place, json!({}), &[other]).await, [0, 0, 1]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_incorrect_order_that_a_row_moves_is_booked_in_its_new_place(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let world = &place.world;
    place.count(&[(0, 10)]).await;
    let tenant = &world.tenant;
    let new = NewWarehouse {
        organisation: tenant.organisation,
        name: "Second".to_owned(),
        custom_id: "W2".to_owned(),
        wmses: vec![tenant.wms],
    };
    let second = warehouse::create(&world.services, &Origin::command_line(), &new).await.unwrap();
    sqlx::query("INSERT INTO eshop_warehouse (eshop_id, warehouse_id) VALUES ($1, $2)")
        .bind(tenant.eshop)
        .bind(second)
        .execute(&world.owner)
        .await
        .unwrap();
    let mut incorrect = row(&place, "A");
    let carrier = incorrect.as_object_mut().unwrap().remove("carrier").unwrap();
    import(&place, json!({}), std::slice::from_ref(&incorrect)).await;
    assert_eq!(value(&place, "A", "status").await.as_deref(), Some("incorrect"));
    incorrect["carrier"] = carrier;
    incorrect["warehouse"] = json!(second);
    import(&place, json!({}), &[incorrect]).await;
    // there is none in the new place, however many are in the old one
    assert_eq!(value(&place, "A", "status").await.as_deref(), Some("waiting_for_goods"));
    place.must_hold().await;
    assert_eq!(world.count("SELECT sum(held)::bigint FROM product_stock").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_that_says_the_same_in_another_way_is_the_one_that_was_last_taken(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 10)]).await;
    let mut incorrect = row(&place, "A");
    incorrect.as_object_mut().unwrap().remove("carrier");
    assert_eq!(import(&place, json!({}), std::slice::from_ref(&incorrect)).await, [1, 0, 0]);
    incorrect["note"] = Value::Null;
    assert_eq!(import(&place, json!({}), std::slice::from_ref(&incorrect)).await, [0, 1, 0]);
    assert_eq!(value(&place, "A", "version").await.as_deref(), Some("1"));
    let updates = "SELECT count(*) FROM audit WHERE action = 'expedition.update'";
    assert_eq!(place.world.count(updates).await, 0, "it changes nothing");
    let order = sqlx::query_scalar("SELECT id FROM expedition").fetch_one(&place.world.owner).await.unwrap();
    let carrier = place.body("A", &[])["carrier"].clone();
    let (services, context) = (&place.world.services, &place.world.context);
    let body = json!({ "carrier": carrier });
    longshore_domain::expedition::edit::update(services, context, order, body, |_| Ok(())).await.unwrap();
    let sent = place.command(order, &Command::Send { rebook: false }).await.unwrap();
    assert_eq!((sent["status"].as_str(), id(&sent)), (Some("awaiting_processing"), order));
    // what was last taken is passed over, though the order can no longer be changed
    assert_eq!(import(&place, json!({}), &[incorrect]).await, [0, 1, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_that_says_what_a_create_said_is_unchanged(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    let mut body = place.body("A", &[(0, 1)]);
    body["send"] = json!(true);
    place.create(body).await.unwrap();
    assert_eq!(import(&place, json!({}), &[row(&place, "A")]).await, [0, 1, 0]);
    let mut other = row(&place, "A");
    other["note"] = json!("wrap it");
    assert_eq!(import(&place, json!({}), &[other]).await, [0, 0, 1], "it is sent already");
}

/// Codes of the refused rows by their numbers, with what the first violation is about.
async fn refused(place: &Place) -> Vec<(String, String)> {
    sqlx::query_as("SELECT key, code FROM job_item_error ORDER BY job_id, index")
        .fetch_all(&place.world.owner)
        .await
        .unwrap()
}

fn named(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(key, code)| ((*key).to_owned(), (*code).to_owned())).collect()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_later_of_two_rows_with_one_external_id_is_refused_alone(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let mut rows: Vec<Value> = (0..6).map(|n| row(&place, &format!("R{n}"))).collect();
    for (number, id) in [(1, "same"), (3, "other"), (4, "same")] {
        rows[number]["externalId"] = json!(id);
    }
    assert_eq!(import(&place, json!({}), &rows).await, [5, 0, 1]);
    assert_eq!(refused(&place).await, named(&[("R4", "already_taken")]));
    assert_eq!(import(&place, json!({}), &rows).await, [0, 5, 1], "the same again");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_that_only_the_database_refuses_is_refused_alone(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 100)]).await;
    place
        .world
        .execute("ALTER TABLE expedition_detail ADD CONSTRAINT nobody_is_called_thirteen CHECK (billing_last_name <> '13')")
        .await;
    let mut rows: Vec<Value> = (0..20).map(|n| row(&place, &format!("R{n}"))).collect();
    for number in [0, 13, 19] {
        rows[number]["billingLastName"] = json!("13");
    }
    assert_eq!(import(&place, json!({}), &rows).await, [17, 0, 3]);
    assert_eq!(refused(&place).await, named(&[("R0", "refused"), ("R13", "refused"), ("R19", "refused")]));
    assert_eq!(place.stock(0).await, (100, 17, 0));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_day_before_the_first_year_is_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    let mut rows: Vec<Value> = (0..6).map(|n| row(&place, &format!("R{n}"))).collect();
    for (number, (field, value)) in (1..).zip([
        ("requiredExpeditionDate", "0000-01-01"),
        ("eshopOrderDate", "0001-01-01T00:00:00+01:00"),
        ("eshopOrderDate", "9999-12-31T23:59:59-12:00"),
        ("eshopOrderDate", "0001-01-01T00:00:00Z"),
    ]) {
        rows[number][field] = json!(value);
    }
    assert_eq!(import(&place, json!({}), &rows).await, [3, 0, 3]);
    let codes = [("R1", "invalid_date"), ("R2", "invalid_timestamp"), ("R3", "invalid_timestamp")];
    assert_eq!(refused(&place).await, named(&codes));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_of_an_order_that_cannot_be_read_is_refused_alone(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    let mut rows: Vec<Value> = (0..11).map(|n| row(&place, &format!("R{n}"))).collect();
    assert_eq!(import(&place, json!({"send": false}), &rows[..6]).await, [6, 0, 0]);
    // as an earlier version stored the end of the year 9999
    place
        .world
        .execute("UPDATE expedition_detail SET eshop_order_date = '10000-01-01' WHERE order_number = 'R3'")
        .await;
    for row in &mut rows {
        row["note"] = json!("again");
    }
    assert_eq!(import(&place, json!({"send": false}), &rows).await, [10, 0, 1]);
    assert_eq!(refused(&place).await, named(&[("R3", "internal")]));
    place.world.execute("UPDATE expedition_detail SET eshop_order_date = NULL").await;
    assert_eq!(import(&place, json!({"send": false}), &rows).await, [1, 10, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_of_the_last_moment_is_imported_and_changed_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let mut rows: Vec<Value> = (0..4).map(|n| row(&place, &format!("R{n}"))).collect();
    for (row, date) in rows.iter_mut().zip([
        "9999-12-31T23:59:59.9999999Z",
        "2016-12-31T23:59:60.5Z",
        "2026-05-31T10:00:00.1234567+0200",
        "10000-01-01T00:00:00Z",
    ]) {
        row["eshopOrderDate"] = json!(date);
    }
    assert_eq!(import(&place, json!({"send": false}), &rows).await, [3, 0, 1]);
    assert_eq!(refused(&place).await, named(&[("R3", "invalid_timestamp")]));
    for (number, stored) in [
        ("R0", "9999-12-31 23:59:59.999999+00"),
        ("R1", "2017-01-01 00:00:00.5+00"),
        ("R2", "2026-05-31 08:00:00.123456+00"),
    ] {
        assert_eq!(value(&place, number, "eshop_order_date").await.as_deref(), Some(stored));
    }
    for row in &mut rows {
        row["note"] = json!("again");
    }
    assert_eq!(import(&place, json!({"send": false}), &rows).await, [3, 0, 1]);
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn new_orders_above_the_quota_are_refused_and_all_others_are_taken(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut services = services::for_test(&options).unwrap();
    let mut settings = services::quota_settings().unwrap();
    settings.quota_expeditions = 3;
    services.quotas = Quotas::new(settings, services.metrics.clone());
    let place = Place::over(services, &options, 1).await;
    let first: Vec<Value> = (0..2).map(|n| row(&place, &format!("R{n}"))).collect();
    assert_eq!(import(&place, json!({}), &first).await, [2, 0, 0]);
    let mut rows: Vec<Value> = (0..5).map(|n| row(&place, &format!("R{n}"))).collect();
    rows.push(json!({"orderNumber": "R1", "cancel": true}));
    assert_eq!(import(&place, json!({}), &rows).await, [2, 2, 2], "one is new, one cancelled");
    assert_eq!(refused(&place).await, named(&[("R3", "quota_reached"), ("R4", "quota_reached")]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn rows_of_large_bundles_are_taken_in_small_groups(_: PgPoolOptions, options: PgConnectOptions) {
    const PARTS: usize = 400;
    const ROWS: i64 = 30;
    let place = Place::new(&options, PARTS).await;
    let bundle: Uuid = sqlx::query_scalar(
        "WITH made AS (
             INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers, packaging_type,
                 imei_check_required, work_around_sn_in, work_around_ean_sticker, work_around_warranty_inf,
                 work_around_lot, active, active_acceptance, type)
             VALUES (uuid_v7(), $1, 'SET', 'SET', 'Set', '{}', 'A', false, false, false, false, false, true,
                     nextval('acceptance'), 'bundle')
             RETURNING id
         ), sold AS (
             INSERT INTO product_eshop (product_id, eshop_id) SELECT id, $2 FROM made
         ), parts AS (
             INSERT INTO product_child (bundle_id, position, product_id, quantity)
             SELECT made.id, row_number() OVER (ORDER BY p.id) - 1, p.id, 1 FROM made, product p
         )
         SELECT id FROM made",
    )
    .bind(place.world.tenant.organisation)
    .bind(place.world.tenant.eshop)
    .fetch_one(&place.world.owner)
    .await
    .unwrap();
    let rows: Vec<Value> = (0..ROWS)
        .map(|n| {
            let mut row = row(&place, &format!("R{n}"));
            row["items"] = if n % 2 == 0 {
                json!([{"productSku": "SET", "quantity": 1}])
            } else {
                json!([{"product": bundle, "quantity": 1}])
            };
            row
        })
        .collect();
    assert_eq!(import(&place, json!({}), &rows).await, [ROWS, 0, 0]);
    let most = "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM expedition_item GROUP BY created_at, xmin::text) t";
    let written = "SELECT count(*) FROM expedition_item";
    assert_eq!(place.world.count(written).await, ROWS * 400);
    let most = place.world.count(most).await;
    assert!(most <= 5_000, "{most} items by one statement");
    place.must_hold().await;
}
