//! Stock advices that were left open (`docs/reference/warehouses.md#stock-advice`).

use longshore_domain::warehouse::stock_advice::end::{CLOSED_AT_ONCE, close_due};
use longshore_domain::warehouse::stock_advice::{create, receive};
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::upkeep;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::Place;

/// Makes a supplier.
pub(super) async fn supplier(place: &Place) -> Uuid {
    sqlx::query_scalar(
        "INSERT INTO supplier (id, organisation_id, name, active) VALUES (uuid_v7(), $1, 'Potter', true) RETURNING id",
    )
    .bind(place.world.tenant.organisation)
    .fetch_one(&place.world.owner)
    .await
    .unwrap()
}

/// Announces ten pieces of `P0`, which were expected so many days ago; returns the record.
pub(super) async fn announced(place: &Place, supplier: Uuid, name: &str, days_ago: i32) -> Value {
    let world = &place.world;
    let product: Uuid = sqlx::query_scalar("SELECT id FROM product WHERE product_sku = 'P0'")
        .fetch_one(&world.owner)
        .await
        .unwrap();
    let body = json!({
        "organisation": world.tenant.organisation, "warehouse": world.tenant.warehouse, "wms": world.tenant.wms,
        "supplier": supplier, "internalId": name, "expectedAt": "2026-01-01T00:00:00Z",
        "items": [{"product": product, "quantity": 10}],
    });
    let made = create::create(&world.services, &world.context, body).await.unwrap();
    let made: Value = serde_json::from_str(&made.body.unwrap()).unwrap();
    sqlx::query(
        "UPDATE stock_advice SET expected_at = now() - make_interval(days => $2) WHERE id = $1::uuid",
    )
    .bind(made["id"].as_str().unwrap())
    .bind(days_ago)
    .execute(&world.owner)
    .await
    .unwrap();
    made
}

pub(super) async fn received(place: &Place, advice: &Value, quantity: i64) {
    let id = advice["id"].as_str().unwrap().parse().unwrap();
    let body = json!({"items": [{"id": advice["items"][0]["id"], "quantity": quantity}]});
    receive::receive(&place.world.services, &place.world.context, id, body, |_| Ok(())).await.unwrap();
}

async fn statuses(place: &Place) -> Vec<(String, String)> {
    sqlx::query_as("SELECT internal_id, status FROM stock_advice ORDER BY 1")
        .fetch_all(&place.world.owner)
        .await
        .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_advice_is_closed_some_days_after_it_was_expected_or_last_received(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let world = &place.world;
    world.webhook("stock_advice_status_change").await;
    let supplier = supplier(&place).await;
    announced(&place, supplier, "expected long ago", 8).await;
    announced(&place, supplier, "expected lately", 6).await;
    announced(&place, supplier, "expected later", -1).await;
    let came = announced(&place, supplier, "received lately", 30).await;
    received(&place, &came, 4).await;
    let keep = async || upkeep::run(world.worker.clone(), "advices".to_owned()).await;
    let is_closed = async || {
        let all = statuses(&place).await;
        all.into_iter().filter(|(_, status)| status == "closed").map(|(name, _)| name).collect::<Vec<_>>()
    };
    keep().await;
    assert!(is_closed().await.is_empty(), "without an interval, nothing is closed");
    assert_eq!(world.counted("upkeep").await, [("succeeded".to_owned(), 1)]);
    world.execute("UPDATE organisation SET stock_advice_close_interval = 7").await;
    let incoming = "SELECT incoming::bigint FROM product_stock";
    assert_eq!(world.count(incoming).await, 36);
    keep().await;
    assert_eq!(is_closed().await, ["expected long ago"]);
    assert_eq!(world.count(incoming).await, 26, "what has not come is expected no more");
    // as by hand, but for who did it
    let audited: Vec<(String, String, String, Value)> = sqlx::query_as(
        "SELECT a.actor_type, a.actor_name, a.action, a.changes -> 'status' FROM audit a
         JOIN stock_advice s ON s.id = a.entity_id WHERE s.status = 'closed' AND a.action <> 'stock_advice.create'",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let text = |text: &str| text.to_owned();
    let closed = (text("schedule"), text("upkeep"), text("stock_advice.close"), json!(["new", "closed"]));
    assert_eq!(audited, [closed]);
    let events = "SELECT count(*) FROM event e JOIN delivery d ON d.event_id = e.id
                WHERE e.type = 'stock_advice_status_change' AND e.data ->> 'status' = 'closed'";
    assert_eq!(world.count(events).await, 1);
    keep().await;
    assert_eq!(is_closed().await.len(), 1, "once");

    world.execute("UPDATE organisation SET stock_advice_close_interval = 0").await;
    keep().await;
    assert_eq!(is_closed().await, ["expected lately", "expected long ago", "received lately"]);
    assert_eq!(world.count(incoming).await, 10);
    assert_eq!(place.stock(0).await, (4, 0, 0), "what has come stays");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn advices_that_cannot_be_closed_hide_no_later_one(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    let world = &place.world;
    let supplier = supplier(&place).await;
    for n in 0..CLOSED_AT_ONCE {
        announced(&place, supplier, &format!("locked {n}"), 9).await;
    }
    announced(&place, supplier, "free", 8).await;
    world.execute("UPDATE organisation SET stock_advice_close_interval = 7").await;
    let mut locking = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM stock_advice WHERE internal_id <> 'free' FOR UPDATE")
        .execute(&mut *locking)
        .await
        .unwrap();
    assert_eq!(close_due(&world.services).await.unwrap(), 1);
    let closed: Vec<String> =
        sqlx::query_scalar("SELECT internal_id FROM stock_advice WHERE status = 'closed'")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    assert_eq!(closed, ["free"]);
    locking.rollback().await.unwrap();
    assert_eq!(close_due(&world.services).await.unwrap(), CLOSED_AT_ONCE.unsigned_abs());
    assert_eq!(close_due(&world.services).await.unwrap(), 0);
}
