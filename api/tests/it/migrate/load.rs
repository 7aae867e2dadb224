//! Migrations under load, on a table of the size of a large catalogue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use longshore_kernel::migration::{BASELINE, FUNCTIONS, MIGRATIONS, migrate_by};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};

use super::{PATIENCE, empty, migration, report, waiting};

const PRODUCTS: i64 = 1_000_000;

const WRITERS: usize = 4;

/// The longest time that a writer may wait.
const LONGEST: Duration = Duration::from_secs(1);

/// Typical migrations of a large table, applied after the existing ones. All functions with their triggers follow.
const SAMPLE: [&str; 4] = [
    "ALTER TABLE product ADD COLUMN sample integer NOT NULL DEFAULT 0",
    "ALTER TABLE product ADD CONSTRAINT sample_is_not_negative CHECK (sample >= 0) NOT VALID",
    "ALTER TABLE product VALIDATE CONSTRAINT sample_is_not_negative",
    "-- no-transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS product_by_sample ON product (organisation_id, sample, id)",
];

/// Creates a database at the baseline with an organisation of this many products; returns their ids.
async fn fill(options: &PgConnectOptions) -> Vec<uuid::Uuid> {
    empty(options).await;
    let mut connection = PgConnection::connect_with(options).await.unwrap();
    MIGRATIONS.run_direct(Some(BASELINE), &mut connection, false).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    // without checking the organisation and packaging of each
    sqlx::raw_sql("SET LOCAL session_replication_role = replica").execute(&mut *tx).await.unwrap();
    sqlx::query(
        "WITH organisation AS (
             INSERT INTO organisation (id, name, registration_number, vat_number, address_line1, address_line2, address_line3,
                                       primary_country, owners, active, automatic_exchange_enabled, ignore_address_validation)
             VALUES (uuid_v7(), 'Clay Works', '', '', '', '', '', 'CZ', '{}', true, false, false) RETURNING id
         )
         INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers, packaging_type,
                              imei_check_required, work_around_sn_in, work_around_ean_sticker, work_around_warranty_inf,
                              work_around_lot, active, active_acceptance, type)
         SELECT uuid_v7(), o.id, 'S' || n, 'S' || n, 'Mug ' || n, '{}', 'A', false, false, false, false, false, true, 0,
                'physical'
         FROM organisation o, generate_series(1, $1) AS n",
    )
    .bind(PRODUCTS)
    .execute(&mut *tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
    sqlx::query_scalar("SELECT id FROM product TABLESAMPLE SYSTEM (1)")
        .fetch_all(&mut connection)
        .await
        .unwrap()
}

/// Changes one product after another until it is stopped; returns their number, and the longest duration.
async fn write(
    options: PgConnectOptions,
    products: Arc<Vec<uuid::Uuid>>,
    writer: usize,
    stopped: Arc<AtomicBool>,
) -> (usize, Duration) {
    let mut connection = PgConnection::connect_with(&options).await.unwrap();
    let mut written = 0;
    let mut longest = Duration::ZERO;
    for product in products.iter().skip(writer).step_by(WRITERS).cycle() {
        let asked = Instant::now();
        sqlx::query("UPDATE product SET name = name || '.', version = version + 1 WHERE id = $1")
            .bind(product)
            .execute(&mut connection)
            .await
            .unwrap();
        longest = longest.max(asked.elapsed());
        written += 1;
        if stopped.load(Ordering::Relaxed) {
            break;
        }
    }
    (written, longest)
}

#[sqlx::test(migrations = false)]
async fn writers_of_a_million_products_wait_for_a_migration_at_most_a_second(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let products = Arc::new(fill(&options).await);
    let pool = PgPool::connect_with(options.clone()).await.unwrap();
    let stopped = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(options.clone(), products.clone(), writer, stopped.clone())))
        .collect();
    let report = report(&options, "BEGIN", "product").await;

    let later = (1_000_000..).zip(SAMPLE).map(|(version, sql)| migration(version, sql));
    let all = Migrator::with_migrations(MIGRATIONS.iter().cloned().chain(later).collect());
    let migrating = tokio::spawn({
        let options = options.clone();
        async move { migrate_by(&all, FUNCTIONS, &options, PATIENCE).await }
    });
    // the writers wait for it while it waits for the report, until it gives up
    for attempt in 0..2 {
        while waiting(&pool).await == 0 {
            assert!(!migrating.is_finished(), "attempt {attempt} did not wait");
        }
        while waiting(&pool).await > 0 {}
    }
    report.close().await.unwrap();
    migrating.await.unwrap().unwrap();
    stopped.store(true, Ordering::Relaxed);

    for (number, writer) in writers.into_iter().enumerate() {
        let (written, longest) = writer.await.unwrap();
        println!("writer {number} changed {written} products and waited {longest:?} at most");
        assert!(longest <= LONGEST, "writer {number} waited {longest:?}");
    }
    let valid: bool = sqlx::query_scalar(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = 'product_by_sample'::regclass",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert!(valid);
    let raised: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_trigger WHERE tgname = 'raise_version' AND tgrelid = 'product'::regclass",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(raised, 1);
}
