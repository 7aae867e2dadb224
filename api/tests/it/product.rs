//! `/api/product` (`docs/reference/products.md#product`).

use std::time::{Duration, Instant};

use http::Method;
use longshore_domain::account::eshop::{self, NewEshop};
use longshore_domain::webhook::event::{ALL, NAMES};
use longshore_kernel::context::Origin;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::support::{Api, Reply};

mod access;
mod activation;
mod bulk;
mod create;
mod rules;
mod update;

pub(crate) const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

pub(crate) const PATH: &str = "/api/product";

/// The time limit for conditions.
const PATIENCE: Duration = Duration::from_secs(20);

/// The service, and a pool of the owner's role, with which tests read and change tables.
pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) owner: PgPool,
}

impl World {
    pub(crate) async fn new(options: &PgConnectOptions) -> Self {
        Self::over(Api::new(options).await, options).await
    }

    /// With a given service.
    pub(crate) async fn over(api: Api, options: &PgConnectOptions) -> Self {
        Self { api, owner: PgPool::connect_with(options.clone()).await.unwrap() }
    }

    /// The required members of a create.
    pub(crate) fn body(&self, sku: &str) -> Value {
        body(&self.api.tenant, sku)
    }

    /// The same with further members.
    pub(crate) fn body_with(&self, sku: &str, members: &Value) -> Value {
        let mut body = self.body(sku);
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    /// Sends a create as a user.
    pub(crate) async fn post(&self, body: Value) -> Reply {
        self.api.post(&self.api.user, PATH, body).await
    }

    /// Creates a product; returns the record.
    pub(crate) async fn create(&self, sku: &str, members: Value) -> Value {
        self.post(self.body_with(sku, &members)).await.expect(201).json()
    }

    /// Creates a product; returns its id.
    pub(crate) async fn add(&self, sku: &str, members: Value) -> String {
        id(&self.create(sku, members).await)
    }

    /// Sends an update as a user.
    pub(crate) async fn put(&self, id: &str, body: Value) -> Reply {
        self.api.put(&self.api.user, &format!("{PATH}/{id}"), body).await
    }

    /// The same with `If-Match`.
    pub(crate) async fn put_if(&self, id: &str, body: Value, tags: &str) -> Reply {
        let path = format!("{PATH}/{id}");
        self.api.call_with(&self.api.user, Method::PUT, &path, body, &[("if-match", tags)]).await
    }

    /// The record from a look-up.
    pub(crate) async fn get(&self, id: &str) -> Value {
        self.api.get(&self.api.user, &format!("{PATH}/{id}")).await.expect(200).json()
    }

    /// Creates another e-shop of the organisation.
    pub(crate) async fn eshop(&self) -> Uuid {
        let tenant = &self.api.tenant;
        let new = NewEshop {
            organisation: tenant.organisation,
            name: "Second shop".to_owned(),
            warehouses: vec![tenant.warehouse],
        };
        eshop::create(&self.api.services, &Origin::command_line(), &new).await.unwrap().get()
    }

    /// Another tenant, and one of its products.
    pub(crate) async fn stranger(&self) -> (Tenant, String) {
        let stranger = Tenant::create(&self.api.services, "Other").await.unwrap();
        let made = self.api.post(&self.api.superadmin, PATH, body(&stranger, "theirs")).await.expect(201);
        (stranger, id(&made.json()))
    }

    /// Inserts a webhook of an e-shop for an event; returns its id.
    pub(crate) async fn webhook(&self, eshop: Uuid, event: &str) -> Uuid {
        sqlx::query_scalar(
            "WITH made AS (
                 INSERT INTO webhook (id, organisation_id, eshop_id, event, events, destination, active, authentication_type, secret)
                 VALUES (uuid_v7(), $1, $2, $3, $4, 'http://127.0.0.1:1/', true, 'none', '') RETURNING id
             ), lane AS (
                 INSERT INTO webhook_lane (webhook_id) SELECT id FROM made
             )
             SELECT id FROM made",
        )
        .bind(self.api.tenant.organisation)
        .bind(eshop)
        .bind(event)
        .bind(if event == ALL { NAMES.to_vec() } else { vec![event] })
        .fetch_one(&self.owner)
        .await
        .unwrap()
    }

    /// The number of audit records of products, of events, and of deliveries.
    pub(crate) async fn traces(&self) -> [i64; 3] {
        [
            self.count("SELECT count(*) FROM audit WHERE entity_type = 'product'").await,
            self.count("SELECT count(*) FROM event").await,
            self.count("SELECT count(*) FROM delivery").await,
        ]
    }

    /// The last audit record of a product: `[action, changes]`.
    pub(crate) async fn audited(&self, id: &str) -> (String, Value) {
        sqlx::query_as(
            "SELECT action, changes FROM audit WHERE entity_id = $1::uuid ORDER BY id DESC LIMIT 1",
        )
        .bind(id)
        .fetch_one(&self.owner)
        .await
        .unwrap()
    }

    /// The data of the last event.
    pub(crate) async fn last_event(&self) -> Value {
        sqlx::query_scalar("SELECT data FROM event ORDER BY id DESC LIMIT 1")
            .fetch_one(&self.owner)
            .await
            .unwrap()
    }

    /// The result of a counting query.
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.owner).await.unwrap()
    }

    /// Changes the database with SQL.
    pub(crate) async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.owner).await.unwrap();
    }

    /// Waits until a counting query has the expected result.
    pub(crate) async fn until(&self, sql: &'static str, expected: i64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let count = self.count(sql).await;
            if count == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{count}, not {expected}: {sql}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until this many sessions wait for a lock.
    pub(crate) async fn blocked(&self, sessions: i64) {
        longshore_testkit::services::until_locked(&self.owner, sessions).await.unwrap();
    }
}

/// The required members of a create.
pub(crate) fn body(tenant: &Tenant, sku: &str) -> Value {
    json!({
        "organisation": tenant.organisation,
        "eshops": [tenant.eshop],
        "productSku": sku,
        "internalSku": "I-1",
        "name": "Anchor",
        "imeiCheckRequired": false,
        "active": true,
    })
}

/// Id of a record.
pub(crate) fn id(record: &Value) -> String {
    record["id"].as_str().unwrap().to_owned()
}
