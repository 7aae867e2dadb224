//! Events of one record are sent in the order of its versions: the last change is sent last, whenever it
//! began.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_domain::catalog::product::together::Batcher;
use longshore_domain::catalog::product::{create, update};
use longshore_domain::job::dispatch;
use longshore_domain::job::receiving::Receiving;
use longshore_domain::partner::push::{self, Push};
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::services::until_locked;
use longshore_worker::context::WorkerContext;
use longshore_worker::jobs::chunk;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::{Hook, World};

impl World {
    pub async fn product(&self, sku: &str) -> Uuid {
        let body = json!({
            "organisation": self.tenant.organisation, "eshops": [self.tenant.eshop], "productSku": sku, "internalSku": sku,
            "name": "at first", "imeiCheckRequired": false, "active": true,
        });
        let answer = create::create(&self.services, &self.context(), body).await.unwrap();
        let made: Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
        assert_eq!((&made["version"], answer.etag.as_deref()), (&json!(1), Some("\"1\"")));
        made["id"].as_str().unwrap().parse().unwrap()
    }

    async fn put(&self, id: Uuid, body: Value) -> Value {
        let answer =
            update::update(&self.services, &Batcher::default(), &self.context(), id, body, |_| Ok(()))
                .await
                .unwrap();
        serde_json::from_str(&answer.body.unwrap()).unwrap()
    }

    /// Accepts a sync of products; returns the name of its chunk.
    async fn accept(&self, rows: &[Value]) -> String {
        let header = json!({"eshop": self.tenant.eshop});
        let context = self.context();
        let target = push::target(&self.services, &context, Push::Products, header).await.unwrap();
        let mut receiving = Receiving::begin(&self.services, &context, target).await.unwrap();
        for row in rows {
            receiving.row(row.to_string().as_bytes(), None).await.unwrap();
        }
        receiving.finish(None).await.unwrap();
        let due = dispatch::due(&self.services.db.main).await.unwrap();
        assert_eq!(due.len(), 1);
        due.into_iter().next().unwrap().1
    }

    /// The events that a webhook received of a record, in order.
    fn bodies_of(&self, hook: &Hook, id: Uuid) -> Vec<Value> {
        let receipts = self.receiver.receipts_at(&hook.path);
        let bodies = receipts.iter().map(|receipt| serde_json::from_slice::<Value>(&receipt.body).unwrap());
        bodies.filter(|body| body["id"] == json!(id)).collect()
    }

    async fn stored(&self, id: Uuid) -> (String, i64, String) {
        sqlx::query_as(
            r#"SELECT name, version, to_char(changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
               FROM product WHERE id = $1"#,
        )
        .bind(id)
        .fetch_one(&self.pool)
        .await
        .unwrap()
    }
}

fn version(body: &Value) -> i64 {
    body["data"]["version"].as_i64().unwrap()
}

/// A sync of two products waits for the first, which is locked; meanwhile a PUT changes the second.
#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_that_began_before_a_put_but_wrote_after_it_is_the_later_change(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut ids = [world.product("A").await, world.product("B").await];
    ids.sort_unstable();
    let [first, second] = ids;
    let ordered = world.hook("/ordered", json!({"ordered": true})).await;
    let other = world.hook("/other", json!({})).await;
    let chunk =
        world.accept(&["A", "B"].map(|sku| json!({"productSku": sku, "name": "by sync", "weight": 5}))).await;
    let mut foreign = world.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM product WHERE id = $1 FOR UPDATE")
        .bind(first)
        .execute(&mut *foreign)
        .await
        .unwrap();
    let worker = WorkerContext::new(world.services.clone()).unwrap();
    let running = tokio::spawn(chunk::run(worker, chunk));
    until_locked(&world.pool, 1).await.unwrap();
    let put = world.put(second, json!({"name": "by put", "description": "said by put"})).await;
    assert_eq!(put["version"], 2);
    foreign.commit().await.unwrap();
    running.await.unwrap();
    world.drain(&ordered).await;
    world.drain(&other).await;

    let (name, stored, changed_at) = world.stored(second).await;
    assert_eq!((name.as_str(), stored), ("by sync", 3), "the sync wrote last");
    for hook in [&ordered, &other] {
        let mut events = world.bodies_of(hook, second);
        assert_eq!(events.len(), 2);
        if hook.id == ordered.id {
            assert_eq!(events.iter().map(version).collect::<Vec<_>>(), [2, 3], "in the order of versions");
        }
        let newest = events.iter().max_by_key(|body| version(body)).unwrap();
        let latest = events.iter().max_by_key(|body| body["timestamp"].as_str().unwrap()).unwrap();
        for body in [newest, latest] {
            assert_eq!(body["data"]["fields"]["name"], "by sync");
            assert_eq!((version(body), body["timestamp"].as_str()), (stored, Some(changed_at.as_str())));
        }
        events.sort_by_key(version);
        assert_eq!(events[0]["timestamp"], put["changedAt"]);
        // fields that the later change does not contain are not lost
        assert_eq!(events[0]["data"]["fields"]["description"], "said by put");
    }
    for order in ["at", "id"] {
        let audited: Vec<(String, Option<String>)> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT action, changes -> 'name' ->> 1 FROM audit WHERE entity_id = $1 ORDER BY {order}"
        )))
        .bind(second)
        .fetch_all(&world.pool)
        .await
        .unwrap();
        let names: Vec<_> = audited.iter().map(|(_, name)| name.as_deref().unwrap()).collect();
        assert_eq!(names, ["at first", "by put", "by sync"], "by {order}");
    }
}

