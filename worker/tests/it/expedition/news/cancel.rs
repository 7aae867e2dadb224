//! Answers to a cancel, and what is quicker. The cancel is made as the hand-over leaves it: `waiting_for_cancel`.

use longshore_domain::list::fields::movement::STOCK_MOVEMENT;
use longshore_domain::list::{self, Request};
use longshore_kernel::access::Scope;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::super::support::Place;
use super::{called, handover, is_at, news, read, take, tell};

/// Makes an order wait for the answer to a cancel.
async fn cancelling(place: &Place, number: &str, from: &str) -> ExpeditionId {
    let order = place.send(number, &[(0, 1)]).await;
    is_at(place, order, "accepted").await;
    if from != "awaiting_processing" {
        take(place, &[news(&format!("{number}-0"), order, json!({"status": from}))]).await;
    }
    is_at(place, order, "withdrawing").await;
    sqlx::query(
        "UPDATE expedition SET status = 'waiting_for_cancel', canceling_from = $2, version = version + 1 WHERE id = $1",
    )
    .bind(order)
    .bind(from)
    .execute(&place.world.owner)
    .await
    .unwrap();
    order
}

/// The fields of the last event of the status.
async fn event(place: &Place, order: ExpeditionId) -> Value {
    sqlx::query_scalar(
        "SELECT data -> 'fields' FROM event WHERE entity_id = $1 AND type = 'expedition_status_change'
         ORDER BY id DESC LIMIT 1",
    )
    .bind(order)
    .fetch_one(&place.world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_warehouse_accepts_or_refuses_a_cancel(_: PgPoolOptions, options: PgConnectOptions) {
    let place = called(&options, 1).await;
    place.world.webhook("*").await;
    place.count(&[(0, 9)]).await;
    let order = cancelling(&place, "A", "completion").await;
    take(&place, &[news("A-1", order, json!({"cancel": "accepted"}))]).await;
    assert_eq!(place.status(order).await, "canceled");
    assert_eq!(handover(&place, order).await, (Some("withdrawn".to_owned()), 1));
    assert_eq!(place.stock(0).await, (9, 0, 0), "its piece is free");
    // said again, it is no news
    take(&place, &[news("A-2", order, json!({"cancel": "accepted"}))]).await;
    let order = cancelling(&place, "B", "take_out").await;
    // while it waits, what it goes back to is remembered
    take(&place, &[news("B-1", order, json!({"status": "completion"}))]).await;
    assert_eq!(place.status(order).await, "waiting_for_cancel");
    take(&place, &[news("B-2", order, json!({"cancel": "refused"}))]).await;
    assert_eq!(place.status(order).await, "completion");
    assert_eq!(handover(&place, order).await, (Some("accepted".to_owned()), 1));
    let event = event(&place, order).await;
    assert_eq!(
        (&event["cancel"], &event["previousStatus"]),
        (&json!("refused"), &json!("waiting_for_cancel"))
    );
    assert_eq!(place.stock(0).await, (9, 1, 0), "it holds its piece");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn packed_wins_against_a_cancel(_: PgPoolOptions, options: PgConnectOptions) {
    let place = called(&options, 1).await;
    place.world.webhook("*").await;
    place.count(&[(0, 9)]).await;
    let order = cancelling(&place, "A", "awaiting_processing").await;
    take(&place, &[news("1", order, json!({"status": "waiting_for_the_carrier"}))]).await;
    assert_eq!(place.status(order).await, "waiting_for_the_carrier");
    assert_eq!(event(&place, order).await["cancel"], "too_late");
    assert_eq!(handover(&place, order).await, (Some("accepted".to_owned()), 1));
    assert_eq!(place.stock(0).await, (8, 0, 0));
    // what the warehouse answers afterwards is late
    take(&place, &[news("2", order, json!({"cancel": "refused"}))]).await;
    let (_, errors) = tell(&place, &[news("3", order, json!({"cancel": "accepted"}))]).await;
    assert_eq!(errors, ["0 3 contradiction"]);
    assert_eq!(place.status(order).await, "waiting_for_the_carrier");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_rollback_that_is_under_way_is_answered_by_news_too(_: PgPoolOptions, options: PgConnectOptions) {
    let place = called(&options, 1).await;
    place.count(&[(0, 9)]).await;
    let (given, kept) = (place.send("A", &[(0, 1)]).await, place.send("B", &[(0, 1)]).await);
    for order in [given, kept] {
        is_at(&place, order, "withdrawing").await;
    }
    take(
        &place,
        &[news("1", given, json!({"cancel": "accepted"})), news("2", kept, json!({"cancel": "refused"}))],
    )
    .await;
    assert_eq!(place.status(given).await, "on_hold");
    assert_eq!(handover(&place, given).await.0.as_deref(), Some("withdrawn"));
    assert_eq!(place.status(kept).await, "awaiting_processing");
    assert_eq!(read(&place, kept).await["handover"]["error"], "the warehouse did not give it back");
    assert_eq!(handover(&place, kept).await.0.as_deref(), Some("accepted"));
    assert_eq!(place.stock(0).await, (9, 1, 0));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_was_packed_though_it_is_canceled_leaves_the_stock_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = called(&options, 1).await;
    place.count(&[(0, 9)]).await;
    let order = cancelling(&place, "A", "take_out").await;
    take(&place, &[news("1", order, json!({"cancel": "accepted"}))]).await;
    let before = read(&place, order).await;
    let packed = news("2", order, json!({"status": "waiting_for_the_carrier"}));
    let later = news("3", order, json!({"status": "delivered"}));
    let (counts, errors) = tell(&place, &[packed.clone(), later]).await;
    assert_eq!(
        (counts, errors.as_slice()),
        ((0, 0), ["0 2 contradiction", "1 3 contradiction"].map(str::to_owned).as_slice())
    );
    // it took effect
    assert_eq!(tell(&place, &[packed]).await, ((0, 1), vec![]));
    assert_eq!(read(&place, order).await, before, "its record stays");
    assert_eq!(place.stock(0).await, (8, 0, 0));
    let left: Vec<(i32, bool)> = sqlx::query_as(
        "SELECT quantity, expedition_item_id IS NOT NULL FROM stock_movement WHERE kind = 'expedited'",
    )
    .fetch_all(&place.world.owner)
    .await
    .unwrap();
    assert_eq!(left, [(-1, true)]);
    let completed = json!({"criteria": {"movementSubType": {"eq": "completion"}}, "select": ["expedition", "outboundReceipt"]});
    let completed = Request::read(&STOCK_MOVEMENT, Some(completed)).unwrap();
    let page = list::page(&place.world.services, &Scope::Everything, &completed).await.unwrap();
    let page: Value = serde_json::from_str(&page).unwrap();
    let moved = json!([{"expedition": order, "outboundReceipt": null}]);
    assert_eq!(page["results"], moved, "an order that is not packed has no receipt");
    let (_, errors) = tell(&place, &[news("4", order, json!({"status": "take_out"}))]).await;
    assert_eq!(errors, ["0 4 old_number"]);
    place.must_hold().await;
}
