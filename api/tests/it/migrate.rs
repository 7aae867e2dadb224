//! Migrations that are applied while the service runs.

mod function;
mod load;
mod rule;

use std::time::{Duration, Instant};

use longshore_kernel::migration::{MIGRATIONS, migrate_by};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool, SqlSafeStr as _};
use uuid::{Uuid, Variant};

use crate::command::run;

/// Longer than any expected wait on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn migration(version: i64, sql: &str) -> Migration {
    let no_tx = sql.starts_with("-- no-transaction");
    let sql = AssertSqlSafe(sql.to_owned()).into_sql_str();
    Migration::new(version, "sample".into(), MigrationType::Simple, sql, no_tx)
}

fn migrations(statements: &[&str]) -> Migrator {
    Migrator::with_migrations((1..).zip(statements).map(|(version, sql)| migration(version, sql)).collect())
}

/// Makes the database of a test anew, without anything in it: it may be a copy of one that is migrated.
pub(crate) async fn empty(options: &PgConnectOptions) {
    let name = options.get_database().unwrap();
    let mut connection = PgConnection::connect_with(&options.clone().database("postgres")).await.unwrap();
    for sql in [format!("DROP DATABASE {name:?}"), format!("CREATE DATABASE {name:?} TEMPLATE template0")] {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    }
}

/// A transaction that has read a table, and stays open.
async fn report(options: &PgConnectOptions, begin: &str, table: &str) -> PgConnection {
    let mut connection = PgConnection::connect_with(options).await.unwrap();
    let sql = format!("{begin}; SELECT FROM {table} LIMIT 1");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection
}

/// The number of sessions that wait for an exclusive lock.
async fn waiting(pool: &PgPool) -> i64 {
    sqlx::query_scalar(
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
         WHERE d.datname = current_database() AND mode = 'AccessExclusiveLock' AND NOT granted",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

#[sqlx::test(migrations = false)]
async fn a_migration_that_waits_for_a_reader_blocks_no_writer(_: PgPoolOptions, options: PgConnectOptions) {
    empty(&options).await;
    let pool = PgPool::connect_with(options.clone()).await.unwrap();
    migrate_by(&migrations(&["CREATE TABLE sample (n int)"]), &[], &options, PATIENCE).await.unwrap();
    let report = report(&options, "BEGIN", "sample").await;

    let both = migrations(&["CREATE TABLE sample (n int)", "ALTER TABLE sample ADD COLUMN m int"]);
    let migrating = tokio::spawn({
        let options = options.clone();
        async move { migrate_by(&both, &[], &options, PATIENCE).await }
    });
    // it waited for its lock twice, so it has given up once and tried again
    for attempt in 0..2 {
        while waiting(&pool).await == 0 {
            assert!(!migrating.is_finished(), "attempt {attempt} did not wait");
        }
        let asked = Instant::now();
        sqlx::query("SELECT * FROM sample").execute(&pool).await.unwrap();
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?} behind a migration", asked.elapsed());
        while waiting(&pool).await > 0 {}
    }
    report.close().await.unwrap();
    migrating.await.unwrap().unwrap();
    sqlx::query("SELECT m FROM sample").execute(&pool).await.unwrap();
}

#[sqlx::test(migrations = false)]
async fn a_migration_gives_up_after_its_time_limit_and_changes_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    empty(&options).await;
    let pool = PgPool::connect_with(options.clone()).await.unwrap();
    sqlx::query("CREATE TABLE sample (n int)").execute(&pool).await.unwrap();
    let _report = report(&options, "BEGIN", "sample").await;
    let one = migrations(&["CREATE TABLE other (n int); ALTER TABLE sample ADD COLUMN m int"]);
    let error = migrate_by(&one, &[], &options, Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("lock timeout"), "{error}");
    let other: Option<String> =
        sqlx::query_scalar("SELECT to_regclass('other')::text").fetch_one(&pool).await.unwrap();
    assert_eq!(other, None);
}

/// Builds an index concurrently, as a later migration would.
const BUILD: &str = "-- no-transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS sample_by_n ON sample (n)";

/// Whether the index of [`BUILD`] is there, and valid.
async fn built(pool: &PgPool) -> Option<bool> {
    sqlx::query_scalar("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('sample_by_n')")
        .fetch_optional(pool)
        .await
        .unwrap()
}

