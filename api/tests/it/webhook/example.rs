//! Tests of webhooks with an example of each type of event (`docs/reference/webhooks.md#tests`).

use std::collections::BTreeMap;

use longshore_domain::job::chunk::{self, Claimed, Count};
use longshore_domain::job::execution;
use longshore_domain::job::item_error::ItemError;
use longshore_domain::webhook::delivery::TESTS_A_MINUTE;
use longshore_domain::webhook::event::{NAMES, TYPES, example};
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::JobId;

use super::*;
use crate::expedition::World;
use crate::support::strangers;

/// Tests a webhook; returns the delivery.
async fn test(api: &Api, webhook: &str, event: &str) -> Value {
    let sent = api.post(&api.user, &format!("{PATH}/{webhook}/test"), json!({"event": event})).await;
    let sent = sent.expect(202);
    api.get(&api.user, sent.header("location").unwrap()).await.expect(200).json()
}

/// The body that a delivery sends.
async fn body(api: &Api, delivery: &Value) -> Value {
    let path = format!("/api/webhook-delivery/{}/body", delivery["id"].as_str().unwrap());
    api.get(&api.user, &path).await.expect(200).json()
}

/// The members of a value with the types of what they hold.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(elements) => elements.iter().map(shape).collect(),
        Value::String(_) => json!("a string"),
        Value::Number(_) => json!("a number"),
        Value::Bool(_) => json!("a boolean"),
        Value::Null => Value::Null,
    }
}

