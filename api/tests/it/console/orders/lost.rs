//! Orders that only a warehouse has: the line of what needs attention, their list, and dismissing them.

use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::Yard;
use crate::attention::{find, line, path};
use crate::product::MIGRATIONS;

const KIND: &str = "lost_orders";

impl Yard {
    /// An order that only the warehouse has, since so many minutes.
    async fn lost(&self, number: i32, minutes_ago: i32) -> (Uuid, Uuid) {
        sqlx::query_as(
            "INSERT INTO wms_lost_order (id, wms_id, expedition_id, organisation_id, number, report, created_at)
             SELECT uuid_v7(), id, uuid_v7(), organisation_id, $2, '{\"status\": \"take_out\"}', now() - make_interval(mins => $3)
             FROM wms WHERE id = $1 RETURNING id, expedition_id",
        )
        .bind(self.world.api.tenant.wms)
        .bind(number)
        .bind(minutes_ago)
        .fetch_one(&self.world.owner)
        .await
        .unwrap()
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_that_only_the_warehouse_has_are_a_line_until_they_are_dismissed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let (world, api) = (&yard.world, &yard.world.api);
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    assert_eq!(find(world, &admin, KIND).await, None);
    let (first, _) = yard.lost(1, 50).await;
    let (last, expedition) = yard.lost(4, 20).await;
    let shown = line(world, &admin, KIND).await;
    let said = format!(
        "Gifts inventory (Gifts): 2 reported orders are not here since Postgres was set back, the first for 50 min, the last for 20 min: {expedition}, number 4."
    );
    assert_eq!((&shown["sentence"], &shown["severity"]), (&json!(said), &json!("warning")));
    assert_eq!(shown["page"], format!("/console/wms/{}", api.tenant.wms));
    assert_eq!(find(world, &theirs, KIND).await, None);
    // one more is new
    api.put(&admin, &path(&shown, "acknowledge"), Value::Null).await.expect(200);
    assert_ne!(line(world, &admin, KIND).await["silence"], Value::Null);
    yard.lost(5, 1).await;
    assert_eq!(line(world, &admin, KIND).await["silence"], Value::Null);

    let listed = async |token: &str| {
        let body = json!({"criteria": {"wms": {"eq": api.tenant.wms}}});
        let listed = api.post(token, "/api/lost-order/list", body).await.expect(200).json();
        listed["results"].as_array().unwrap().clone()
    };
    let records = listed(&admin).await;
    let record = records.iter().find(|record| record["id"] == json!(last)).unwrap();
    assert_eq!((&record["expedition"], &record["number"]), (&json!(expedition), &json!(4)));
    assert_eq!((records.len(), &record["report"]), (3, &json!({"status": "take_out"})));
    assert_eq!(listed(&theirs).await, [] as [Value; 0]);

    let of = |id: Uuid| format!("/api/lost-order/{id}");
    api.delete(&theirs, &of(first)).await.expect(404);
    api.delete(&api.user, &of(first)).await.expect(403);
    api.delete(&admin, &of(first)).await.expect(204);
    api.delete(&admin, &of(first)).await.expect(404);
    // in the console
    let browser = yard.browser(Role::Admin).await;
    let page = browser.open(&format!("/console/wms/{}", api.tenant.wms)).await.expect(200).text;
    assert!(page.contains(&expedition.to_string()) && page.contains("take_out"), "{page}");
    browser.act(&format!("/console/lost-order/{last}/dismiss"), &[]).await.expect(303);
    assert_eq!(listed(&admin).await.len(), 1);
    let audited: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit WHERE action = 'wms.dismiss_lost_order' AND entity_id = $1",
    )
    .bind(api.tenant.wms)
    .fetch_one(&world.owner)
    .await
    .unwrap();
    assert_eq!(audited, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_the_warehouse_has_by_a_lost_number_is_a_line(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let world = &yard.world;
    let admin = world.api.tenant.token(&world.api.services, Role::Admin).await.unwrap();
    let order = yard.order("ONE", 2, &json!({"send": true})).await;
    sqlx::query(
        "INSERT INTO wms_contradiction (expedition_id, number, wms_id, news_id, at, is_lost, has_left)
         VALUES ($1::uuid, 7, $2, 'N', now() - interval '40 minutes', true, false)",
    )
    .bind(&order)
    .bind(world.api.tenant.wms)
    .execute(&world.owner)
    .await
    .unwrap();
    let said = "Gifts inventory (Gifts): 1 order is in the warehouse by a number that is not known here, the last 40 min ago: ONE. What was packed left the stock.";
    assert_eq!(line(world, &admin, "contradicted_orders").await["sentence"], said);
}
