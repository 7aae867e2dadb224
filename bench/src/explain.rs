//! Query plans of the service: makes the service's own calls on a large database, and prints the plans of the
//! statements that they actually run (`auto_explain`), with the actual rows and buffers.
//!
//! Plans arrive as notices of the connections, which `sqlx` logs at `INFO` under [`TARGET`]; the caller must
//! print them.

use anyhow::Context as _;
use longshore_domain::account::token::Tokens;
use longshore_domain::catalog::product::activation;
use longshore_domain::catalog::product::rules::read_sync_row;
use longshore_domain::catalog::product::switch::{self, Switch};
use longshore_domain::catalog::product::sync::{self, Sync};
use longshore_domain::job::mark::Beside;
use longshore_domain::list::fields::expedition::EXPEDITION;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::fields::stock::PRODUCT_STOCK;
use longshore_domain::list::{self, Request};
use longshore_domain::warehouse::stock::sync::{self as stock, Place, StockRow};
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::ProductId;
use longshore_kernel::services::Services;
use longshore_testkit::services;
use longshore_testkit::stack::Stack;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::measure::orders::page;

/// The log target of `sqlx` for notices of Postgres.
pub const TARGET: &str = "sqlx::postgres::notice";

/// Settings that explain every statement of a connection to the connection itself.
const EXPLAINED: [(&str, &str); 6] = [
    ("session_preload_libraries", "auto_explain"),
    ("auto_explain.log_min_duration", "0"),
    ("auto_explain.log_analyze", "on"),
    ("auto_explain.log_buffers", "on"),
    ("auto_explain.log_timing", "off"),
    ("auto_explain.log_level", "notice"),
];

/// Ids of a bulk chunk, or rows of a sync chunk.
const CHUNK: i64 = 1_000;

/// Fills a database with this many products, nine tenths of them in one organisation, and as many orders, and makes
/// typical calls.
///
/// # Errors
/// When the database refuses.
pub async fn run(stack: &Stack, products: i64) -> anyhow::Result<()> {
    let plain = services::for_test(&stack.database_url.as_str().parse()?)?;
    let (large, small) = (Tenant::create(&plain, "Large").await?, Tenant::create(&plain, "Small").await?);
    let mut psql = PgConnection::connect(stack.database_url.as_str()).await?;
    fill(&mut psql, &large, &small, products).await?;
    let ids = "SELECT id FROM product WHERE organisation_id = $1 ORDER BY product_sku LIMIT $2";
    let ids: Vec<ProductId> =
        sqlx::query_scalar(ids).bind(large.organisation).bind(CHUNK).fetch_all(&mut psql).await?;

    let options = stack.database_url.as_str().parse::<PgConnectOptions>()?.options(EXPLAINED);
    let services = services::for_test(&options)?;
    lists(&services, &large).await?;
    let id = *ids.first().context("there are no products")?;
    let within = Scope::Organisations([large.organisation].into());
    say("GET of a product");
    list::find(&services.db.main, &PRODUCT, &within, id).await?;
    say("one product switched off");
    let token = large.token(&plain, Role::User).await?;
    let caller = Tokens::new(plain.db.clone()).authenticate(&token).await?;
    let caller = caller.as_ref().clone();
    let context = Context { caller, origin: Origin::command_line(), claim: None };
    activation::set_active(&services, &context, id.get(), false).await?;
    chunks(&services, &large, &ids).await?;
    orders(&mut psql, &services, &large, usize::try_from(products)?).await
}