/// Concurrent syncs, PUTs and switches of the same products: an ordered webhook receives the versions of each
/// product in order, and a receiver that keeps the highest version of each field has the stored values, in
/// any order of delivery.
#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_highest_version_of_each_field_is_what_is_stored(_: PgPoolOptions, options: PgConnectOptions) {
    const PRODUCTS: usize = 6;
    const ROUNDS: usize = 10;
    let world = World::new(&options).await;
    let ordered = world.hook("/ordered", json!({"ordered": true})).await;
    let mut ids = Vec::new();
    for n in 0..PRODUCTS {
        ids.push(world.product(&format!("P{n}")).await);
    }
    let syncs = async {
        for round in 0..ROUNDS {
            let rows: Vec<_> = (0..PRODUCTS)
                .map(|n| json!({"productSku": format!("P{n}"), "name": format!("sync {round}"), "weight": round, "active": round % 2 == 0}))
                .collect();
            let chunk = world.accept(&rows).await;
            chunk::run(WorkerContext::new(world.services.clone()).unwrap(), chunk).await;
        }
    };
    let puts = async {
        for round in 0..ROUNDS * 3 {
            let each = ids.iter().map(|id| {
                let body = if round % 2 == 0 {
                    json!({"name": format!("put {round}")})
                } else {
                    json!({"weight": 100 + round, "description": format!("put {round}")})
                };
                world.put(*id, body)
            });
            futures::future::join_all(each).await;
        }
    };
    let switches = async {
        for round in 0..ROUNDS * 3 {
            for id in &ids {
                longshore_domain::catalog::product::activation::set_active(
                    &world.services,
                    &world.context(),
                    *id,
                    round % 2 == 1,
                )
                .await
                .unwrap();
            }
        }
    };
    tokio::join!(syncs, puts, switches);
    let drained = tokio::time::timeout(Duration::from_mins(1), world.drain(&ordered)).await;
    drained.unwrap();
    for id in ids {
        let events = world.bodies_of(&ordered, id);
        let versions: Vec<_> = events.iter().map(version).collect();
        assert_eq!(versions, (1..).take(versions.len()).collect::<Vec<_>>(), "each once, in order");
        let mut known: BTreeMap<String, (i64, Value)> = BTreeMap::new();
        // the worst case: backwards
        for body in events.iter().rev() {
            for (field, value) in body["data"]["fields"].as_object().unwrap() {
                let entry = known.entry(field.clone()).or_insert((0, Value::Null));
                if entry.0 < version(body) {
                    *entry = (version(body), value.clone());
                }
            }
        }
        let record: Value = sqlx::query_scalar(
            "SELECT jsonb_build_object('name', name, 'weight', weight, 'active', active, 'description', description,
                                       'version', version) FROM product WHERE id = $1",
        )
        .bind(id)
        .fetch_one(&world.pool)
        .await
        .unwrap();
        assert_eq!(json!(versions.last().unwrap()), record["version"], "no version without news");
        for field in ["name", "weight", "active", "description"] {
            assert_eq!(known[field].1, record[field], "{field}");
        }
    }
}
