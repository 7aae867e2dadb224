use futures::future::join_all;
use longshore_domain::catalog::product::together::Batcher;
use longshore_domain::catalog::product::update::update;
use longshore_domain::expedition::command::{Command, Done};
use longshore_domain::expedition::invariants;
use longshore_domain::partner::push::Push;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::{Place, id};

const CANCEL: Command = Command::Cancel { reason: None };
const SEND: Command = Command::Send { rebook: false };

#[sqlx::test(migrator = "MIGRATIONS")]
async fn of_a_stock_that_many_want_at_once_exactly_what_it_has_is_booked(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 100), (1, 1_000)]).await;
    for round in 0..8 {
        let bodies = (0..32).map(|n| {
            let mut body = place.body(&format!("{round}-{n}"), &[(0, 1), (1, 2)]);
            body["send"] = json!(true);
            place.create(body)
        });
        for created in join_all(bodies).await {
            created.unwrap();
        }
    }
    let statuses = place.statuses().await;
    let count = |status: &str| statuses.iter().filter(|(_, of)| of == status).count();
    assert_eq!((count("awaiting_processing"), count("waiting_for_goods")), (100, 156));
    assert_eq!(place.stock(0).await, (100, 100, 156));
    assert_eq!(place.stock(1).await, (1_000, 200, 312));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn everything_at_once_ends_as_it_must(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 3).await;
    place.count(&[(0, 40), (1, 40), (2, 40)]).await;
    let mut ids = Vec::new();
    for n in 0..40_i64 {
        let items: &[(usize, i64)] = match n % 3 {
            0 => &[(0, 2), (1, 1)],
            1 => &[(2, 3), (0, 1)],
            _ => &[(1, 2), (2, 1)],
        };
        ids.push(id(&place.create(place.body(&n.to_string(), items)).await.unwrap()));
    }
    let sends = async {
        for done in join_all(ids.iter().map(|id| place.command(*id, &SEND))).await {
            // one that was cancelled before does not come back
            let refused = done.err().map(|problem| problem.kind().code);
            assert!(matches!(refused, None | Some("wrong_status")), "{refused:?}");
        }
    };
    let cancels = async {
        for id in ids.iter().skip(3).step_by(4) {
            place.command(*id, &CANCEL).await.unwrap();
        }
    };
    let holds = async {
        for id in ids.iter().skip(5).step_by(7) {
            let _ = place.command(*id, &Command::Rollback).await;
            let _ = place.command(*id, &SEND).await;
        }
    };
    let counts = async {
        for quantity in [10, 0, 35, 20, 60] {
            place.count(&[(0, quantity), (1, 70 - quantity), (2, quantity / 2)]).await;
        }
    };
    let allocations = async {
        for _ in 0..10 {
            place.allocate().await;
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(sends, cancels, holds, counts, allocations);
    place.allocate().await;
    place.must_hold().await;
    assert!(
        longshore_domain::expedition::allocation::places(&place.world.services).await.unwrap().is_empty()
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn goods_that_come_go_to_those_who_wait_in_turn(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    let large = place.send("large", &[(0, 10)]).await;
    let early = place.send("early", &[(0, 3)]).await;
    let late = place.send("late", &[(0, 3)]).await;
    let mut urgent = place.body("urgent", &[(0, 4)]);
    (urgent["priority"], urgent["send"]) = (json!(5), json!(true));
    let urgent = id(&place.create(urgent).await.unwrap());
    let paused = place.send("paused", &[(0, 1)]).await;
    place.command(paused, &Command::Unbook).await.unwrap();
    place.count(&[(0, 7)]).await;
    // who is sent before the allocator has come does not overtake those who wait
    let new = place.send("new", &[(0, 1)]).await;
    assert_eq!(place.status(new).await, "awaiting_reservation");
    place.allocate().await;
    for (id, expected) in [
        (urgent, "awaiting_processing"),
        (early, "awaiting_processing"),
        (large, "waiting_for_goods"),
        (late, "waiting_for_goods"),
        (new, "waiting_for_goods"),
        (paused, "awaiting_reservation"),
    ] {
        assert_eq!(place.status(id).await, expected);
    }
    place.must_hold().await;
    // what the cancelled one gives back is enough for the new one only, which is later in turn than the others
    place.command(early, &CANCEL).await.unwrap();
    place.allocate().await;
    assert_eq!(place.status(late).await, "awaiting_processing");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_count_takes_bookings_back_from_the_last_in_turn(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 10), (1, 10)]).await;
    let picked = place.send("picked", &[(0, 2)]).await;
    let first = place.send("first", &[(0, 2)]).await;
    let second = place.send("second", &[(0, 2), (1, 2)]).await;
    let last = place.send("last", &[(0, 2)]).await;
    place.report(picked, json!({"status": "take_out"})).await.unwrap();
    place.count(&[(0, 5)]).await;
    assert_eq!(place.stock(0).await, (5, 8, 0), "a count is taken at once");
    place.allocate().await;
    for (id, expected) in [
        (picked, "take_out"),
        (first, "awaiting_processing"),
        (second, "waiting_for_goods"),
        (last, "waiting_for_goods"),
    ] {
        assert_eq!(place.status(id).await, expected);
    }
    assert_eq!((place.stock(0).await, place.stock(1).await), ((5, 4, 4), (10, 0, 2)));
    place.must_hold().await;
    // what the warehouse has begun with keeps its pieces, though they are not there
    place.count(&[(0, 0)]).await;
    place.allocate().await;
    assert_eq!(place.status(picked).await, "take_out");
    assert_eq!(place.stock(0).await, (0, 2, 6));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_packed_leaves_the_stock(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 5), (1, 5)]).await;
    let order = place.send("A", &[(0, 3), (1, 2)]).await;
    let waiting = place.send("B", &[(0, 4)]).await;
    let record = place.report(order, json!({"status": "take_out"})).await.unwrap();
    let item = record["items"][0]["id"].clone();
    let short = json!({"status": "waiting_for_the_carrier", "items": [{"id": item, "expedited": 1}],
                       "parcels": [{"extPackageNumber": "1", "extPackageTrackingNumber": "T"}]});
    let record = place.report(order, short).await.unwrap();
    assert_eq!((&record["expeditedCompletely"], &record["trackingNumber"]), (&json!(false), &json!("T")));
    let expedited: Vec<_> =
        record["items"].as_array().unwrap().iter().map(|item| &item["expedited"]).collect();
    assert_eq!(expedited, [1, 0]);
    assert_eq!((place.stock(0).await, place.stock(1).await), ((4, 0, 4), (5, 0, 0)));
    // the rest that was given up serves the next
    place.allocate().await;
    assert_eq!(place.status(waiting).await, "awaiting_processing");
    // more leaves than was known to be there
    place.count(&[(0, 1)]).await;
    let record = place.report(waiting, json!({"status": "delivered"})).await.unwrap();
    assert_eq!(record["expeditedCompletely"], true);
    assert_eq!(place.stock(0).await, (0, 0, 0));
    place.allocate().await;
    place.must_hold().await;
    let back = place.report(waiting, json!({"status": "take_out"})).await.unwrap_err();
    assert_eq!(back.kind().code, "wrong_status");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_transition_is_in_one_audit_record_and_one_event_and_versions_have_no_gap(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.world.webhook("*").await;
    place.count(&[(0, 5)]).await;
    let order = place.send("A", &[(0, 3)]).await;
    let record = place.command(order, &Command::Rollback).await.unwrap();
    assert_eq!((&record["status"], &record["version"]), (&json!("on_hold"), &json!(2)));
    place.command(order, &SEND).await.unwrap();
    place.report(order, json!({"status": "delivered"})).await.unwrap();
    let events: Vec<(String, i64, String, Option<String>)> = sqlx::query_as(
        "SELECT type, (data ->> 'version')::bigint, data -> 'fields' ->> 'status', data -> 'fields' ->> 'previousStatus'
         FROM event WHERE entity_id = $1 AND type = 'expedition_status_change' ORDER BY id",
    )
    .bind(order)
    .fetch_all(&place.world.owner)
    .await
    .unwrap();
    let events: Vec<_> =
        events.iter().map(|(_, version, to, from)| (*version, from.as_deref(), to.as_str())).collect();
    assert_eq!(
        events,
        [
            (1, None, "awaiting_processing"),
            (2, Some("awaiting_processing"), "on_hold"),
            (3, Some("on_hold"), "awaiting_processing"),
            (4, Some("awaiting_processing"), "delivered"),
        ]
    );
    let booked = "SELECT count(*) FROM event WHERE type = 'expedition_booked_change'";
    assert_eq!(place.world.count(booked).await, 3);
    let audited = "SELECT count(*) FROM audit WHERE entity_type = 'expedition'";
    assert_eq!(place.world.count(audited).await, 5);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_is_booked_in_its_stocks_as_they_are_when_it_is_written(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    for (number, (were, are)) in [(10, 9), (10, 4), (10, 0), (3, 10), (3, 4)].into_iter().enumerate() {
        place.count(&[(0, were), (1, 10)]).await;
        let mut changing = place.world.owner.begin().await.unwrap();
        sqlx::query(
            "WITH counted AS (
                 UPDATE product_stock s SET quantity = $1 FROM product p
                 WHERE p.id = s.product_id AND p.product_sku = 'P0' RETURNING s.*
             )
             INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming,
                                         actor_type, actor_name)
             SELECT uuid_v7(), organisation_id, product_id, warehouse_id, wms_id, 'counted', quantity - $2, 0, 'token', 'x'
             FROM counted",
        )
        .bind(are)
        .bind(were)
        .execute(&mut *changing)
        .await
        .unwrap();
        let number = number.to_string();
        let create = place.send(&number, &[(0, 5), (1, 1)]);
        let change = async {
            place.world.until_blocked(1).await;
            changing.commit().await.unwrap();
        };
        let (order, ()) = tokio::join!(create, change);
        let booked = i64::from(are >= 5);
        let stocks = [place.stock(0).await, place.stock(1).await];
        let missing = 1 - booked;
        assert_eq!(stocks, [(are, 5 * booked, 5 * missing), (10, booked, missing)], "{were} to {are}");
        place.must_hold().await;
        place.command(order, &Command::Cancel { reason: None }).await.unwrap();
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_operator_learns_where_pieces_are_and_which_order_was_forgotten(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let owner = &place.world.owner;
    let order = place.send("A", &[(0, 3)]).await;
    place.send("B", &[(0, 7)]).await;
    assert_eq!(invariants::elsewhere(owner).await.unwrap(), [""; 0]);
    place
        .world
        .execute(
            "WITH other AS (
                 INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
                 SELECT uuid_v7(), organisation_id, 'Loft', gen_random_uuid(), 'x', 'x' FROM wms LIMIT 1 RETURNING id
             )
             INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
             SELECT uuid_v7(), s.organisation_id, s.product_id, s.warehouse_id, other.id, 4 FROM product_stock s, other",
        )
        .await;
    let found = invariants::elsewhere(owner).await.unwrap();
    let [named] = &found[..] else { panic!("{found:?}") };
    assert!(named.starts_with("P0: 2 wait in ") && named.ends_with(", Loft: 4"), "{named}");
    place.world.execute("DELETE FROM product_stock WHERE quantity = 4").await;

    place.world.execute("UPDATE expedition SET waits_quantity = 2000000 WHERE waits_quantity = 3").await;
    place.count(&[(0, 5)]).await;
    place.allocate().await;
    let broken = invariants::broken(owner).await.unwrap();
    let [broken] = &broken[..] else { panic!("{broken:?}") };
    assert!(broken.rows[0].starts_with(&format!("order {order} waits for 2000000 pieces")), "{broken:?}");
    assert!(broken.remedy.contains("rebook"), "{broken:?}");
    assert_eq!(place.command(order, &Command::Rebook).await.unwrap()["status"], "awaiting_processing");
    place.must_hold().await;
    // as an earlier version stored the end of the year 9999
    place.world.execute("UPDATE expedition_detail SET eshop_order_date = '9999-12-31T23:59:59.9999999Z' WHERE order_number = 'A'").await;
    let broken = invariants::broken(owner).await.unwrap();
    let [broken] = &broken[..] else { panic!("{broken:?}") };
    assert!(
        broken.rows[0].starts_with(&format!("the eshopOrderDate of order {order} is 10000-01-01")),
        "{broken:?}"
    );
    place.world.execute("UPDATE expedition_detail SET eshop_order_date = NULL").await;
    place.must_hold().await;
    // pieces are booked in no stock
    place.world.execute("DELETE FROM product_stock").await;
    let broken = invariants::broken(owner).await.unwrap();
    let row =
        broken.iter().flat_map(|broken| &broken.rows).find(|row| row.starts_with("stock (none) of product "));
    assert!(row.is_some_and(|row| row.ends_with("its orders have 3 and 7")), "{broken:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_queues_is_served_where_commands_together_leave_a_stock_as_it_was(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 2), (1, 2)]).await;
    for (product, wanted, status, stock) in
        [(0, 1, "awaiting_processing", (2, 2, 100)), (1, 100, "waiting_for_goods", (2, 1, 100))]
    {
        let number = |name: &str| format!("{name}-{product}");
        let first = place.send(&number("first"), &[(product, 1)]).await;
        let large = place.send(&number("large"), &[(product, 100)]).await;
        let next = id(&place.create(place.body(&number("next"), &[(product, 1)])).await.unwrap());
        let last = id(&place.create(place.body(&number("last"), &[(product, wanted)])).await.unwrap());
        let mut commands = vec![(next, SEND), (first, Command::Rollback), (last, SEND)];
        if wanted == 100 {
            // as many are missing as before
            commands.push((large, CANCEL));
        }
        let done = place.together(&commands).await;
        assert!(done.iter().all(|done| matches!(done, Done::Changed)), "{done:?}");
        // the piece that came free is for those who wait
        assert_eq!(place.status(last).await, "awaiting_reservation");
        place.must_hold().await;
        place.allocate().await;
        assert_eq!((place.status(last).await.as_str(), place.stock(product).await), (status, stock));
        place.must_hold().await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_orders_hold_stays_physical_though_a_count_finds_none(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 5)]).await;
    let order = place.send("1", &[(0, 5)]).await;
    place.report(order, json!({"status": "take_out"})).await.unwrap();
    place.count(&[(0, 0)]).await;
    place.allocate().await;
    assert_eq!(place.stock(0).await, (0, 5, 0));
    let (services, context) = (&place.world.services, &place.world.context);
    let product: Uuid =
        sqlx::query_scalar("SELECT id FROM product").fetch_one(&place.world.owner).await.unwrap();
    let products = Batcher::default();
    let turn = || update(services, &products, context, product, json!({"type": "virtual"}), |_| Ok(()));
    let refused = turn().await.unwrap_err();
    let refused: Vec<_> = refused.violations().iter().map(|v| (v.property_path.as_str(), v.code)).collect();
    assert_eq!(refused, [("type", "in_stock")]);
    let job = place.world.sync(Push::Products, [r#"{"productSku":"P0","type":"virtual"}"#]).await;
    place.world.drain().await;
    assert_eq!(place.world.errors(job).await, ["0 P0 in_stock"]);
    // they have left
    place.report(order, json!({"status": "waiting_for_the_carrier"})).await.unwrap();
    assert_eq!(place.stock(0).await, (0, 0, 0));
    turn().await.unwrap();
}
