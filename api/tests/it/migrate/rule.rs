//! The rule for migrations after the baseline: they only add, because the previous version is still running,
//! and they block no writer.
//!
//! Each is applied to an empty database, and the catalogue is compared before and after: the effect of a
//! migration counts, not its SQL. [`super::load`] measures effects that only a full table shows. Functions that can be replaced
//! come after all of them ([`super::function`]).

use std::collections::BTreeMap;

use longshore_kernel::migration::{BASELINE, MIGRATIONS};
use sqlx::migrate::Migration;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};

use super::{empty, migration};

/// Marks a migration that removes what no released version uses any more.
const CONTRACT: &str = "-- contract: ";

/// Small tables: a migration may write and scan them.
const SMALL: [&str; 3] = ["history", "packaging_option", "queue"];

/// The beginning of the state of a validated constraint.
const VALID: &str = "valid ";

/// The contents of a database: table, kind and name, with the state.
type Catalogue = BTreeMap<(String, String, String), String>;

async fn catalogue(connection: &mut PgConnection) -> Catalogue {
    let rows: Vec<(String, String, String, String)> = sqlx::query_as(
        "WITH ours AS (SELECT oid, relname, relkind, relfilenode FROM pg_class
                       WHERE relnamespace = 'public'::regnamespace AND NOT relispartition)
         SELECT relname::text, CASE relkind WHEN 'v' THEN 'view' ELSE 'table' END, relname::text,
                relfilenode::text FROM ours WHERE relkind IN ('r', 'p', 'v')
         UNION ALL
         SELECT relname, 'column', attname, format_type(atttypid, atttypmod)
         FROM pg_attribute JOIN ours ON ours.oid = attrelid
         WHERE relkind IN ('r', 'p', 'v') AND attnum > 0 AND NOT attisdropped
         UNION ALL
         SELECT relname, 'NOT NULL', attname, ''
         FROM pg_attribute JOIN ours ON ours.oid = attrelid WHERE relkind IN ('r', 'p') AND attnum > 0 AND attnotnull
         UNION ALL
         SELECT relname, 'constraint', conname, CASE WHEN convalidated THEN 'valid ' ELSE '' END || pg_get_constraintdef(c.oid)
         FROM pg_constraint c JOIN ours ON ours.oid = conrelid WHERE contype IN ('c', 'f')
         UNION ALL
         SELECT t.relname, 'index', i.relname, i.relfilenode::text
         FROM pg_index x JOIN ours t ON t.oid = x.indrelid JOIN ours i ON i.oid = x.indexrelid
         UNION ALL
         SELECT '', 'function', p.oid::regprocedure::text, '' FROM pg_proc p WHERE pronamespace = 'public'::regnamespace",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    rows.into_iter().map(|(table, what, name, state)| ((table, what, name), state)).collect()
}

/// The locks of this transaction on tables.
async fn locks(connection: &mut PgConnection) -> Vec<(String, String)> {
    sqlx::query_as(
        "SELECT DISTINCT c.relname::text, l.mode FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
         WHERE l.pid = pg_backend_pid() AND c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
           AND NOT c.relispartition ORDER BY 1, 2",
    )
    .fetch_all(connection)
    .await
    .unwrap()
}

