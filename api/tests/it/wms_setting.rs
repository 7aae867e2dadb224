//! Settings of wms (`docs/reference/orders.md#setting-of-a-wms`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longshore_kernel::access::Role;
use longshore_kernel::crypto::Vault;
use longshore_operate::rotation::{self, Rotated};
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::product::MIGRATIONS;
use crate::support::Api;
use crate::support::strangers;

struct World {
    api: Api,
    owner: PgPool,
    admin: String,
    path: String,
}

impl World {
    async fn new(options: &PgConnectOptions) -> Self {
        let api = Api::new(options).await;
        let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
        let path = format!("/api/partner-integration/wms-setting/{}", api.tenant.wms);
        Self { owner: PgPool::connect_with(options.clone()).await.unwrap(), api, admin, path }
    }

    async fn store(&self, body: Value) -> crate::support::Reply {
        self.api.post(&self.admin, &self.path, body).await
    }
}

fn setting() -> Value {
    json!({"baseUrl": "http://127.0.0.1:9/wms", "credentials": {"type": "bearer", "token": "hush"}})
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_setting_shows_its_secret_once_and_is_replaced_and_deleted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.api.get(&world.admin, &world.path).await.expect(404);
    world.api.delete(&world.admin, &world.path).await.expect(404);
    let created = world.store(setting()).await.expect(200);
    assert_eq!(created.header("location"), Some(world.path.as_str()));
    let shown = created.json();
    assert!(shown["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(shown["credentials"], json!({"type": "bearer", "token": "***"}));
    assert_eq!(
        (&shown["active"], &shown["paused"], &shown["maxInFlight"]),
        (&json!(true), &json!(false), &json!(8))
    );
    assert_eq!(
        (&shown["waiting"], &shown["blockedUntil"], &shown["lastError"]),
        (&json!(0), &json!(null), &json!(null))
    );
    assert_eq!((&shown["since"], &shown["toHandOver"]), (&json!(null), &json!(0)));
    let read = world.api.get(&world.admin, &world.path).await.expect(200);
    assert_eq!(read.json()["secret"], json!(null));
    // what was read can be sent back, and changes nothing
    let same = world.store(read.json()).await.expect(200);
    assert_eq!(same.header("etag"), created.header("etag"));
    let mut other = read.json();
    (other["maxInFlight"], other["paused"]) = (json!(64), json!(true));
    let replaced = world.store(other).await.expect(200).json();
    assert_eq!((&replaced["maxInFlight"], &replaced["version"]), (&json!(64), &json!(2)));
    let rotated = world.api.put(&world.admin, &format!("{}/rotate-secret", world.path), Value::Null).await;
    let rotated = rotated.expect(200).json();
    assert_ne!(rotated["secret"], shown["secret"]);
    let former: i64 =
        sqlx::query_scalar("SELECT count(*) FROM wms_former_secret").fetch_one(&world.owner).await.unwrap();
    assert_eq!(former, 1);
    world.api.delete(&world.admin, &world.path).await.expect(204);
    world.api.get(&world.admin, &world.path).await.expect(410);
    world.api.put(&world.admin, &format!("{}/rotate-secret", world.path), Value::Null).await.expect(410);
    let again = world.store(setting()).await.expect(200).json();
    assert!(again["version"].as_i64() > replaced["version"].as_i64());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn former_secrets_are_sealed_by_the_newest_key_however_many_one_setting_has(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.store(setting()).await.expect(200);
    world.api.put(&world.admin, &format!("{}/rotate-secret", world.path), Value::Null).await.expect(200);
    // more than one batch goes over
    sqlx::query(
        "INSERT INTO wms_former_secret SELECT wms_id, signs_until + n * interval '1 second', secret
         FROM wms_former_secret, generate_series(1, 600) n",
    )
    .execute(&world.owner)
    .await
    .unwrap();
    let (old, new) =
        (format!("test:{}", STANDARD.encode([7; 32])), format!("new:{}", STANDARD.encode([8; 32])));
    let (both, only) = (Vault::new(&format!("{new},{old}").into()), Vault::new(&new.into()));
    let (db, both, only) = (&world.api.services.db, both.unwrap(), only.unwrap());
    let found = rotation::examine(db, &only).await.unwrap();
    assert_eq!((found.sealed, found.unreadable), (603, 603), "two of the setting, and the former secrets");
    assert_eq!(rotation::rotate(db, &both).await.unwrap(), Rotated { resealed: 602, unreadable: 0 });
    let found = rotation::examine(db, &only).await.unwrap();
    assert_eq!((found.sealed, found.older, found.unreadable), (603, 0, 0));
    assert_eq!(rotation::rotate(db, &both).await.unwrap(), Rotated::default());
}

#[tokio::test]
async fn every_violation_of_a_setting_is_named() {
    let world = World::new(&strangers().await).await;
    for (change, violation) in [
        (json!({"baseUrl": null}), "baseUrl wrong_type"),
        (json!({"baseUrl": "ftp://wms.example/"}), "baseUrl"),
        (json!({"maxInFlight": 0}), "maxInFlight"),
        (json!({"maxInFlight": 65}), "maxInFlight"),
        (json!({"active": "yes"}), "active wrong_type"),
        (json!({"since": "2026-05-31T12:00:00"}), "since invalid_timestamp"),
        (json!({"since": 1_780_000_000_000_i64}), "since wrong_type"),
        (json!({"wms": world.api.tenant.warehouse}), "wms not_allowed"),
        (json!({"credentials": {"type": "header", "header": "x-key", "token": "t"}}), "credentials"),
        (json!({"credentials": {"type": "bearer", "token": "***"}}), "credentials.token required"),
        (json!({"more": 1}), "more"),
    ] {
        let mut body = setting();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let found = world.store(body).await.expect(400).violations();
        assert!(found.iter().any(|found| found.starts_with(violation)), "{change}: {found:?}");
    }
    assert_eq!(world.store(json!({})).await.expect(400).violations(), ["baseUrl required"]);
}

#[tokio::test]
async fn a_setting_is_written_by_admins_of_its_organisation() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let stranger = Tenant::create(&api.services, "Other").await.unwrap();
    let foreign = stranger.token(&api.services, Role::Admin).await.unwrap();
    api.post(&foreign, &world.path, setting()).await.expect(404);
    world.store(setting()).await.expect(200);
    api.get(&foreign, &world.path).await.expect(404);
    api.get(&api.viewer, &world.path).await.expect(200);
    api.post(&api.viewer, &world.path, setting()).await.expect(403);
    for role in [Role::User, Role::Connector, Role::Warehouse] {
        let token = api.tenant.token(&api.services, role).await.unwrap();
        api.get(&token, &world.path).await.expect(403);
        api.post(&token, &world.path, setting()).await.expect(403);
        api.delete(&token, &world.path).await.expect(403);
    }
}
