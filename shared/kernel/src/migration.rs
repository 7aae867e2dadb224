//! Migrations: they run while the service runs, and block no writer for more than a second.
//!
//! The numbered files up to [`BASELINE`] are the schema of a new database, one aggregate a file. Each later one follows the rule
//! that `CONTRIBUTING.md` gives and `api/tests/it/migrate/rule.rs` enforces. The [`FUNCTIONS`] come after them: each has one text,
//! which replaces the one that was applied last.

use std::collections::HashMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use sqlx::migrate::{AppliedMigration, Migrate as _, MigrateError, Migration, Migrator};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use thiserror::Error;
use tokio::time::Instant;

use super::postgres_server::{InvalidUrl, PostgresServer};
use super::retry::Backoff;
use super::sqlstate::is_contention;

/// The numbered migrations, compiled in: a binary can always bring its own database to where it needs it.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// The last of the migrations that make a new database: those of the first release.
pub const BASELINE: i64 = 41;

/// A function with its triggers: its name and the text of its file, which can be applied any number of times.
pub type Function = (&'static str, &'static str);

/// The functions that no numbered migration needs, by name.
pub static FUNCTIONS: &[Function] = &include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// How each trigger begins in the file of its function.
const TRIGGER: &str = "\nCREATE OR REPLACE TRIGGER ";

/// What to do about a database from before the first release.
pub const MAKE_A_NEW_ONE: &str =
    "create a new, empty database and run longshore-api migrate on it (in a checkout: ./dev reset)";

/// Where sqlx keeps what it has applied.
pub const APPLIED: &str = "_sqlx_migrations";

/// How long a migration waits for a lock: everything else that wants the same table waits behind it.
const LOCK_PATIENCE: &str = "500ms";

/// How long a migration that does not get its lock is tried again.
const PATIENCE: Duration = Duration::from_mins(10);

/// Why a database could not be migrated.
#[derive(Debug, Error)]
pub enum Failure {
    /// Its first migrations are not ours.
    #[error("this database was created before the first release and cannot be migrated: {MAKE_A_NEW_ONE}")]
    BeforeTheRelease,
    /// A migration failed, or is not the one that was applied.
    #[error(transparent)]
    Migration(#[from] MigrateError),
    /// The URL of the database is none.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// Postgres refused, or is away.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl Failure {
    fn is_contention(&self) -> bool {
        match self {
            Self::Migration(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _))
            | Self::Database(error) => is_contention(error),
            _ => false,
        }
    }
}

/// Brings the database to the state this binary was built for, as the role that the URL names.
pub async fn migrate(database_url: &str) -> Result<(), Failure> {
    let options = PostgresServer::parse(database_url)?.find().await?;
    migrate_by(&MIGRATIONS, FUNCTIONS, &options, PATIENCE).await
}

