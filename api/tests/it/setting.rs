//! Integration settings of e-shops (`docs/reference/syncs.md#integration-settings`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
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
    path: String,
}

impl World {
    async fn new(options: &PgConnectOptions) -> Self {
        let api = Api::new(options).await;
        let path = format!("/api/partner-integration/eshop-setting/{}", api.tenant.eshop);
        Self { api, owner: PgPool::connect_with(options.clone()).await.unwrap(), path }
    }

    async fn store(&self, body: Value) -> crate::support::Reply {
        self.api.post(&self.api.user, &self.path, body).await
    }

    async fn get(&self) -> crate::support::Reply {
        self.api.get(&self.api.viewer, &self.path).await
    }

    /// The decrypted credentials, as the worker uses them.
    async fn credentials(&self) -> Option<String> {
        let setting = longshore_domain::partner::setting::of_eshop(&self.api.services, self.api.tenant.eshop);
        let (_, value) = setting.await.unwrap().unwrap().credentials.header()?;
        Some(value.to_str().unwrap().to_owned())
    }

    async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.owner).await.unwrap();
    }

    async fn value(&self, sql: &'static str) -> Value {
        sqlx::query_scalar(sql).fetch_one(&self.owner).await.unwrap()
    }

    fn full(&self) -> Value {
        let tenant = &self.api.tenant;
        json!({
            "integrationType": "baselinker",
            "active": true,
            "credentials": {"token": "hush-1"},
            "baseUrl": "http://127.0.0.1:9/connector.php",
            "inventories": [{"inventoryId": "307"}],
            "warehouses": [{"warehouseId": "bl_206", "warehouse": tenant.warehouse, "wms": tenant.wms}],
            "productSync": {"enabled": true, "intervalMinutes": 15},
            "stockSync": {"enabled": true, "intervalMinutes": 5, "reserve": 2},
        })
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_setting_is_created_read_replaced_and_deleted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.get().await.expect(404);
    world.api.delete(&world.api.user, &world.path).await.expect(404);
    let stored = world.store(world.full()).await.expect(200);
    assert_eq!(stored.header("location"), Some(world.path.as_str()));
    let got = world.get().await.expect(200);
    assert_eq!((got.json(), got.header("etag")), (stored.json(), stored.header("etag")));
    let mut shown = world.full();
    shown["credentials"]["token"] = json!("***");
    for (name, value) in shown.as_object().unwrap() {
        assert_eq!(stored.json()[name], *value, "{name}");
    }
    assert_eq!(stored.json()["eshop"], world.api.tenant.eshop.to_string());
    assert_eq!(world.value("SELECT to_jsonb(integration_type) FROM eshop").await, "baselinker");

    let feed = json!({"integrationType": "feed", "baseUrl": "http://127.0.0.1:9/"});
    let replaced = world.store(feed).await.expect(200).json();
    assert_eq!(replaced["id"], stored.json()["id"]);
    assert_eq!(replaced["credentials"], json!({"type": "none"}));
    assert_eq!((&replaced["warehouses"], &replaced["inventories"]), (&json!([]), &json!([])));
    let off = json!({"enabled": false, "intervalMinutes": 60});
    assert_eq!(replaced["productSync"], off);
    assert_eq!(world.value("SELECT to_jsonb(integration_type) FROM eshop").await, "feed");

    world.api.delete(&world.api.user, &world.path).await.expect(204);
    world.get().await.expect(410);
    world.api.delete(&world.api.user, &world.path).await.expect(410);
    assert_eq!(
        world.value("SELECT coalesce(to_jsonb(integration_type), 'null') FROM eshop").await,
        Value::Null
    );
    world.store(world.full()).await.expect(200);
    world.get().await.expect(200);
}