/// Applies a migration, and returns its violations of the rule.
async fn faults(connection: &mut PgConnection, migration: &Migration) -> Vec<String> {
    let before = catalogue(&mut *connection).await;
    let is_old = |table: &str| before.contains_key(&(table.to_owned(), "table".to_owned(), table.to_owned()));
    let mut faults = Vec::new();
    let (after, locks) = if migration.no_tx {
        if !is_concurrent(migration.sql.as_str()) {
            faults.push(
                "without a transaction, one index is built or dropped, CONCURRENTLY and IF (NOT) EXISTS"
                    .to_owned(),
            );
        }
        sqlx::raw_sql(migration.sql.clone()).execute(&mut *connection).await.unwrap();
        (catalogue(connection).await, Vec::new())
    } else {
        let mut tx = connection.begin().await.unwrap();
        sqlx::raw_sql(migration.sql.clone()).execute(&mut *tx).await.unwrap();
        let found = (catalogue(&mut tx).await, locks(&mut tx).await);
        tx.commit().await.unwrap();
        found
    };

    let contracts = migration.sql.as_str().lines().any(|line| line.starts_with(CONTRACT));
    let mut validates = false;
    for (key, was) in &before {
        let (table, what, name) = key;
        let of = if table.is_empty() || table == name { String::new() } else { format!(" of {table}") };
        match after.get(key) {
            // a weaker constraint or a missing index breaks no statement
            None if ["constraint", "index", "NOT NULL"].contains(&what.as_str()) => {}
            None if !contracts => {
                faults.push(format!("takes away the {what} {name}{of}, which the version before may use"));
            }
            Some(is) if is == was => {}
            Some(is) if what == "constraint" => validates |= is.starts_with(VALID) && !is_small(table),
            Some(_) if what == "column" => faults.push(format!("changes the type of {name}{of}")),
            Some(_) => faults.push(format!("writes the {what} {name}{of} anew")),
            None => {}
        }
    }
    for ((table, what, name), is) in &after {
        let key = |what: &str| (table.clone(), what.to_owned(), name.clone());
        if !is_old(table) || is_small(table) || before.contains_key(&key(what)) {
            continue;
        }
        match what.as_str() {
            "index" if !migration.no_tx => {
                faults.push(format!("builds the index {name} while {table} is locked"));
            }
            "constraint" if is.starts_with(VALID) => {
                faults.push(format!(
                    "looks through all of {table} for {name}: add it NOT VALID, validate it later"
                ));
            }
            "NOT NULL" if before.contains_key(&key("column")) && !is_never_null(&before, table, name) => {
                faults.push(format!(
                    "looks through all of {table} for nulls in {name}: have a valid CHECK before"
                ));
            }
            "NOT NULL"
                if !before.contains_key(&key("column")) && !has_default(connection, table, name).await =>
            {
                faults.push(format!("the version before writes {table} without {name}: give it a default"));
            }
            _ => {}
        }
    }
    for (table, mode) in locks.iter().filter(|(table, _)| is_old(table)) {
        match mode.as_str() {
            "RowExclusiveLock" if !is_small(table) => {
                faults.push(format!("writes to {table}: a job changes the rows of a large table"));
            }
            "ShareLock" | "ShareRowExclusiveLock" | "ExclusiveLock" | "AccessExclusiveLock" if validates => {
                faults.push(format!("validates a constraint while {table} is locked"));
            }
            _ => {}
        }
    }
    faults
}

fn is_small(table: &str) -> bool {
    SMALL.contains(&table)
}

/// Whether the file is one statement that creates or drops one index concurrently.
fn is_concurrent(sql: &str) -> bool {
    let code: Vec<&str> = sql.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let words = code.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let statement = words.trim_end_matches(';').replacen("CREATE UNIQUE INDEX", "CREATE INDEX", 1);
    !statement.contains(';')
        && ["CREATE INDEX CONCURRENTLY IF NOT EXISTS ", "DROP INDEX CONCURRENTLY IF EXISTS "]
            .iter()
            .any(|start| statement.starts_with(start))
}

/// Whether a validated constraint ensures that a column is never null, so that Postgres need not scan the
/// table.
fn is_never_null(catalogue: &Catalogue, table: &str, column: &str) -> bool {
    catalogue.iter().any(|((of, what, _), definition)| {
        of == table && what == "constraint" && *definition == format!("valid CHECK (({column} IS NOT NULL))")
    })
}

async fn has_default(connection: &mut PgConnection, table: &str, column: &str) -> bool {
    sqlx::query_scalar(
        "SELECT atthasdef OR attidentity <> '' FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2",
    )
    .bind(table)
    .bind(column)
    .fetch_one(connection)
    .await
    .unwrap()
}

/// A database at the baseline.
async fn baseline(options: &PgConnectOptions) -> PgConnection {
    empty(options).await;
    let mut connection = PgConnection::connect_with(options).await.unwrap();
    MIGRATIONS.run_direct(Some(BASELINE), &mut connection, false).await.unwrap();
    connection
}

#[sqlx::test(migrations = false)]
async fn migrations_after_the_baseline_keep_the_rule(_: PgPoolOptions, options: PgConnectOptions) {
    let versions: Vec<i64> = MIGRATIONS.iter().map(|m| m.version).take_while(|v| *v <= BASELINE).collect();
    assert_eq!(versions, (1..=BASELINE).collect::<Vec<_>>(), "the baseline is whole");
    let mut connection = baseline(&options).await;
    for later in MIGRATIONS.iter().filter(|m| m.version > BASELINE) {
        let faults = faults(&mut connection, later).await;
        assert!(faults.is_empty(), "migration {} {}: {faults:#?}", later.version, later.description);
    }
}

