//! Products for the tests of lists.

use chrono::{DateTime, Utc};
use longshore_domain::account::eshop::{self, NewEshop};
use longshore_kernel::context::Origin;
use longshore_kernel::ids;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::support::Api;

/// The tables of a test's database.
pub const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// A product as the tests need it.
#[derive(Clone, Debug)]
pub struct Good {
    pub id: Uuid,
    pub organisation: Uuid,
    pub sku: String,
    pub name: String,
    pub description: Option<String>,
    pub group: Option<Uuid>,
    pub weight: Option<i32>,
    pub active: bool,
    pub kind: &'static str,
    pub references: Vec<String>,
    pub eshops: Vec<Uuid>,
    pub children: Vec<(Uuid, i32)>,
    pub created_at: DateTime<Utc>,
}

impl Good {
    /// An ordinary product of an organisation.
    pub fn new(organisation: Uuid, sku: &str) -> Self {
        Self {
            id: ids::new_id(),
            organisation,
            sku: sku.to_owned(),
            name: format!("Product {sku}"),
            description: None,
            group: None,
            weight: None,
            active: true,
            kind: "physical",
            references: Vec::new(),
            eshops: Vec::new(),
            children: Vec::new(),
            created_at: at("2026-01-01T00:00:00Z"),
        }
    }

    /// Stores it.
    pub async fn store(&self, db: &PgPool) {
        sqlx::query(
            "INSERT INTO product (id, organisation_id, product_sku, internal_sku, product_group, name, description,
                 weight, reference_numbers, packaging_type, imei_check_required, work_around_sn_in,
                 work_around_ean_sticker, work_around_warranty_inf, work_around_lot, active, active_acceptance, type,
                 created_at, changed_at)
             VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8, 'A', false, false, false, false, false, $9, 0, $10, $11, $11)",
        )
        .bind(self.id)
        .bind(self.organisation)
        .bind(&self.sku)
        .bind(self.group)
        .bind(&self.name)
        .bind(&self.description)
        .bind(self.weight)
        .bind(&self.references)
        .bind(self.active)
        .bind(self.kind)
        .bind(self.created_at)
        .execute(db)
        .await
        .unwrap();
        sqlx::query("INSERT INTO product_eshop (product_id, eshop_id) SELECT $1, unnest($2::uuid[])")
            .bind(self.id)
            .bind(&self.eshops)
            .execute(db)
            .await
            .unwrap();
        for (position, (child, quantity)) in (0i32..).zip(&self.children) {
            sqlx::query(
                "INSERT INTO product_child (bundle_id, product_id, quantity, position) VALUES ($1, $2, $3, $4)",
            )
            .bind(self.id)
            .bind(child)
            .bind(quantity)
            .bind(position)
            .execute(db)
            .await
            .unwrap();
        }
    }
}

/// A moment.
pub fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// Stores this many plain products.
pub async fn store_many(api: &Api, count: i32) {
    store_many_of(api, &api.tenant, count).await;
}

/// The same of any organisation.
pub async fn store_many_of(api: &Api, tenant: &Tenant, count: i32) {
    sqlx::query(
        "WITH made AS (
             INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers,
                 packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
                 work_around_warranty_inf, work_around_lot, active, active_acceptance, type)
             SELECT uuid_v7(), $1, n || '-' || gen_random_uuid(), 'sku', 'Product ' || n, '{}', 'A', false, false, false, false, false,
                 true, 0, 'physical'
             FROM generate_series(1, $3) n RETURNING id
         )
         INSERT INTO product_eshop (product_id, eshop_id) SELECT id, $2 FROM made",
    )
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .bind(count)
    .execute(&api.services.db.main)
    .await
    .unwrap();
}

/// Ends the session of the one list that is being sent.
pub async fn break_off(options: PgConnectOptions) {
    let owner = PgPool::connect_with(options).await.unwrap();
    let ended: Vec<bool> = sqlx::query_scalar(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND query LIKE 'FETCH%' AND xact_start IS NOT NULL",
    )
    .fetch_all(&owner)
    .await
    .unwrap();
    assert_eq!(ended, [true]);
}

/// Creates another e-shop of the tenant.
pub async fn eshop(api: &Api, organisation: Uuid, name: &str) -> Uuid {
    let new = NewEshop { organisation: organisation.into(), name: name.to_owned(), warehouses: Vec::new() };
    eshop::create(&api.services, &Origin::command_line(), &new).await.unwrap().get()
}

/// The answer to a list request.
pub async fn list(api: &Api, token: &str, resource: &str, body: Value) -> Value {
    api.post(token, &format!("/api/{resource}/list"), body).await.expect(200).json()
}

/// The SKUs of the matching products, in order.
pub async fn skus(api: &Api, criteria: Value) -> Vec<String> {
    let body = json!({"criteria": criteria, "sort": [{"field": "productSku"}], "limit": 1000});
    let answer = list(api, &api.user, "product", body).await;
    let results = answer["results"].as_array().unwrap();
    assert_eq!(answer["paging"]["total"], results.len());
    results.iter().map(|r| r["productSku"].as_str().unwrap().to_owned()).collect()
}