/// Applies migrations beside a running service. A migration that has to wait for a lock (behind a report or a dump that has
/// read the table) gives up after half a second, lets through what waits behind it, and is tried again. It is rolled back
/// before that; earlier migrations stay applied.
///
/// # Errors
/// The last failure, once `patience` has passed; any other failure at once.
pub async fn migrate_by(
    migrations: &Migrator,
    functions: &[Function],
    options: &PgConnectOptions,
    patience: Duration,
) -> Result<(), Failure> {
    // the list of applied migrations is looked for before each, and Postgres would report each time that it exists
    let options = options.clone().options([("client_min_messages", "warning")]);
    let began = Instant::now();
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
    loop {
        // a new connection each time: closing it releases the lock of the migrator
        let mut connection = PgConnection::connect_with(&options).await?;
        let left = patience.saturating_sub(began.elapsed());
        let Err(error) = apply(migrations, functions, &mut connection, left).await else {
            return Ok(connection.close().await?);
        };
        drop(connection);
        if !error.is_contention() || began.elapsed() >= patience {
            return Err(error);
        }
        tracing::warn!(%error, "another session holds a lock that the migration needs; trying again");
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

async fn apply(
    migrations: &Migrator,
    functions: &[Function],
    connection: &mut PgConnection,
    patience: Duration,
) -> Result<(), Failure> {
    wait_for_locks(connection, LOCK_PATIENCE).await?;
    // only for a moment: an index that is built concurrently waits for the sessions that wait for this lock
    connection.lock().await?;
    connection.ensure_migrations_table(APPLIED).await?;
    let applied = connection.list_applied_migrations(APPLIED).await?;
    if is_before_the_release(migrations, &applied) {
        return Err(Failure::BeforeTheRelease);
    }
    for migration in migrations.iter().filter(|m| applied.iter().all(|a| a.version != m.version)) {
        if migration.no_tx {
            // it waits for older transactions, and no writer waits behind it
            wait_for_locks(connection, &format!("{}ms", patience.as_millis().max(1))).await?;
            drop_unfinished_indexes(migration, connection).await?;
        }
        migrations.run_direct(Some(migration.version), connection, false).await?;
        wait_for_locks(connection, LOCK_PATIENCE).await?;
    }
    // compares what was applied, where nothing is left to do
    migrations.run_direct(None, connection, false).await?;
    if !functions.is_empty() {
        replace(functions, connection).await?;
    }
    Ok(())
}

/// Applies the functions that changed.
async fn replace(functions: &[Function], connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    for (name, text) in to_apply(functions, connection).await? {
        // a trigger locks its table, so each is a transaction of its own
        for (n, statement) in text.split(TRIGGER).enumerate() {
            let statement = if n == 0 { statement.to_owned() } else { format!("{TRIGGER}{statement}") };
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *connection).await?;
        }
        sqlx::query(
            "INSERT INTO applied_function (name, sha256) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256",
        )
        .bind(name)
        .bind(sha256(text))
        .execute(&mut *connection)
        .await?;
    }
    // one that comes back after it was dropped is applied again
    let names: Vec<_> = functions.iter().map(|(name, _)| *name).collect();
    sqlx::query("DELETE FROM applied_function WHERE name <> ALL ($1)")
        .bind(names)
        .execute(connection)
        .await?;
    Ok(())
}

/// The functions whose text is not the one that was applied last.
///
/// # Errors
/// Postgres is away, or the database is not migrated.
pub async fn to_apply(
    functions: &[Function],
    connection: &mut PgConnection,
) -> Result<Vec<Function>, sqlx::Error> {
    let applied: HashMap<String, Vec<u8>> = sqlx::query_as("SELECT name, sha256 FROM applied_function")
        .fetch_all(connection)
        .await?
        .into_iter()
        .collect();
    Ok(functions.iter().filter(|(name, text)| applied.get(*name) != Some(&sha256(text))).copied().collect())
}

fn sha256(text: &str) -> Vec<u8> {
    Sha256::digest(text).to_vec()
}

async fn wait_for_locks(connection: &mut PgConnection, patience: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT set_config('lock_timeout', $1, false)").bind(patience).execute(connection).await?;
    Ok(())
}

/// A concurrent build that fails leaves an invalid index behind; the next attempt would take it for the finished one.
async fn drop_unfinished_indexes(
    migration: &Migration,
    connection: &mut PgConnection,
) -> Result<(), sqlx::Error> {
    let unfinished: Vec<String> = sqlx::query_scalar(
        r"SELECT quote_ident(c.relname) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
          WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace
            AND $1 ~ ('\m' || c.relname || '\M')",
    )
    .bind(migration.sql.as_str())
    .fetch_all(&mut *connection)
    .await?;
    for index in unfinished {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP INDEX CONCURRENTLY {index}")))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Whether a migration of the baseline was applied that is not ours: until the first release there were others.
#[must_use]
pub fn is_before_the_release(migrations: &Migrator, applied: &[AppliedMigration]) -> bool {
    let is_ours =
        |a: &AppliedMigration| migrations.iter().any(|m| m.version == a.version && m.checksum == a.checksum);
    applied.iter().any(|a| a.version <= BASELINE && !is_ours(a))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_migration_that_was_released_is_as_it_was() {
        let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/releases");
        for release in fs::read_dir(releases).unwrap() {
            let kept = fs::read_to_string(release.unwrap().path().join("migrations.sha384")).unwrap();
            for (sum, name) in kept.lines().map(|line| line.split_once("  ").unwrap()) {
                let byte = |at| u8::from_str_radix(&sum[at..at + 2], 16).unwrap();
                let sum: Vec<u8> = (0..sum.len()).step_by(2).map(byte).collect();
                let number: i64 = name.split_once('_').unwrap().0.parse().unwrap();
                let now = MIGRATIONS.iter().find(|now| now.version == number);
                assert!(
                    now.is_some_and(|now| now.checksum.as_ref() == sum),
                    "{name} was edited after it was released"
                );
            }
        }
    }
}
