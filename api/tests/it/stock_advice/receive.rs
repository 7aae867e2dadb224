//! Receiving and cancelling.

use http::Method;
use longshore_domain::account::eshop::{self, NewEshop};
use longshore_kernel::context::Origin;
use longshore_kernel::ids::EshopId;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, World, path, receipt};
use crate::support::strangers;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn received_pieces_move_from_incoming_to_quantity(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (mug, cup) = (world.add("mug", json!({})).await, world.add("cup", json!({})).await);
    let advice = world.announce("PO-1", &[(&mug, 10), (&cup, 5)]).await;
    let reply = world.receive(&advice, &[(0, 4)], false).await.expect(200);
    let now = reply.json();
    assert_eq!(reply.header("location"), Some(path(&advice, "").trim_end_matches('/')));
    assert_eq!((&now["status"], &now["items"][0]["received"]), (&json!("receiving"), &json!(4)));
    assert!(now["changedAt"].as_str() > advice["changedAt"].as_str());
    assert_eq!((world.stock(&mug).await, world.stock(&cup).await), ([4, 6], [0, 5]));
    // a surplus is in stock, but no more of it was announced
    let now = world.receive(&advice, &[(0, 9), (1, 2)], false).await.expect(200).json();
    assert_eq!((&now["status"], &now["items"][0]["received"]), (&json!("receiving"), &json!(13)));
    assert_eq!((world.stock(&mug).await, world.stock(&cup).await), ([13, 0], [2, 3]));
    assert_eq!(world.contradictions().await, 0);
    // closed with the last receipt: missing goods are no longer expected
    let now = world.receive(&advice, &[(1, 1)], true).await.expect(200).json();
    assert_eq!((&now["status"], &now["items"][1]["received"]), (&json!("closed"), &json!(3)));
    assert_eq!((world.stock(&mug).await, world.stock(&cup).await), ([13, 0], [3, 0]));
    assert_eq!(world.contradictions().await, 0);
    let kinds: Vec<(String, i32, i32)> = sqlx::query_as(
        "SELECT kind, quantity, incoming FROM stock_movement WHERE product_id = $1::uuid
         ORDER BY id, quantity DESC",
    )
    .bind(&cup)
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let kinds: Vec<_> =
        kinds.iter().map(|(kind, quantity, incoming)| (kind.as_str(), *quantity, *incoming)).collect();
    assert_eq!(kinds.len(), 4);
    for expected in [("announced", 0, 5), ("received", 2, -2), ("received", 1, -1), ("withdrawn", 0, -2)] {
        assert!(kinds.contains(&expected), "{expected:?} in {kinds:?}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn events_are_sent_for_new_statuses_and_every_change_of_a_stock(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mug = world.add("mug", json!({})).await;
    let advice = world.announce("PO-1", &[(&mug, 10)]).await;
    world.webhook(world.api.tenant.eshop.get(), "stock_advice_status_change").await;
    world.webhook(world.api.tenant.eshop.get(), "product_stock_change").await;
    world.receive(&advice, &[(0, 1)], false).await.expect(200);
    world.receive(&advice, &[(0, 2)], false).await.expect(200);
    world.receive(&advice, &[], true).await.expect(200);
    let events: Vec<(String, Value)> =
        sqlx::query_as("SELECT type, data FROM event ORDER BY id").fetch_all(&world.owner).await.unwrap();
    let statuses: Vec<_> = events
        .iter()
        .filter(|(kind, _)| kind == "stock_advice_status_change")
        .map(|(_, data)| (data["status"].as_str().unwrap(), data["orderNumber"].as_str().unwrap()))
        .collect();
    assert_eq!(statuses, [("receiving", "PO-1"), ("closed", "PO-1")]);
    let stocks: Vec<_> = events
        .iter()
        .filter(|(kind, _)| kind == "product_stock_change")
        .map(|(_, data)| data["fields"].clone())
        .collect();
    assert_eq!(
        stocks,
        [
            json!({"quantity": 1, "available": 1, "incoming": 9}),
            json!({"quantity": 3, "available": 3, "incoming": 7}),
            json!({"incoming": 0}),
        ]
    );
    let (action, changes) = world.audited(advice["id"].as_str().unwrap()).await;
    assert_eq!(
        (action.as_str(), changes),
        ("stock_advice.close", json!({"status": ["receiving", "closed"]}))
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_eshops_of_the_warehouse_and_of_the_products_get_its_events(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let organisation = world.api.tenant.organisation;
    // an e-shop of the product but not of the warehouse; of the warehouse but not of the product; of neither
    let elsewhere = async |name: &str| {
        let new = NewEshop { organisation, name: name.to_owned(), warehouses: Vec::new() };
        eshop::create(&world.api.services, &Origin::command_line(), &new).await.unwrap()
    };
    let (seller, housed, neither) =
        (elsewhere("Seller").await, world.eshop().await, elsewhere("Neither").await);
    let mug = world.add("mug", json!({"eshops": [seller]})).await;
    for eshop in [seller, housed.into(), neither] {
        world.webhook(eshop.get(), "*").await;
    }
    world.announce("PO-1", &[(&mug, 1)]).await;
    let heard: Vec<(EshopId, i64)> =
        sqlx::query_as("SELECT eshop_id, count(*) FROM delivery GROUP BY 1 ORDER BY 1")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    let mut expected = [(seller, 2), (housed.into(), 2)];
    expected.sort_unstable();
    assert_eq!(heard, expected);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_ended_advice_is_neither_received_nor_cancelled(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mug = world.add("mug", json!({})).await;
    let closed = world.announce("PO-1", &[(&mug, 10)]).await;
    world.receive(&closed, &[(0, 10)], true).await.expect(200);
    let cancelled = world.announce("PO-2", &[(&mug, 5)]).await;
    world.receive(&cancelled, &[(0, 2)], false).await.expect(200);
    assert_eq!(world.stock(&mug).await, [12, 3]);
    let now = world.cancel(&cancelled).await.expect(200).json();
    assert_eq!((&now["status"], &now["items"][0]["received"]), (&json!("cancelled"), &json!(2)));
    let unstarted = world.announce("PO-3", &[(&mug, 1)]).await;
    world.cancel(&unstarted).await.expect(200);
    assert_eq!((world.stock(&mug).await, world.contradictions().await), ([12, 0], 0));
    for advice in [&closed, &cancelled, &unstarted] {
        let reply = world.receive(advice, &[(0, 1)], false).await.expect(409);
        assert_eq!(reply.json()["code"], "conflict");
        world.receive(advice, &[], true).await.expect(409);
        world.cancel(advice).await.expect(409);
    }
    assert_eq!(world.stock(&mug).await, [12, 0]);
    // the database enforces it, too
    for (from, to) in [("closed", "receiving"), ("cancelled", "new"), ("closed", "cancelled")] {
        let reopened = sqlx::query("UPDATE stock_advice SET status = $2 WHERE status = $1")
            .bind(from)
            .bind(to)
            .execute(&world.owner)
            .await;
        assert!(reopened.is_err(), "{from} to {to}");
    }
}

#[tokio::test]
async fn a_receipt_names_items_of_the_advice_once() {
    let world = World::new(&strangers().await).await;
    let mug = world.add("mug", json!({})).await;
    let advice = world.announce("PO-1", &[(&mug, 10)]).await;
    let other = world.announce("PO-2", &[(&mug, 10)]).await;
    let item = &advice["items"][0]["id"];
    for (body, violations) in [
        (json!({}), vec!["items required"]),
        (json!({"items": []}), vec!["items invalid_count"]),
        (json!({"items": [], "close": "yes"}), vec!["close wrong_type", "items invalid_count"]),
        (json!({"items": [{"id": item, "quantity": 0}]}), vec!["items[0].quantity out_of_range"]),
        (json!({"items": [{"id": item, "quantity": 1_000_001}]}), vec!["items[0].quantity out_of_range"]),
        (
            json!({"items": [{"id": item}], "open": true}),
            vec!["items[0].quantity required", "open unknown_field"],
        ),
        (
            json!({"items": [{"id": item, "quantity": 1}, {"id": item, "quantity": 1}]}),
            vec!["items[1].id duplicate"],
        ),
        (
            json!({"items": [{"id": item, "quantity": 1}, {"id": other["items"][0]["id"], "quantity": 1}]}),
            vec!["items[1].id unknown_reference"],
        ),
        (
            json!({"items": [{"id": item, "quantity": 0}, {"id": other["items"][0]["id"], "quantity": 1}, {"id": "x", "quantity": 1}, 7]}),
            vec![
                "items[0].quantity out_of_range",
                "items[2].id invalid_id",
                "items[3] wrong_type",
                "items[1].id unknown_reference",
            ],
        ),
    ] {
        let reply = world.api.put(&world.api.user, &path(&advice, "receive"), body.clone()).await.expect(400);
        assert_eq!(reply.violations(), violations, "{body}");
    }
    assert_eq!(world.stock(&mug).await, [0, 20]);
    let stale = [("if-match", "\"0\"")];
    let put = async |action: &str, body: Value, headers: &[(&str, &str)]| {
        world.api.call_with(&world.api.user, Method::PUT, &path(&advice, action), body, headers).await
    };
    put("receive", receipt(&advice, &[(0, 1)], false), &stale).await.expect(412);
    put("cancel", Value::Null, &stale).await.expect(412);
    let shown = world.api.get(&world.api.user, path(&advice, "").trim_end_matches('/')).await.expect(200);
    let fresh = [("if-match", shown.header("etag").unwrap())];
    put("receive", receipt(&advice, &[(0, 1)], false), &fresh).await.expect(200);
    put("cancel", Value::Null, &fresh).await.expect(412);
    assert_eq!(world.stock(&mug).await, [1, 19]);
}

#[tokio::test]
async fn a_repeated_receipt_counts_once_and_two_of_them_twice() {
    let world = World::new(&strangers().await).await;
    let mug = world.add("mug", json!({})).await;
    let advice = world.announce("PO-1", &[(&mug, 10)]).await;
    let receive = async |key: &str| {
        let body = receipt(&advice, &[(0, 3)], false);
        let headers = [("idempotency-key", key)];
        world.api.call_with(&world.api.user, Method::PUT, &path(&advice, "receive"), body, &headers).await
    };
    let first = receive("a").await.expect(200);
    let again = receive("a").await.expect(200);
    assert_eq!((first.json(), again.header("idempotent-replayed")), (again.json(), Some("true")));
    assert_eq!(world.stock(&mug).await, [3, 7]);
    receive("b").await.expect(200);
    assert_eq!(world.stock(&mug).await, [6, 4]);
    // concurrent requests with one key: one is executed, the others get its answer or a conflict
    let replies = futures::future::join_all((0..6).map(|_| receive("c"))).await;
    assert!(replies.iter().all(|reply| matches!(reply.status.as_u16(), 200 | 409)));
    assert_eq!(world.stock(&mug).await, [9, 1]);
    // a key with another body
    let headers = [("idempotency-key", "a")];
    let other = receipt(&advice, &[(0, 1)], false);
    let reply =
        world.api.call_with(&world.api.user, Method::PUT, &path(&advice, "receive"), other, &headers).await;
    reply.expect(422);
    // the same for a cancellation
    for _ in 0..2 {
        let headers = [("idempotency-key", "end")];
        let place = path(&advice, "cancel");
        let call = world.api.call_with(&world.api.user, Method::PUT, &place, Value::Null, &headers);
        assert_eq!(call.await.expect(200).json()["status"], "cancelled");
    }
    assert_eq!((world.stock(&mug).await, world.contradictions().await), ([9, 0], 0));
}

#[tokio::test]
async fn concurrent_receipts_all_count_and_one_of_two_ends_wins() {
    let world = World::new(&strangers().await).await;
    let (mug, cup) = (world.add("mug", json!({})).await, world.add("cup", json!({})).await);
    let advice = world.announce("PO-1", &[(&mug, 5), (&cup, 100)]).await;
    let body = receipt(&advice, &[(1, 1), (0, 1)], false);
    let place = path(&advice, "receive");
    let calls = (0..10).map(|_| world.api.put(&world.api.user, &place, body.clone()));
    for reply in futures::future::join_all(calls).await {
        reply.expect(200);
    }
    assert_eq!((world.stock(&mug).await, world.stock(&cup).await), ([10, 0], [10, 90]));
    let closing = receipt(&advice, &[(1, 1)], true);
    let (closed, cancelled) =
        tokio::join!(world.api.put(&world.api.user, &place, closing), world.cancel(&advice));
    let mut statuses = [closed.status.as_u16(), cancelled.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let arrived = if closed.status == 200 { 11 } else { 10 };
    assert_eq!((world.stock(&mug).await, world.stock(&cup).await), ([10, 0], [arrived, 0]));
    assert_eq!(world.contradictions().await, 0);
}
