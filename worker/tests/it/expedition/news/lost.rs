//! What warehouses know that is not known here, since Postgres was set back (`docs/reference/orders.md#lost-orders`).

use longshore_domain::expedition::news::{lost, retention};
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::super::support::{Place, id};
use super::{called, handover, is_at, news, take, tell};

/// Postgres was set back so many days ago.
async fn set_back(place: &Place, days_ago: i32) {
    let sql = "INSERT INTO set_back (epoch, seen_at, reason, since)
               VALUES ($1 + 2, now() - make_interval(days => $1), 'a test', now())";
    sqlx::query(sql).bind(days_ago).execute(&place.world.owner).await.unwrap();
}

/// Number and report of each order that is kept.
async fn kept(place: &Place) -> Vec<(Uuid, Option<i32>, Value)> {
    sqlx::query_as("SELECT expedition_id, number, report FROM wms_lost_order ORDER BY created_at, id")
        .fetch_all(&place.world.owner)
        .await
        .unwrap()
}

/// Number of each contradiction, and whether the pieces have left.
async fn contradictions(place: &Place) -> Vec<(i32, bool, bool)> {
    sqlx::query_as("SELECT number, is_lost, has_left FROM wms_contradiction ORDER BY number, has_left")
        .fetch_all(&place.world.owner)
        .await
        .unwrap()
}

