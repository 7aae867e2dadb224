//! Each report takes effect once, and orders end alike if reports are doubled, shuffled, in chunks, and in several jobs.

use longshore_domain::partner::push::Push;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::super::support::Place;
use super::{called, is_at, news, read};

/// What a warehouse says of an order.
fn story(order: ExpeditionId) -> Vec<Value> {
    let at = |hour: u32| format!("2026-01-01T{hour:02}:00:00Z");
    let items =
        json!([{"productSku": "P0", "expedited": 2}, {"productSku": "P1", "expedited": 1, "lot": "L1"}]);
    let said = [
        json!({"number": 1, "wmsInternalId": "W-1"}),
        json!({"status": "take_out", "at": at(1)}),
        json!({"status": "completion", "at": at(2), "parcels": [{"extPackageNumber": "1"}]}),
        json!({"status": "waiting_for_the_carrier", "at": at(3), "items": items,
               "parcels": [{"extPackageNumber": "2", "extPackageTrackingNumber": "T2"}]}),
        json!({"status": "carrier_picked_up", "at": at(4), "items": items}),
        json!({"parcels": [{"extPackageNumber": "1", "extCarrierTrackingNumber": "C1"}]}),
        json!({"status": "ready_to_takeover", "at": at(5), "items": items}),
        json!({"status": "delivered", "at": at(6), "items": items}),
    ];
    said.into_iter().enumerate().map(|(n, members)| news(&format!("{order}-{n}"), order, members)).collect()
}

/// What an order shows that its reports decide.
fn shown(record: &Value) -> Value {
    let mut parcels = record["parcels"].as_array().unwrap().clone();
    parcels.sort_by_key(|parcel| parcel["extPackageNumber"].to_string());
    for parcel in &mut parcels {
        for moment in ["createdAt", "changedAt"] {
            parcel.as_object_mut().unwrap().remove(moment);
        }
    }
    let items: Vec<Value> = record["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| json!([item["expedited"], item["assignedLot"], item["booked"]]))
        .collect();
    let of_record =
        ["status", "packedAt", "sentAt", "deliveredAt", "trackingNumber", "expeditedCompletely", "errors"];
    let fields: Vec<&Value> = of_record.iter().map(|name| &record[*name]).collect();
    json!({"fields": fields, "parcels": parcels, "items": items, "handover": [record["handover"]["state"], record["handover"]["wmsInternalId"]]})
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_end_alike_however_they_are_told(_: PgPoolOptions, options: PgConnectOptions) {
    const ORDERS: i64 = 30;
    let place = called(&options, 2).await;
    place.world.webhook("*").await;
    place.count(&[(0, 100), (1, 100)]).await;
    let mut orders = Vec::new();
    for n in 0..ORDERS {
        let order = place.send(&n.to_string(), &[(0, 2), (1, 1), (1, 1)]).await;
        is_at(&place, order, if n % 2 == 0 { "sending" } else { "accepted" }).await;
        orders.push(order);
    }
    let mut rng = StdRng::seed_from_u64(7);
    // the first is reported as it happened
    tell_all(&place, story(orders[0])).await;
    let mut left: Vec<Value> = orders[1..].iter().flat_map(|order| story(*order)).collect();
    left.extend(left.clone());
    left.shuffle(&mut rng);
    while !left.is_empty() {
        let rest = left.split_off(left.len().min(rng.random_range(1..90)));
        tell_all(&place, left).await;
        left = rest;
    }
    let expected = shown(&read(&place, orders[0]).await);
    assert_eq!(expected["items"], json!([[2, null, 0], [1, "L1", 0], [0, null, 0]]));
    for order in &orders {
        let record = read(&place, *order).await;
        assert_eq!(shown(&record), expected);
        // versions have no gap, and each change of the status is one event
        let events: Vec<(i64, String)> = sqlx::query_as(
            "SELECT (data ->> 'version')::bigint, data -> 'fields' ->> 'status' FROM event
             WHERE entity_id = $1 AND type = 'expedition_status_change' ORDER BY id",
        )
        .bind(order)
        .fetch_all(&place.world.owner)
        .await
        .unwrap();
        assert_eq!(events.last().unwrap().1, "delivered");
        assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "{events:?}");
        assert!(events.last().unwrap().0 <= record["version"].as_i64().unwrap());
    }
    let count = |sql| place.world.count(sql);
    assert_eq!(count("SELECT count(*) FROM wms_news").await, ORDERS * 8, "each id once");
    assert_eq!(count("SELECT -sum(quantity) FROM stock_movement WHERE kind = 'expedited'").await, ORDERS * 3);
    assert_eq!((place.stock(0).await, place.stock(1).await), ((40, 0, 0), (70, 0, 0)));
    place.must_hold().await;
}

async fn tell_all(place: &Place, news: Vec<Value>) {
    let job = place.world.sync(Push::News, news.iter().map(Value::to_string)).await;
    place.world.drain().await;
    let (state, [_, _, failed]) = place.world.outcome(job).await;
    assert_eq!((state.as_str(), failed), ("succeeded", 0), "{:?}", place.world.errors(job).await);
}
