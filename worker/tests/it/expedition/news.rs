//! What a warehouse reports (`docs/reference/orders.md#news`).

mod cancel;
mod dropped;
mod handed_over;
mod lost;
mod race;
mod refused;
mod retention;
mod shuffled;
mod taken;

use longshore_domain::partner::push::Push;
use longshore_kernel::ids::ExpeditionId;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;

use super::support::Place;

/// What came of reports: changed, unchanged, and the refused ones as `index key code`.
type Came = ((i64, i64), Vec<String>);

/// Reports; returns what came of it.
async fn tell(place: &Place, news: &[Value]) -> Came {
    let job = place.world.sync(Push::News, news.iter().map(Value::to_string)).await;
    place.world.drain().await;
    let (state, [changed, unchanged, failed]) = place.world.outcome(job).await;
    assert_eq!(state, "succeeded", "{:?}", place.world.job(job).await);
    let errors = place.world.errors(job).await;
    assert_eq!(usize::try_from(failed).unwrap(), errors.len());
    ((changed, unchanged), errors)
}

/// Reports that must be taken.
async fn take(place: &Place, news: &[Value]) {
    let taken = i64::try_from(news.len()).unwrap();
    assert_eq!(tell(place, news).await, ((taken, 0), Vec::<String>::new()));
}

/// A report of an order, with further members.
fn news(id: &str, order: ExpeditionId, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("{members}") };
    let mut news = json!({"id": id, "expedition": order});
    news.as_object_mut().unwrap().extend(members);
    news
}

/// A place whose orders are handed over by calls: its wms has an active setting.
async fn called(options: &PgConnectOptions, products: usize) -> Place {
    let place = Place::new(options, products).await;
    sqlx::query(
        "WITH made AS (
             INSERT INTO wms_setting (wms_id, organisation_id, active, paused, base_url, credentials, max_in_flight, secret, fills)
             VALUES ($1, $2, true, false, 'http://127.0.0.1:1', '', 8, '', false) RETURNING wms_id
         )
         INSERT INTO wms_lane (wms_id) SELECT wms_id FROM made",
    )
    .bind(place.world.tenant.wms)
    .bind(place.world.tenant.organisation)
    .execute(&place.world.owner)
    .await
    .unwrap();
    place
}

/// The warehouse has answered the call, or has not.
async fn is_at(place: &Place, order: ExpeditionId, state: &str) {
    let changed = sqlx::query(
        "UPDATE expedition_handover
         SET handover_state = $2,
             handover_next_attempt_at = CASE WHEN $2 IN ('pending', 'sending', 'withdrawing') THEN now() END
         WHERE id = $1",
    )
    .bind(order)
    .bind(state)
    .execute(&place.world.owner)
    .await
    .unwrap();
    assert_eq!(changed.rows_affected(), 1);
}

/// State and number of a hand-over.
async fn handover(place: &Place, order: ExpeditionId) -> (Option<String>, i32) {
    sqlx::query_as("SELECT handover_state, handover_number FROM expedition_handover WHERE id = $1")
        .bind(order)
        .fetch_one(&place.world.owner)
        .await
        .unwrap()
}

/// The record of an order.
async fn read(place: &Place, order: ExpeditionId) -> Value {
    let record = longshore_domain::list::find(
        &place.world.services.db.main,
        &longshore_domain::list::fields::expedition::EXPEDITION,
        place.world.context.scope(),
        order.get(),
    );
    serde_json::from_str(&record.await.unwrap().unwrap().json).unwrap()
}

/// Actions and changes of the audit of an order, the oldest first.
async fn audits(place: &Place, order: ExpeditionId) -> Vec<(String, Value)> {
    sqlx::query_as("SELECT action, changes FROM audit WHERE entity_id = $1 ORDER BY id")
        .bind(order)
        .fetch_all(&place.world.owner)
        .await
        .unwrap()
}