#[tokio::test]
async fn masked_credentials_that_come_back_keep_the_stored_ones() {
    let world = World::new(&strangers().await).await;
    let mut body = world.full();
    body["credentials"]["token"] = json!("***");
    assert_eq!(world.store(body.clone()).await.expect(400).violations(), ["credentials.token required"]);
    let first = world.store(world.full()).await.expect(200);
    // without a difference nothing is written
    let same = world.store(body.clone()).await.expect(200);
    assert_eq!(same.header("etag"), first.header("etag"));
    body["productSync"]["intervalMinutes"] = json!(30);
    world.store(body).await.expect(200);
    assert_eq!(world.credentials().await.unwrap(), "Bearer hush-1");
    // masked credentials of another partner are not accepted
    let feed = |credentials: Value| json!({"integrationType": "feed", "baseUrl": "http://127.0.0.1:9/", "credentials": credentials});
    let masked = feed(json!({"type": "bearer", "token": "***"}));
    assert_eq!(world.store(masked).await.expect(400).violations(), ["credentials.token required"]);
    world.store(feed(json!({"type": "basic", "username": "u", "password": "p"}))).await.expect(200);
    let kept =
        world.store(feed(json!({"type": "basic", "username": "new", "password": "***"}))).await.expect(200);
    assert_eq!(kept.json()["credentials"], json!({"type": "basic", "username": "***", "password": "***"}));
    assert_eq!(world.credentials().await.unwrap(), format!("Basic {}", STANDARD.encode("new:p")));
    // nor are they kept when the URL changes
    let mut moved = feed(json!({"type": "basic", "username": "u", "password": "***"}));
    moved["baseUrl"] = json!("http://127.0.0.1:10/");
    assert_eq!(world.store(moved).await.expect(400).violations(), ["credentials.password required"]);
}

#[tokio::test]
async fn all_violations_are_reported_at_once() {
    let world = World::new(&strangers().await).await;
    let stranger = Tenant::create(&world.api.services, "Other").await.unwrap();
    let own = &world.api.tenant;
    for (body, expected) in [
        (json!({}), &["integrationType required"][..]),
        (
            json!({"integrationType": "shopify", "colour": 1}),
            &["integrationType not_allowed", "colour unknown_field"],
        ),
        (json!({"integrationType": "baselinker"}), &["credentials required"]),
        (
            json!({"integrationType": "baselinker", "credentials": {"type": "bearer"}}),
            &["credentials.token required", "credentials.type unknown_field"],
        ),
        (
            json!({"integrationType": "feed", "eshop": stranger.eshop, "credentials": {"type": "header"}}),
            &["eshop not_allowed", "credentials.type not_allowed", "baseUrl required"],
        ),
        (json!({"integrationType": "feed", "baseUrl": "http://10.0.0.1/"}), &["baseUrl forbidden_address"]),
        (
            json!({"integrationType": "feed", "baseUrl": "http://127.0.0.1/", "productSync": {"intervalMinutes": 0},
                "stockSync": {"intervalMinutes": 10081, "reserve": -1, "often": true}}),
            &[
                "productSync.intervalMinutes out_of_range",
                "stockSync.intervalMinutes out_of_range",
                "stockSync.reserve out_of_range",
                "stockSync.often unknown_field",
            ],
        ),
        (
            json!({"integrationType": "feed", "baseUrl": "http://127.0.0.1/",
                "inventories": [{"inventoryId": "1"}, {"inventoryId": "1"}], "warehouses": [{}]}),
            &[
                "inventories[1].inventoryId duplicate",
                "warehouses[0].warehouseId required",
                "warehouses[0].warehouse required",
            ],
        ),
        (
            json!({"integrationType": "feed", "baseUrl": "http://127.0.0.1/", "warehouses": [
                {"warehouseId": "a", "warehouse": own.warehouse}, {"warehouseId": "b", "warehouse": own.warehouse},
                {"warehouseId": "a", "warehouse": own.warehouse}, {"warehouseId": "a", "warehouse": own.warehouse}]}),
            &["warehouses[2].warehouseId duplicate", "warehouses[3].warehouseId duplicate"],
        ),
        (
            json!({"integrationType": "feed", "baseUrl": "http://127.0.0.1/", "warehouses": [
                {"warehouseId": "a", "warehouse": stranger.warehouse},
                {"warehouseId": "b", "warehouse": own.warehouse, "wms": stranger.wms},
                {"warehouseId": "c", "warehouse": own.warehouse}]}),
            &["warehouses[0].warehouse unknown_reference", "warehouses[1].wms unknown_reference"],
        ),
    ] {
        assert_eq!(world.store(body.clone()).await.expect(400).violations(), expected, "{body}");
    }
    world.get().await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn credentials_that_do_not_decrypt_or_parse_are_422_until_they_are_stored_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.store(world.full()).await.expect(200);
    let mut masked = world.full();
    masked["credentials"]["token"] = json!("***");
    for corrupt in [
        "UPDATE integration_setting SET credentials = set_byte(credentials, 30, get_byte(credentials, 30) # 1)",
        "UPDATE integration_setting SET credentials = ''",
    ] {
        world.execute(corrupt).await;
        assert_eq!(world.get().await.expect(422).json()["code"], "corrupted_data");
        assert_eq!(
            world.store(masked.clone()).await.expect(400).violations(),
            ["credentials.token required"]
        );
        world.store(world.full()).await.expect(200);
        world.get().await.expect(200);
    }
    // correctly encrypted, but not credentials
    let id: uuid::Uuid =
        sqlx::query_scalar("SELECT id FROM integration_setting").fetch_one(&world.owner).await.unwrap();
    let place = format!("integration_setting.credentials:{id}");
    let sealed = world.api.services.vault.seal(&place, b"{\"type\":\"magic\"}").unwrap();
    sqlx::query("UPDATE integration_setting SET credentials = $1")
        .bind(sealed)
        .execute(&world.owner)
        .await
        .unwrap();
    world.get().await.expect(422);
    world.api.delete(&world.api.user, &world.path).await.expect(204);
}

