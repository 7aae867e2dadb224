use longshore_domain::expedition::news::retention;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::super::support::Place;
use super::{news, take};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn taken_reports_are_remembered_for_ninety_days(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 5)]).await;
    let order = place.send("A", &[(0, 1)]).await;
    let rows: Vec<_> = (0..5).map(|n| news(&n.to_string(), order, json!({"status": "take_out"}))).collect();
    take(&place, &rows).await;
    place
        .world
        .execute(
            "UPDATE wms_news SET received_at = now() - interval '90 days 1 minute' WHERE id < '3';
             UPDATE wms_news SET received_at = now() - interval '89 days 23 hours' WHERE id = '3'",
        )
        .await;
    let db = &place.world.services.db.main;
    assert_eq!(retention::expire(db, 2).await.unwrap(), 2, "at most so many at once");
    assert_eq!(retention::expire(db, 2).await.unwrap(), 1);
    assert_eq!(place.world.count("SELECT count(*) FROM wms_news").await, 2);
}
