//! Pages that a bulk change reads per row, with missing or outdated table statistics.

use longshore_domain::job::chunk::{self, Claimed};
use longshore_domain::job::kind::JobKind;
use longshore_domain::partner::push::Push::{Products, Stocks};
use longshore_kernel::ids::{JobId, ProductId};
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::statistics;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use longshore_worker::context::WorkerContext;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{World, context_of};

/// Products and stocks of a large table, most of them of one organisation.
const LARGE: usize = 20_000;
/// Rows of each measured change.
const ROWS: usize = 400;
/// The allowed ratio to the pages read with current statistics. A bad plan reads hundreds of times as many.
const TIMES: f64 = 2.0;
/// Pages per row that are always allowed.
const FEW: f64 = 20.0;

/// Connections of the service: few, so that each of them has planned every statement.
const CONNECTIONS: u32 = 2;

async fn world(options: &PgConnectOptions) -> World {
    let services = services::with_connections(options, CONNECTIONS).unwrap();
    let tenant = Tenant::create(&services, "Gifts").await.unwrap();
    let context = context_of(&tenant);
    let owner = PgPool::connect_with(options.clone()).await.unwrap();
    let worker = WorkerContext::new(services.clone()).unwrap();
    let world = World { services, worker, tenant, context, owner };
    services::analyse_by_hand(&world.owner).await.unwrap();
    world.webhook("product_change").await;
    world.webhook("product_stock_change").await;
    world
}

/// Fills the tables directly in SQL.
async fn grow(world: &World) {
    world.products(LARGE).await;
    sqlx::query(
        "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
         SELECT uuid_v7(), organisation_id, id, $1, $2, 1 FROM product WHERE product_sku LIKE 'P%'",
    )
    .bind(world.tenant.warehouse)
    .bind(world.tenant.wms)
    .execute(&world.owner)
    .await
    .unwrap();
    let finished = "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, actor_type, actor_name, finished_at)
                    SELECT uuid_v7(), 'product.sync', 'succeeded', organisation_id, id, n, 'user', 'u', now()
                    FROM eshop, generate_series(1, 20000) AS n";
    world.execute(finished).await;
    let done = "INSERT INTO job_chunk (job_id, number, state, item_count, first_index)
                SELECT id, 0, 'succeeded', 1, 0 FROM job WHERE actor_name = 'u'";
    world.execute(done).await;
}

async fn pages(world: &World) -> i64 {
    services::pages_looked_at(&world.services.db.main, CONNECTIONS, &world.owner).await.unwrap()
}

/// How often the chunk of a job was executed: where the machine stalls, an attempt may fail, which read pages, too.
async fn executions(world: &World, job: JobId) -> i32 {
    let executions = "SELECT attempts + crashes FROM job_chunk WHERE job_id = $1";
    sqlx::query_scalar(executions).bind(job).fetch_one(&world.owner).await.unwrap()
}

