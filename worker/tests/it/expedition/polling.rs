//! What a caller finds that polls, and reads the last minute again (`docs/reference/lists.md#polling`).

use chrono::{DateTime, Utc};
use longshore_domain::partner::push::Push;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::closing::{announced, received, supplier};
use super::support::Place;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_inserted_behind_a_lock_says_when_it_was_inserted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 1)]).await;
    let mut order = place.body("1", &[(0, 1)]);
    order["send"] = json!(true);
    let eshop = order.as_object_mut().unwrap().remove("eshop");
    let packed =
        json!({"id": "1", "eshop": eshop, "orderNumber": "1", "parcels": [{"extPackageNumber": "1"}]});
    for (push, rows, lock, inserted) in [
        (
            Push::Products,
            vec![json!({"productSku": "P0", "name": "Jug"}), json!({"productSku": "NEW", "name": "Mug"})],
            "SELECT FROM product WHERE product_sku = 'P0' FOR UPDATE",
            "SELECT changed_at FROM product WHERE product_sku = 'NEW'",
        ),
        (
            Push::Stocks,
            vec![json!({"productSku": "P0", "quantity": 2}), json!({"productSku": "NEW", "quantity": 3})],
            "SELECT FROM product_stock FOR UPDATE",
            "SELECT unnest(ARRAY[s.changed_at, m.at]) FROM product p JOIN product_stock s ON s.product_id = p.id
             JOIN stock_movement m ON m.product_id = p.id WHERE p.product_sku = 'NEW'",
        ),
        (
            Push::Expeditions,
            vec![order],
            "SELECT FROM product_stock FOR UPDATE",
            "SELECT unnest(ARRAY[e.changed_at, e.status_since, i.changed_at])
             FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id",
        ),
        (
            Push::News,
            vec![packed],
            "SELECT FROM expedition FOR UPDATE",
            "SELECT changed_at FROM expedition_parcel",
        ),
    ] {
        let mut holder = place.world.owner.begin().await.unwrap();
        sqlx::query(lock).execute(&mut *holder).await.unwrap();
        let job = place.world.sync(push, rows.iter().map(ToString::to_string)).await;
        let release = async {
            place.world.until_blocked(1).await;
            let now: DateTime<Utc> =
                sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(&mut *holder).await.unwrap();
            holder.commit().await.unwrap();
            now
        };
        let count = i64::try_from(rows.len()).unwrap();
        let (_, released) = tokio::join!(place.world.drain(), release);
        assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [count, 0, 0]));
        let moments: Vec<DateTime<Utc>> =
            sqlx::query_scalar(inserted).fetch_all(&place.world.owner).await.unwrap();
        assert!(!moments.is_empty() && moments.iter().all(|at| *at > released), "{push:?}: {moments:?}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_receipt_says_when_it_was_written(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    let advice = announced(&place, supplier(&place).await, "A", 0).await;
    let mut holder = place.world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM stock_advice FOR UPDATE").execute(&mut *holder).await.unwrap();
    let release = async {
        place.world.until_blocked(1).await;
        let now: DateTime<Utc> =
            sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(&mut *holder).await.unwrap();
        holder.commit().await.unwrap();
        now
    };
    let ((), released) = tokio::join!(received(&place, &advice, 4), release);
    let written: DateTime<Utc> = sqlx::query_scalar("SELECT created_at FROM inbound_receipt")
        .fetch_one(&place.world.owner)
        .await
        .unwrap();
    assert!(written > released);
}