#[sqlx::test(migrations = false)]
async fn the_rule_permits_additions_that_block_no_writer(_: PgPoolOptions, options: PgConnectOptions) {
    let mut connection = baseline(&options).await;
    for sql in [
        "CREATE TABLE label (id uuid PRIMARY KEY, product_id uuid NOT NULL REFERENCES product, name text);
         CREATE INDEX label_by_product ON label (product_id)",
        "ALTER TABLE product ADD COLUMN colour text, ADD COLUMN depth integer NOT NULL DEFAULT 0",
        "ALTER TABLE product ADD CONSTRAINT depth_is_not_negative CHECK (depth >= 0) NOT VALID",
        "ALTER TABLE product VALIDATE CONSTRAINT depth_is_not_negative",
        "ALTER TABLE product ADD CONSTRAINT colour_is_there CHECK (colour IS NOT NULL) NOT VALID",
        "ALTER TABLE product VALIDATE CONSTRAINT colour_is_there",
        "ALTER TABLE product ALTER COLUMN colour SET NOT NULL",
        "-- no-transaction\n-- for the filter\nCREATE INDEX CONCURRENTLY IF NOT EXISTS product_by_colour\n    ON product (colour);\n",
        "-- no-transaction\nDROP INDEX CONCURRENTLY IF EXISTS product_by_colour",
        "ALTER TABLE queue DROP CONSTRAINT name_is_known;
         ALTER TABLE queue ADD CONSTRAINT queue_is_known CHECK (name IN ('chunk', 'partner', 'lane', 'handover', 'upkeep', 'mail'));
         INSERT INTO queue (id, name) VALUES (uuid_v7(), 'mail')",
        "ALTER TABLE webhook DROP CONSTRAINT events_are_known,
             ADD CONSTRAINT events_are_known CHECK (events <@ ARRAY['test', 'other']) NOT VALID",
        "ALTER TABLE webhook VALIDATE CONSTRAINT events_are_known",
        "CREATE FUNCTION is_heavy(weight integer) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN weight > 30000",
        "-- contract: read by no version since 0.3\nALTER TABLE product DROP COLUMN colour",
    ] {
        let faults = faults(&mut connection, &migration(1000, sql)).await;
        assert!(faults.is_empty(), "{sql}: {faults:#?}");
    }
}

#[sqlx::test(migrations = false)]
async fn the_rule_refuses_removals_and_locks_that_block_writers(_: PgPoolOptions, options: PgConnectOptions) {
    let mut connection = baseline(&options).await;
    sqlx::raw_sql("ALTER TABLE product ADD CONSTRAINT sample CHECK (weight <> 7) NOT VALID")
        .execute(&mut connection)
        .await
        .unwrap();
    for (sql, fault) in [
        ("CREATE INDEX product_by_name ON product (name)", "builds the index product_by_name"),
        ("ALTER TABLE product ADD CONSTRAINT one_name UNIQUE (name)", "builds the index one_name"),
        (
            "ALTER TABLE product ADD CONSTRAINT light CHECK (weight < 9)",
            "looks through all of product for light",
        ),
        (
            "ALTER TABLE product ADD CONSTRAINT heavy CHECK (weight > 9) NOT VALID;
             ALTER TABLE product VALIDATE CONSTRAINT heavy",
            "looks through all of product for heavy",
        ),
        (
            "ALTER TABLE product ADD COLUMN colour text; ALTER TABLE product VALIDATE CONSTRAINT sample",
            "validates a constraint while product is locked",
        ),
        (
            "ALTER TABLE product ADD COLUMN maker uuid REFERENCES supplier",
            "looks through all of product for product_maker_fkey",
        ),
        (
            "ALTER TABLE product ADD COLUMN made_at timestamptz DEFAULT clock_timestamp()",
            "writes the table product anew",
        ),
        ("ALTER TABLE product ADD COLUMN shape text NOT NULL", "writes product without shape"),
        ("ALTER TABLE product ALTER COLUMN weight TYPE bigint", "changes the type of weight of product"),
        (
            "ALTER TABLE product ALTER COLUMN hs_code SET NOT NULL",
            "looks through all of product for nulls in hs_code",
        ),
        ("ALTER TABLE product RENAME COLUMN category TO class", "takes away the column category of product"),
        ("ALTER TABLE product DROP COLUMN height", "takes away the column height of product"),
        (
            "ALTER TABLE webhook DROP CONSTRAINT events_are_known, ADD CONSTRAINT events_are_known CHECK (event <> '')",
            "validates a constraint while webhook is locked",
        ),
        ("DROP TABLE product_image", "takes away the table product_image"),
        ("DROP VIEW partner_stock_wanted", "takes away the view partner_stock_wanted"),
        ("DROP FUNCTION uuid_v7_floor", "takes away the function uuid_v7_floor(timestamp with time zone)"),
        ("UPDATE product SET services = '{}'", "writes to product"),
        ("DO $$ BEGIN DELETE FROM job; END $$", "writes to job"),
        (
            "-- no-transaction\nCREATE INDEX product_by_group ON product (product_group)",
            "CONCURRENTLY and IF (NOT) EXISTS",
        ),
        (
            "-- no-transaction\nCREATE INDEX CONCURRENTLY product_by_code ON product (hs_code)",
            "CONCURRENTLY and IF (NOT) EXISTS",
        ),
    ] {
        let faults = faults(&mut connection, &migration(1000, sql)).await;
        assert!(faults.iter().any(|found| found.contains(fault)), "{sql}: {faults:#?}");
    }
}