#[sqlx::test(migrations = false)]
async fn an_index_is_built_behind_a_long_transaction_and_two_migrate_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    empty(&options).await;
    let pool = PgPool::connect_with(options.clone()).await.unwrap();
    sqlx::raw_sql("CREATE TABLE sample (n int); INSERT INTO sample VALUES (1)").execute(&pool).await.unwrap();
    // it keeps its snapshot, which the index build waits for at its end
    let report = report(&options, "BEGIN ISOLATION LEVEL REPEATABLE READ", "sample").await;
    let migrate = || {
        let options = options.clone();
        tokio::spawn(async move { migrate_by(&migrations(&[BUILD]), &[], &options, PATIENCE).await })
    };
    let (one, other) = (migrate(), migrate());
    // longer than a migration waits for a lock
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event = 'virtualxid'
                   AND query_start < clock_timestamp() - interval '1 second'";
    while sqlx::query_scalar::<_, i64>(waits).fetch_one(&pool).await.unwrap() == 0 {
        assert!(!one.is_finished() && !other.is_finished(), "it did not wait for the report");
        // no writer waits for it
        let mut writer = pool.begin().await.unwrap();
        sqlx::raw_sql("SET LOCAL lock_timeout = '1s'; UPDATE sample SET n = 2")
            .execute(&mut *writer)
            .await
            .unwrap();
        writer.commit().await.unwrap();
    }
    report.close().await.unwrap();
    one.await.unwrap().unwrap();
    other.await.unwrap().unwrap();
    assert_eq!(built(&pool).await, Some(true));
}

#[sqlx::test(migrations = false)]
async fn an_index_that_was_left_incomplete_is_built_again(_: PgPoolOptions, options: PgConnectOptions) {
    empty(&options).await;
    let pool = PgPool::connect_with(options.clone()).await.unwrap();
    sqlx::raw_sql("CREATE TABLE sample (n int)").execute(&pool).await.unwrap();
    let report = report(&options, "BEGIN; LOCK TABLE sample IN ROW EXCLUSIVE MODE", "sample").await;
    migrate_by(&migrations(&[BUILD]), &[], &options, Duration::ZERO).await.unwrap_err();
    assert_eq!(built(&pool).await, Some(false));
    report.close().await.unwrap();
    migrate_by(&migrations(&[BUILD]), &[], &options, PATIENCE).await.unwrap();
    assert_eq!(built(&pool).await, Some(true));
}

#[sqlx::test(migrations = false)]
async fn a_database_from_before_the_first_release_is_refused_with_a_message(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    empty(&options).await;
    let before = migrations(&["CREATE TABLE organisation (n int)", "CREATE TABLE eshop (n int)"]);
    migrate_by(&before, &[], &options, PATIENCE).await.unwrap();
    let url = options.to_url_lossy().to_string();
    let ran = run(&["migrate"], &[("DATABASE_URL", &url)]).await.ends_with(1);
    assert_eq!(
        ran.stderr,
        "error: this database was created before the first release and cannot be migrated: create a new, empty database and run longshore-api migrate on it (in a checkout: ./dev reset)\n"
    );
    let pool = PgPool::connect_with(options).await.unwrap();
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(tables, 3, "its two, and the list of what was applied");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn ids_have_the_order_in_which_they_were_made(pool: PgPool) {
    let mut connection = pool.acquire().await.unwrap();
    let mut last = Uuid::nil();
    for _ in 0..200 {
        let sql = "SELECT uuid_v7_floor(m), uuid_v7_at(m), uuid_v7() FROM clock_timestamp() AS m";
        let (floor, at, now): (Uuid, Uuid, Uuid) =
            sqlx::query_as(sql).fetch_one(&mut *connection).await.unwrap();
        assert!(last < floor && floor < at.min(now), "{last} {floor} {at} {now}");
        assert!([at, now].iter().all(|id| id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122));
        last = now;
    }
    let moments: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM generate_series(0, 999999, 7) AS n, to_timestamp(1800000000) AS second,
                LATERAL (SELECT second + n * interval '1 microsecond' AS moment) AS m
         WHERE uuid_v7_at(moment) BETWEEN uuid_v7_floor(moment) AND uuid_v7_floor(moment + interval '1 microsecond')",
    )
    .fetch_one(&mut *connection)
    .await
    .unwrap();
    assert_eq!(moments, 142_858);
}
