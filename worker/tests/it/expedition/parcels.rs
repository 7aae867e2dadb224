use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::Place;

/// What events of the status of an order say of its parcels, the oldest first.
async fn events(place: &Place, order: ExpeditionId) -> Vec<Value> {
    sqlx::query_scalar(
        "SELECT data -> 'fields' FROM event WHERE entity_id = $1 AND type = 'expedition_status_change'
         AND data -> 'fields' ? 'parcels' ORDER BY id",
    )
    .bind(order)
    .fetch_all(&place.world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn events_tell_all_parcels_of_an_order_and_the_tracking_number_that_it_has(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.world.webhook("*").await;
    place.count(&[(0, 5)]).await;
    let order = place.send("A", &[(0, 1)]).await;
    let parcel = |number: &str, tracking: &str| {
        json!({"extPackageNumber": number, "extPackageTrackingNumber": tracking, "trackingUrl": null,
               "extCarrierTrackingNumber": null})
    };
    let (first, second) = (parcel("1", "T1"), parcel("2", "T2"));
    for (status, parcel) in [("completion", &first), ("waiting_for_the_carrier", &second)] {
        place.report(order, json!({"status": status, "parcels": [parcel]})).await.unwrap();
    }
    // what is not said again is kept
    let again = json!({"extPackageNumber": "1", "extCarrierTrackingNumber": "C1"});
    let record = place.report(order, json!({"status": "delivered", "parcels": [again]})).await.unwrap();
    let events = events(&place, order).await;
    let parcels: Vec<&Value> = events.iter().map(|fields| &fields["parcels"]).collect();
    let mut known = first.clone();
    known["extCarrierTrackingNumber"] = json!("C1");
    assert_eq!(parcels, [&json!([first]), &json!([first, second]), &json!([known, second])]);
    assert!(events.iter().all(|fields| fields["trackingNumber"] == "T1"), "{events:?}");
    assert_eq!(record["trackingNumber"], "T1");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_tracking_of_an_order_follows_the_corrections_of_the_parcel_that_gave_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 5)]).await;
    let order = place.send("A", &[(0, 1)]).await;
    let parcel = |number: &str, tracking: &str| {
        json!({"extPackageNumber": number, "extPackageTrackingNumber": tracking,
               "trackingUrl": format!("https://t/{tracking}")})
    };
    let report = async |status: &str, parcels: Value| {
        let record = place.report(order, json!({"status": status, "parcels": parcels})).await.unwrap();
        (record["trackingNumber"].as_str().unwrap().to_owned(), record["trackingUrl"].clone())
    };
    let at = |tracking: &str| (tracking.to_owned(), json!(format!("https://t/{tracking}")));
    assert_eq!(report("completion", json!([parcel("1", "T1"), parcel("2", "T2")])).await, at("T1"));
    // of another parcel
    assert_eq!(report("completion", json!([parcel("2", "T3")])).await, at("T1"));
    assert_eq!(report("completion", json!([parcel("1", "T4")])).await, at("T4"));
}