fn changed(data: &Value) -> Vec<&str> {
    let mut names: Vec<_> =
        data["changedFields"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Ends a sync of three rows, of which one was refused, like a worker.
async fn sync(world: &World) {
    let rows: Vec<_> = ["1", "2", "3"].iter().map(|sku| json!({"productSku": sku, "name": "Cup"})).collect();
    let body = json!({"eshop": world.api.tenant.eshop, "products": rows});
    let path = "/api/partner-integration/eshop/sync/products";
    let job = world.api.post(&world.api.connector, path, body).await.expect(200).json();
    let (services, job): (_, JobId) = (&world.api.services, job["id"].as_str().unwrap().parse().unwrap());
    let Claimed::Now(claim) = chunk::claim(&services.db.main, job, 0, false).await.unwrap() else { panic!() };
    let mut change = Change::begin(services).await.unwrap();
    let count = Count { changed: 2, unchanged: 0, failed: 1 };
    let refused = ItemError {
        index: 2,
        line: None,
        key: Some("3".to_owned()),
        code: "required",
        message: "name is required".to_owned(),
        field: Some("name".to_owned()),
        payload: b"{}".to_vec(),
        notice: false,
    };
    assert_eq!(execution::complete(&mut change, &claim, count, &[refused]).await.unwrap(), Hold::Kept);
    change.commit().await.unwrap();
}

/// Changes a record for each type of event, as its example says; the goods came when the world was made.
async fn change_each(world: &World) {
    let api = &world.api;
    world.stock_up(&world.lamp, 9).await;
    let organisation = format!("/api/organisation/{}", api.tenant.organisation);
    api.put(&api.superadmin, &organisation, json!({"name": "Harbour Gifts"})).await.expect(200);
    let order = world.made(world.order("1", &world.mug)).await;
    // the first address of its own changes more
    world.act(&order, "", json!({"deliveryStreet": "Quay 1"})).await.expect(200);
    world.act(&order, "", json!({"deliveryStreet": "Quay 2", "ref1": "A-7"})).await.expect(200);
    world.act(&order, "send", Value::Null).await.expect(200);
    let other = world.made(world.order("2", &world.mug)).await;
    let other = format!("/api/expedition/{}", other["id"].as_str().unwrap());
    api.delete(&api.user, &other).await.expect(204);
    // what is packed leaves the stock, and was not available before
    world.report(&order, json!({"status": "waiting_for_the_carrier"})).await.expect(200);
    let switch = format!("/api/product/deactivate/{}", world.lamp);
    api.put(&api.user, &switch, Value::Null).await.expect(204);
    sync(world).await;
}

#[tokio::test]
async fn an_example_of_each_type_has_the_members_of_an_event_of_a_change() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let all = create(
        api,
        json!({"eshop": api.tenant.eshop, "event": "*", "destination": "https://shop.example/all"}),
    );
    let all = all.await["id"].as_str().unwrap().to_owned();
    let tested = create(api, webhook(api)).await["id"].as_str().unwrap().to_owned();
    change_each(&world).await;
    let deliveries = json!({"criteria": {"webhook": {"eq": all}}, "select": ["id", "event"]});
    let deliveries = api.post(&api.user, "/api/webhook-delivery/list", deliveries).await.expect(200).json();
    let mut real: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for delivery in deliveries["results"].as_array().unwrap() {
        let body = body(api, delivery).await;
        assert_eq!(body.get("test"), None, "{body}");
        real.entry(delivery["event"].as_str().unwrap().to_owned()).or_default().push(body);
    }
    // no change causes a test, nor `restored` (command/restored.rs)
    for kind in TYPES.iter().filter(|kind| !["test", "restored"].contains(&kind.name)) {
        let mut example = body(api, &test(api, &tested, kind.name).await).await;
        assert_eq!(example.as_object_mut().unwrap().remove("test"), Some(json!(true)), "{example}");
        let found = real.get(kind.name).map(Vec::as_slice).unwrap_or_default();
        // that of a creation has no previous status
        let is_like = |real: &Value| {
            changed(&real["data"]) == changed(&example["data"]) && shape(real) == shape(&example)
        };
        assert!(found.iter().any(is_like), "{example} is like none of {found:?}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_sends_an_example_to_one_webhook_whatever_that_subscribes_to(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let tested = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let all = json!({"eshop": api.tenant.eshop, "event": "*", "destination": "https://shop.example/all"});
    create(&api, all).await;
    api.put(&api.user, &format!("{PATH}/deactivate/{tested}"), Value::Null).await.expect(204);
    for event in NAMES {
        let delivery = test(&api, &tested, event).await;
        assert_eq!(
            (&delivery["webhook"], &delivery["event"], &delivery["entity"], &delivery["state"]),
            (&json!(tested), &json!(event), &json!({"type": "webhook", "id": tested}), &json!("pending"))
        );
        let body = body(&api, &delivery).await;
        let id = delivery["webhookId"].as_str().unwrap().parse().unwrap();
        let data = example::data(event, tested.parse().unwrap(), Some(api.tenant.eshop), id);
        assert_eq!((&body["type"], &body["test"], &body["data"]), (&json!(event), &json!(true), &data));
        assert_eq!(body["id"], data["id"]);
    }
    let list = async |criteria: Value| {
        let body = json!({"criteria": criteria, "limit": 100});
        api.post(&api.user, "/api/webhook-delivery/list", body).await.expect(200).json()["paging"]["total"]
            .clone()
    };
    assert_eq!(list(json!({})).await, NAMES.len(), "no other webhook gets it");
    assert_eq!(list(json!({"entity.type": {"eq": "webhook"}})).await, NAMES.len());
    assert_eq!(list(json!({"entity.id": {"eq": example::PRODUCT}})).await, 0);
    let pool = PgPool::connect_with(options).await.unwrap();
    let audited: Vec<Value> = sqlx::query_scalar(
        "SELECT changes -> 'event' FROM audit WHERE action = 'webhook.test' AND entity_id = $1::uuid ORDER BY id",
    )
    .bind(&tested)
    .fetch_all(&pool)
    .await
    .unwrap();
    assert_eq!(audited, NAMES.iter().map(|event| json!([null, event])).collect::<Vec<_>>());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_without_an_event_is_of_type_test_and_others_are_refused(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let id = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let path = format!("{PATH}/{id}/test");
    let post = async |body: Value| api.post(&api.user, &path, body).await;
    for body in [Value::Null, json!({})] {
        let sent = post(body).await.expect(202);
        let delivery = api.get(&api.user, sent.header("location").unwrap()).await.expect(200).json();
        assert_eq!(delivery["event"], "test");
    }
    for (body, violation) in [
        (json!({"event": "weather_change"}), "event not_allowed"),
        (json!({"event": "*"}), "event not_allowed"),
        (json!({"event": ""}), "event not_allowed"),
        (json!({"event": 1}), "event wrong_type"),
        (json!({"event": null}), "event wrong_type"),
        (json!({"type": "product_change"}), "type unknown_field"),
        (json!(["product_change"]), " wrong_type"),
    ] {
        assert_eq!(post(body.clone()).await.expect(400).violations(), [violation], "{body}");
    }
    let refused = post(json!({"event": "weather_change"})).await.expect(400).json();
    let said = refused["violations"][0]["message"].as_str().unwrap();
    assert!(NAMES.iter().all(|name| said.contains(name)), "{said}");
    let pool = PgPool::connect_with(options).await.unwrap();
    let made: i64 = sqlx::query_scalar("SELECT count(*) FROM event").fetch_one(&pool).await.unwrap();
    assert_eq!(made, 2);
}

#[tokio::test]
async fn a_key_of_a_test_belongs_to_its_event() {
    let api = Api::new(&strangers().await).await;
    let id = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let path = format!("{PATH}/{id}/test");
    let send = async |event: &str| {
        let (body, key) = (json!({"event": event}), [("idempotency-key", "one")]);
        api.call_with(&api.user, Method::POST, &path, body, &key).await
    };
    let first = send("product_change").await.expect(202);
    let again = send("product_change").await.expect(202);
    assert_eq!((&again.text, again.header("idempotent-replayed")), (&first.text, Some("true")));
    send("sync_finished").await.expect(422);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_is_tested_so_often_in_a_minute(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let ids = [create(&api, webhook(&api)).await, create(&api, webhook(&api)).await];
    let [id, other] = ids.map(|made| made["id"].as_str().unwrap().to_owned());
    let pool = PgPool::connect_with(options).await.unwrap();
    let tested = async |seconds: f64, times: i64| {
        sqlx::query(
            "INSERT INTO audit (id, at, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
             SELECT uuid_v7_at(at), at, 'token', 'x', 'webhook.test', 'webhook', $1::uuid, $2, '{}'
             FROM generate_series(1, $4), LATERAL (SELECT clock_timestamp() - make_interval(secs => $3) AS at) AS made",
        )
        .bind(&id)
        .bind(api.tenant.organisation)
        .bind(seconds)
        .bind(times)
        .execute(&pool)
        .await
        .unwrap();
    };
    tested(61.0, TESTS_A_MINUTE).await;
    tested(30.0, TESTS_A_MINUTE - 1).await;
    test(&api, &id, "product_change").await;
    let refused = api.post(&api.user, &format!("{PATH}/{id}/test"), Value::Null).await.expect(429);
    assert_eq!(refused.json()["code"], "rate_limited");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    test(&api, &other, "product_change").await;
}