/// Fills the database with orders, and requests pages of their list with old, absent and new statistics.
async fn orders(
    psql: &mut PgConnection,
    services: &Services,
    tenant: &Tenant,
    count: usize,
) -> anyhow::Result<()> {
    let (organisation, eshop) = (tenant.organisation.get(), tenant.eshop.get());
    psql.execute("ANALYZE expedition, expedition_detail, expedition_item").await?;
    let sql = page::orders(organisation, eshop, tenant.warehouse, count);
    psql.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    for (statistics, get) in page::STATISTICS {
        if let Some(sql) = get {
            psql.execute(sql).await?;
        }
        for question in page::questions() {
            let (criteria, sort) = (question.criteria, question.sort);
            let body = json!({ "criteria": criteria, "sort": sort, "limit": 100 });
            for (whose, scope) in [
                ("a tenant's", Scope::Organisations([tenant.organisation].into())),
                ("all", Scope::Everything),
            ] {
                say(&format!("{whose} orders {}, {statistics} statistics", question.name));
                list::page(services, &scope, &Request::read(&EXPEDITION, Some(body.clone()))?).await?;
            }
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program for people, who read it there")]
fn say(what: &str) {
    println!("\n### {what}\n");
}

/// Pages of lists, as tenants and operators request them.
async fn lists(services: &Services, tenant: &Tenant) -> anyhow::Result<()> {
    let within = Scope::Organisations([tenant.organisation].into());
    let recently = json!({ "changedAt": { "gte": "2026-01-11T13:40:00Z" } });
    let by = |field: &str| json!([{ "field": field, "order": "DESC" }]);
    let asked: [(&str, &Scope, Value); 7] = [
        ("a tenant's products", &within, json!({ "limit": 100 })),
        (
            "a tenant's products that changed since",
            &within,
            json!({ "criteria": recently, "sort": by("changedAt"), "limit": 100 }),
        ),
        (
            "a tenant's product of a SKU",
            &within,
            json!({ "criteria": { "productSku": { "eq": "MU-0000042" } }, "limit": 100 }),
        ),
        (
            "a tenant's products whose name contains",
            &within,
            json!({ "criteria": { "name": { "like": "product 77" } }, "limit": 100 }),
        ),
        (
            "all products, the newest first",
            &Scope::Everything,
            json!({ "sort": by("createdAt"), "limit": 100 }),
        ),
        (
            "all products that changed since",
            &Scope::Everything,
            json!({ "criteria": recently, "sort": by("changedAt"), "limit": 100 }),
        ),
        ("a tenant's products with what they refer to", &within, json!({ "limit": 100, "nested": true })),
    ];
    for (what, scope, body) in asked {
        say(what);
        list::page(services, scope, &Request::read(&PRODUCT, Some(body))?).await?;
    }
    say("all stocks that changed since");
    let body = json!({ "criteria": recently, "sort": by("changedAt"), "limit": 100 });
    list::page(services, &Scope::Everything, &Request::read(&PRODUCT_STOCK, Some(body))?).await?;
    Ok(())
}

/// Chunks of jobs, as the worker executes them, without committing.
async fn chunks(services: &Services, tenant: &Tenant, ids: &[ProductId]) -> anyhow::Result<()> {
    let origin = Origin::command_line();
    say("a chunk of a bulk switch");
    let mut change = Change::begin(services).await?;
    let organisations = [tenant.organisation];
    let wish =
        Switch { ids, active: false, acceptance: i64::MAX, organisations: Some(&organisations), eshop: None };
    switch::switch(change.connection(), &origin, wish).await?;
    drop(change);

    say("a chunk of a product sync, nothing changed");
    let rows = numbers()
        .map(|n| read_sync_row(json!({ "productSku": sku(n), "name": format!("Made up product {n}") })))
        .collect::<Result<Vec<_>, _>>();
    let rows = rows.map_err(|violations| anyhow::anyhow!("{violations:?}"))?;
    let (organisation, eshop) = (tenant.organisation, tenant.eshop);
    let mut change = Change::begin(services).await?;
    let beside = Beside::alone(organisation, i64::MAX);
    let sync = Sync { origin: &origin, organisation, eshop, bound: false, acceptance: i64::MAX, beside };
    sync::apply(&mut change, sync, &rows).await?;
    drop(change);

    say("a chunk of a stock sync, every count changed");
    let rows: Vec<_> = numbers().map(|n| StockRow { product_sku: sku(n), quantity: 9 }).collect();
    let place = Place { organisation, warehouse: tenant.warehouse, wms: tenant.wms };
    let mut change = Change::begin(services).await?;
    stock::apply(&mut change, &origin, place, None, beside, &rows).await?;
    Ok(())
}

/// Numbers of the first products of the large tenant.
fn numbers() -> impl Iterator<Item = i64> {
    (0..).filter(|n| n % 10 < 9).zip(0..CHUNK).map(|(n, _)| n)
}

fn sku(n: i64) -> String {
    format!("MU-{n:07}")
}

/// Creates products with timestamps a second apart, their stock, and table statistics.
async fn fill(psql: &mut PgConnection, large: &Tenant, small: &Tenant, products: i64) -> anyhow::Result<()> {
    let (organisation, eshop) = (large.organisation, large.eshop);
    let (other, other_eshop) = (small.organisation, small.eshop);
    let (warehouse, wms) = (large.warehouse, large.wms);
    for sql in [
        format!(
            "INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers,
                 packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
                 work_around_warranty_inf, work_around_lot, active, active_acceptance, type, created_at, changed_at)
             SELECT uuid_v7(), CASE WHEN n % 10 < 9 THEN '{organisation}' ELSE '{other}' END::uuid,
                 'MU-' || lpad(n::text, 7, '0'), 'MU-' || lpad(n::text, 7, '0'), 'Made up product ' || n, '{{}}', 'A',
                 false, false, false, false, false, true, 1, 'physical', at, at
             FROM generate_series(0, {products} - 1) n
             CROSS JOIN LATERAL (
                 SELECT timestamptz '2026-01-11T13:46:40Z' - make_interval(secs => {products} - n) AS at) a"
        ),
        format!(
            "INSERT INTO product_eshop SELECT id, CASE organisation_id WHEN '{organisation}' THEN '{eshop}'
                 ELSE '{other_eshop}' END::uuid FROM product"
        ),
        format!(
            "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity, created_at,
                 changed_at)
             SELECT uuid_v7(), organisation_id, id, '{warehouse}', '{wms}', 1, created_at, changed_at
             FROM product WHERE organisation_id = '{organisation}'"
        ),
        "VACUUM (ANALYZE) product, product_eshop, product_stock".to_owned(),
    ] {
        psql.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    }
    Ok(())
}