/// Makes new rows go through every kind of change by job; returns the pages that each read per row.
#[expect(clippy::cast_precision_loss, reason = "a count of pages is far below what a float holds exactly")]
async fn changes(world: &World, series: &str, rows: usize) -> Vec<(&'static str, f64)> {
    let product = |name: &str| -> Vec<String> {
        (0..rows).map(|n| format!(r#"{{"productSku":"{series}{n}","name":"{name} {n}"}}"#)).collect()
    };
    let stock = |quantity: usize| -> Vec<String> {
        (0..rows).map(|n| format!(r#"{{"productSku":"{series}{n}","quantity":{}}}"#, quantity + n)).collect()
    };
    let mut found = Vec::new();
    macro_rules! looked_at {
        ($what:literal, $accept:expr) => {{
            let before = pages(world).await;
            let job = $accept.await;
            world.drain().await;
            assert_eq!(world.outcome(job).await.0, "succeeded", $what);
            let read = (pages(world).await - before) as f64;
            found.push(($what, read / rows as f64 / f64::from(executions(world, job).await)));
        }};
    }
    looked_at!("new products", world.sync(Products, product("New")));
    looked_at!("the same products", world.sync(Products, product("New")));
    looked_at!("a dry run of the same products", world.try_sync(Products, product("New")));
    looked_at!("a dry run of products that differ", world.try_sync(Products, product("Old")));
    looked_at!("products that differ", world.sync(Products, product("Old")));
    looked_at!("new stocks", world.sync(Stocks, stock(1)));
    looked_at!("the same stocks", world.sync(Stocks, stock(1)));
    looked_at!("stocks that differ", world.sync(Stocks, stock(2)));
    let ids: Vec<ProductId> = sqlx::query_scalar("SELECT id FROM product WHERE product_sku ^@ $1")
        .bind(series)
        .fetch_all(&world.owner)
        .await
        .unwrap();
    assert_eq!(ids.len(), rows);
    looked_at!("a switch", world.switch(JobKind::ProductDeactivate, &ids));
    found
}

/// Compares the pages read now with those read with current statistics.
async fn compare(world: &World) {
    let now = changes(world, "NOW", ROWS).await;
    world.execute("VACUUM ANALYZE").await;
    let known = changes(world, "KNOWN", ROWS).await;
    let report: Vec<String> = std::iter::zip(&now, &known)
        .map(|((what, now), (_, known))| {
            format!("{what}: {now:.1} pages a row, {known:.1} where all is known")
        })
        .collect();
    let report = report.join("\n");
    let is_well = std::iter::zip(&now, &known).all(|((_, now), (_, known))| *now <= FEW.max(TIMES * known));
    assert!(is_well, "{report}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_costs_no_more_in_a_large_table_that_was_never_analysed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    grow(&world).await;
    compare(&world).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_costs_no_more_in_a_large_table_that_was_analysed_when_it_was_tiny(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    changes(&world, "TINY", 57).await;
    world.execute("VACUUM ANALYZE").await;
    // each statement is planned now, and the plans are cached
    changes(&world, "KEPT", 20).await;
    grow(&world).await;
    compare(&world).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_costs_no_more_in_a_large_table_that_was_empty_when_its_plans_were_made(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    world.execute("VACUUM ANALYZE").await;
    changes(&world, "KEPT", 1).await;
    grow(&world).await;
    // as a worker does every second
    assert!(statistics::refresh(&world.services.db.main).await.unwrap() > 0);
    assert_eq!(statistics::refresh(&world.services.db.main).await.unwrap(), 0);
    compare(&world).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_claim_reads_no_other_line_however_few_they_are_and_however_many_jobs_they_have(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = world(&options).await;
    world.services.unfinished_jobs = u32::MAX;
    let waiting = "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, sequence, actor_type, actor_name)
                   SELECT uuid_v7(), 'product.sync', 'queued', organisation_id, id, nextval('acceptance'), md5((n % 10)::text)::uuid,
                          'user', 'u'
                   FROM eshop, generate_series(1, 20000) AS n";
    world.execute(waiting).await;
    world.execute("VACUUM ANALYZE").await;
    let job = world.sync(Products, [r#"{"productSku":"P1","name":"Mug"}"#]).await;
    let before = pages(&world).await;
    let claimed = chunk::claim(&world.services.db.main, job, 0, false).await.unwrap();
    let looked_at = pages(&world).await - before;
    assert!(matches!(claimed, Claimed::Now(_)));
    // each index of the tables costs a few; a line of two thousand jobs would be hundreds
    assert!(looked_at < 150, "{looked_at} pages");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_dry_run_reads_no_record_of_the_audit_but_its_own(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options.options([("plan_cache_mode", "force_generic_plan")])).await;
    // all of one job: a plan that knows no job's share expects them all, and finds them in their order
    let audited =
        "INSERT INTO audit (id, at, actor_type, actor_name, action, entity_type, entity_id, changes, job_id)
                   SELECT uuid_v7(), now(), 'user', 'u', 'update', 'product', uuid_v7(), '{}', eshop.id
                   FROM eshop, generate_series(1, 20000) AS n";
    world.execute(audited).await;
    world.execute("VACUUM ANALYZE").await;
    let read = "SELECT sum(idx_tup_fetch + seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'audit%'";
    pages(&world).await;
    let before = world.count(read).await;
    let job = world.try_sync(Products, [r#"{"productSku":"P1","name":"Mug"}"#]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    pages(&world).await;
    assert_eq!(world.count(read).await - before, 1);
}