#[tokio::test]
async fn a_setting_requires_permission() {
    let world = World::new(&strangers().await).await;
    world.store(world.full()).await.expect(200);
    let services = &world.api.services;
    let stranger = Tenant::create(services, "Other").await.unwrap();
    let strange = stranger.token(services, Role::User).await.unwrap();
    let bound = world.api.tenant.eshop_token(services).await.unwrap();
    for (token, read, write) in [
        ("lsh_nonsense", 401, 401),
        (&world.api.viewer, 200, 403),
        (&strange, 404, 404),
        (&world.api.connector, 200, 200),
        (&bound, 200, 200),
    ] {
        world.api.get(token, &world.path).await.expect(read);
        world.api.post(token, &world.path, world.full()).await.expect(write);
    }
    let theirs = format!("/api/partner-integration/eshop-setting/{}", stranger.eshop);
    world.api.post(&bound, &theirs, world.full()).await.expect(404);
    world.api.delete(&strange, &world.path).await.expect(404);
    world.api.get(&world.api.user, "/api/partner-integration/eshop-setting/x").await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_change_is_audited_without_its_secrets(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.store(world.full()).await.expect(200);
    let mut body = world.full();
    body["credentials"]["token"] = json!("hush-2");
    body["stockSync"]["reserve"] = json!(3);
    world.store(body).await.expect(200);
    let found = "SELECT to_jsonb(position('hush'::bytea IN credentials)) FROM integration_setting";
    assert_eq!(world.value(found).await, 0);
    world.api.delete(&world.api.user, &world.path).await.expect(204);
    let audited = world
        .value(
            "SELECT jsonb_agg(jsonb_build_array(action, changes) ORDER BY at, action DESC) FROM audit
             WHERE entity_type = 'integration_setting' OR changes ? 'integrationType' AND action = 'eshop.update'",
        )
        .await;
    let audited = audited.as_array().unwrap();
    let actions: Vec<_> = audited.iter().map(|a| a[0].as_str().unwrap()).collect();
    let expected = [
        "integration_setting.create",
        "eshop.update",
        "integration_setting.update",
        "integration_setting.delete",
        "eshop.update",
    ];
    assert_eq!(actions, expected);
    assert_eq!(audited[0][1]["credentials"], json!([null, "***"]));
    assert_eq!(audited[1][1], json!({"integrationType": [null, "baselinker"]}));
    let stock = |reserve| json!({"enabled": true, "intervalMinutes": 5, "reserve": reserve});
    assert_eq!(audited[2][1], json!({"credentials": ["***", "***"], "stockSync": [stock(2), stock(3)]}));
    assert!(!world.value("SELECT jsonb_agg(to_jsonb(a)) FROM audit a").await.to_string().contains("hush"));
}

#[tokio::test]
async fn an_update_supports_if_match_and_idempotency_keys() {
    let world = World::new(&strangers().await).await;
    let key = [("idempotency-key", "once")];
    for tag in ["\"0\"", "\"1\"", "*"] {
        // there is none yet
        let headers = [("if-match", tag)];
        let user = &world.api.user;
        world.api.call_with(user, Method::POST, &world.path, world.full(), &headers).await.expect(412);
    }
    let first =
        world.api.call_with(&world.api.user, Method::POST, &world.path, world.full(), &key).await.expect(200);
    let again =
        world.api.call_with(&world.api.user, Method::POST, &world.path, world.full(), &key).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let mut body = world.full();
    body["active"] = json!(false);
    let tag = first.header("etag").unwrap();
    for status in [200, 412] {
        world
            .api
            .call_with(&world.api.user, Method::POST, &world.path, body.clone(), &[("if-match", tag)])
            .await
            .expect(status);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_push_of_stocks_may_name_the_partners_warehouse(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let tenant = &world.api.tenant;
    let sync = "/api/partner-integration/eshop/sync/product-stocks";
    let push = |warehouse: Value| json!({"eshop": tenant.eshop, "warehouseId": warehouse, "stocks": []});
    let refused = world.api.post(&world.api.user, sync, push(json!("bl_206"))).await.expect(400);
    assert_eq!(refused.violations(), ["warehouseId unknown_reference"]);
    world.store(world.full()).await.expect(200);
    // the warehouse's default would be none now, so the mapping decides
    world.execute("UPDATE warehouse SET default_wms_id = NULL").await;
    for name in [json!("bl_206"), json!(tenant.warehouse)] {
        let job = world.api.post(&world.api.user, sync, push(name)).await.expect(200).json()["id"].clone();
        let parameters: Value = sqlx::query_scalar("SELECT parameters FROM job WHERE id = $1::uuid")
            .bind(job.as_str().unwrap())
            .fetch_one(&world.owner)
            .await
            .unwrap();
        assert_eq!(parameters["warehouse"], tenant.warehouse.to_string());
        assert_eq!(parameters["wms"], tenant.wms.to_string());
    }
    let mut body = world.full();
    body["warehouses"][0]["wms"] = Value::Null;
    world.store(body).await.expect(200);
    let refused = world.api.post(&world.api.user, sync, push(json!("bl_206"))).await.expect(400);
    assert_eq!(refused.violations(), ["warehouseId no_wms"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_rotation_encrypts_everything_with_the_newest_key(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.store(world.full()).await.expect(200);
    let webhook = json!({"eshop": world.api.tenant.eshop, "event": "*", "destination": "http://127.0.0.1:9/",
        "authentication": {"type": "bearer", "token": "hush"}});
    world.api.post(&world.api.user, "/api/eshop-webhook", webhook).await.expect(201);
    // more than one batch; the last one is damaged
    world
        .execute(
            "INSERT INTO webhook (id, organisation_id, eshop_id, events, destination, active, authentication_type, authentication, secret)
             SELECT uuid_v7(), organisation_id, eshop_id, events, destination, active, authentication_type, authentication, secret
             FROM webhook w, generate_series(1, 600)",
        )
        .await;
    let (old, new) =
        (format!("test:{}", STANDARD.encode([7; 32])), format!("new:{}", STANDARD.encode([8; 32])));
    let both = Vault::new(&format!("{new},{old}").into()).unwrap();
    let db = &world.api.services.db;
    // copies cannot be decrypted in place of another
    assert_eq!(rotation::rotate(db, &both).await.unwrap(), Rotated { resealed: 2, unreadable: 600 });
    world.execute("DELETE FROM webhook WHERE substr(secret, 2, 3) <> 'new'").await;
    // nothing is left to do, and the old key is no longer needed
    assert_eq!(rotation::rotate(db, &both).await.unwrap(), Rotated::default());
    let only = Vault::new(&new.into()).unwrap();
    let row =
        sqlx::query("SELECT id, secret, authentication FROM webhook").fetch_one(&world.owner).await.unwrap();
    let (id, secret, authentication): (uuid::Uuid, Vec<u8>, Vec<u8>) = sqlx::FromRow::from_row(&row).unwrap();
    assert_eq!(only.open(&format!("webhook.secret:{id}"), &secret).unwrap().len(), 32);
    assert!(only.open(&format!("webhook.authentication:{id}"), &authentication).is_ok());
    let (id, credentials): (uuid::Uuid, Vec<u8>) =
        sqlx::query_as("SELECT id, credentials FROM integration_setting")
            .fetch_one(&world.owner)
            .await
            .unwrap();
    let opened = only.open(&format!("integration_setting.credentials:{id}"), &credentials).unwrap();
    assert!(String::from_utf8(opened).unwrap().contains("hush-1"));
}