fn unknown() -> ExpeditionId {
    longshore_kernel::ids::random_id().into()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn reports_of_orders_that_are_not_here_are_kept_once_after_a_set_back(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 5)]).await;
    let here = place.send("A", &[(0, 1)]).await;
    let (first, second) = (unknown(), unknown());
    let report =
        |id: &str, order, number: i32| news(id, order, json!({"status": "take_out", "number": number}));
    let rows = [report("1", first, 3), report("2", second, 1), report("3", first, 2)];
    let refused = ["0 1 unknown_expedition", "1 2 unknown_expedition", "2 3 unknown_expedition"];
    assert_eq!(tell(&place, &rows).await.1, refused, "nothing was set back");
    set_back(&place, 91).await;
    assert_eq!(tell(&place, &rows).await.1, refused, "it was long ago");
    set_back(&place, 89).await;
    take(&place, &rows).await;
    let now = kept(&place).await;
    assert_eq!(now.len(), 2);
    assert!(now.contains(&(first.get(), Some(3), rows[2].clone())), "the last report, the highest number");
    assert!(now.contains(&(second.get(), Some(1), rows[1].clone())));

    // each takes effect once
    assert_eq!(tell(&place, &rows).await, ((0, 3), Vec::<String>::new()));
    assert_eq!(tell(&place, &[report("1", first, 9)]).await.1, ["0 1 id_reused"]);
    let picked = news("4", first, json!({"status": "delivered"}));
    assert_eq!(tell(&place, &[picked.clone(), picked.clone()]).await, ((1, 1), Vec::<String>::new()));
    assert!(kept(&place).await.contains(&(first.get(), Some(3), picked)));

    // what is no sign of it: a number, and an order of another wms
    let other: Uuid = sqlx::query_scalar(
        "INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
         VALUES (uuid_v7(), $1, 'Other', uuid_v7(), '', '') RETURNING id",
    )
    .bind(place.world.tenant.organisation)
    .fetch_one(&place.world.owner)
    .await
    .unwrap();
    sqlx::query("UPDATE expedition SET wms_id = $1").bind(other).execute(&place.world.owner).await.unwrap();
    let by_number =
        json!({"id": "5", "eshop": place.world.tenant.eshop, "orderNumber": "B", "status": "take_out"});
    let (_, errors) = tell(&place, &[by_number, report("6", here, 1)]).await;
    assert_eq!(errors, ["0 5 unknown_expedition", "1 6 unknown_expedition"]);
    assert_eq!(kept(&place).await.len(), 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wms_has_a_bounded_number_of_lost_orders(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    set_back(&place, 1).await;
    sqlx::query(
        "INSERT INTO wms_lost_order (id, wms_id, expedition_id, organisation_id, report)
         SELECT uuid_v7(), $1, uuid_v7(), $2, '{}' FROM generate_series(1, $3)",
    )
    .bind(place.world.tenant.wms)
    .bind(place.world.tenant.organisation)
    .bind(lost::MOST - 1)
    .execute(&place.world.owner)
    .await
    .unwrap();
    let (fits, other) = (unknown(), unknown());
    let report = |id: &str, order| news(id, order, json!({"status": "take_out"}));
    let (counts, errors) = tell(&place, &[report("1", fits), report("2", other), report("3", fits)]).await;
    assert_eq!((counts, errors), ((2, 0), vec!["1 2 quota_reached".to_owned()]));
    // there is room again
    sqlx::query("DELETE FROM wms_lost_order WHERE expedition_id <> $1")
        .bind(fits)
        .execute(&place.world.owner)
        .await
        .unwrap();
    take(&place, &[report("2", other)]).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn lost_orders_are_kept_for_ninety_days_and_until_the_order_is_here_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    set_back(&place, 1).await;
    let orders = [unknown(), unknown(), unknown()];
    let rows: Vec<_> =
        orders.iter().enumerate().map(|(n, order)| news(&n.to_string(), *order, json!({}))).collect();
    take(&place, &rows).await;
    place.count(&[(0, 5)]).await;
    let here = place.send("A", &[(0, 1)]).await;
    for (sql, order) in [
        (
            "UPDATE wms_lost_order SET changed_at = now() - interval '90 days 1 minute' WHERE expedition_id = $1",
            orders[0],
        ),
        (
            "UPDATE wms_lost_order SET changed_at = now() - interval '89 days 23 hours' WHERE expedition_id = $1",
            orders[1],
        ),
    ] {
        sqlx::query(sql).bind(order).execute(&place.world.owner).await.unwrap();
    }
    let sql = "UPDATE wms_lost_order SET expedition_id = $2 WHERE expedition_id = $1";
    sqlx::query(sql).bind(orders[2]).bind(here).execute(&place.world.owner).await.unwrap();
    assert_eq!(retention::expire_lost(&place.world.services.db.main).await.unwrap(), 2);
    let left: Vec<Uuid> = kept(&place).await.into_iter().map(|(order, ..)| order).collect();
    assert_eq!(left, [orders[1].get()]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_left_by_a_number_that_was_never_given_leaves_the_stock_once_after_a_set_back(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = called(&options, 1).await;
    place.count(&[(0, 9)]).await;
    let (order, held) = (place.send("A", &[(0, 2)]).await, place.send("B", &[(0, 1)]).await);
    for order in [order, held] {
        is_at(&place, order, "accepted").await;
    }
    let packed =
        json!({"status": "carrier_picked_up", "number": 7, "parcels": [{"extPackageNumber": "P-1"}]});
    let picked = json!({"status": "take_out", "number": 7});
    let rows = [news("1", order, picked.clone()), news("2", order, packed.clone()), news("3", held, picked)];
    let refused = ["0 1 not_handed_over", "1 2 not_handed_over", "2 3 not_handed_over"];
    assert_eq!(tell(&place, &rows).await.1, refused);
    assert_eq!(contradictions(&place).await, []);
    set_back(&place, 1).await;
    let refused = ["0 1 contradiction", "1 2 contradiction", "2 3 contradiction"];
    assert_eq!(tell(&place, &rows).await.1, refused);
    assert_eq!(contradictions(&place).await, [(7, true, false), (7, true, true)]);
    assert_eq!(place.stock(0).await, (7, 3, 0), "two have left, and three are held as before");
    assert_eq!(place.status(order).await, "awaiting_processing");
    let parcels = "SELECT count(*) FROM expedition_parcel";
    assert_eq!(place.world.count(parcels).await, 1);
    // each report once, and each number once
    assert_eq!(tell(&place, &rows).await, ((0, 3), Vec::<String>::new()));
    let later = news("4", order, json!({"status": "delivered", "number": 7}));
    assert_eq!(tell(&place, &[later]).await.1, ["0 4 contradiction"]);
    assert_eq!(place.stock(0).await.0, 7);
    // the other one is packed in a later transaction
    assert_eq!(tell(&place, &[news("5", held, packed)]).await.1, ["0 5 contradiction"]);
    assert_eq!(contradictions(&place).await, [(7, true, true), (7, true, true)]);
    assert_eq!(place.stock(0).await.0, 6);
    // the numbers that are known go on as ever
    take(&place, &[news("6", order, json!({"status": "delivered", "number": 1}))]).await;
    assert_eq!(place.stock(0).await, (4, 1, 0));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn news_of_an_order_in_doubt_are_its_acceptance(_: PgPoolOptions, options: PgConnectOptions) {
    const FLOOR: i32 = 1_000_001;
    let place = called(&options, 1).await;
    place.count(&[(0, 9)]).await;
    let (known, other) = (place.send("A", &[(0, 1)]).await, place.send("B", &[(0, 1)]).await);
    let held = id(&place.create(place.body("C", &[(0, 1)])).await.unwrap());
    is_at(&place, known, "accepted").await;
    sqlx::query(
        "INSERT INTO expedition_handover (id, handover_wms_id, handover_number, handover_priority, handover_created_at)
         SELECT id, wms_id, 1, priority, created_at FROM expedition WHERE id = $1",
    )
    .bind(held)
    .execute(&place.world.owner)
    .await
    .unwrap();
    set_back(&place, 1).await;
    // what is in doubt is not due
    let sql = "UPDATE expedition_handover
               SET handover_in_doubt = true, handover_number = $1, handover_known_number = 1,
                   handover_state = nullif(handover_state, 'pending'), handover_next_attempt_at = NULL";
    sqlx::query(sql).bind(FLOOR).execute(&place.world.owner).await.unwrap();
    let picked = |number: i32| json!({"status": "take_out", "number": number});
    let rows = [news("1", known, picked(1)), news("2", other, picked(2)), news("3", held, picked(2))];
    assert_eq!(tell(&place, &rows).await, ((2, 0), vec!["2 3 contradiction".to_owned()]));
    for (order, status, is_unknown) in
        [(known, "take_out", false), (other, "take_out", true), (held, "on_hold", true)]
    {
        assert_eq!(place.status(order).await, status);
        assert_eq!(handover(&place, order).await, (Some("accepted".to_owned()), FLOOR));
        let sql = "SELECT handover_contents_unknown FROM expedition_handover WHERE id = $1";
        let found: bool = sqlx::query_scalar(sql).bind(order).fetch_one(&place.world.owner).await.unwrap();
        assert_eq!(found, is_unknown, "{status}");
    }
    assert_eq!(contradictions(&place).await, [(2, true, false)]);
    // what is on hold here is packed there
    let packed = news("4", held, json!({"status": "delivered", "number": 2}));
    assert_eq!(tell(&place, &[packed]).await.1, ["0 4 contradiction"]);
    take(&place, &[news("5", other, json!({"status": "delivered", "number": 2}))]).await;
    assert_eq!(place.stock(0).await, (7, 1, 0));
    place.must_hold().await;
}
