//! Services on the database of one test.

use std::time::{Duration, Instant};

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Command};
use longshore_domain::partner::baselinker::window::{self, Window};
use longshore_kernel::clock::Clock;
use longshore_kernel::config::{DatabaseSettings, OutboundSettings, QuotaSettings, RedisSettings};
use longshore_kernel::crypto::Vault;
use longshore_kernel::database::Database;
use longshore_kernel::ids;
use longshore_kernel::metrics::Metrics;
use longshore_kernel::objects::Objects;
use longshore_kernel::queue::Queues;
use longshore_kernel::quota::Quotas;
use longshore_kernel::refusals::Refusals;
use longshore_kernel::rest::Rests;
use longshore_kernel::services::Services;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

/// Services on a database of `#[sqlx::test]`, with a unique queue prefix; loopback destinations with `http`
/// are allowed.
pub fn for_test(options: &PgConnectOptions) -> anyhow::Result<Services> {
    with_connections(options, 12)
}

/// The same with this many connections for changes and look-ups by key.
pub fn with_connections(options: &PgConnectOptions, connections: u32) -> anyhow::Result<Services> {
    let mut database: DatabaseSettings = defaults()?;
    database.database_connections = connections;
    let mut redis: RedisSettings = defaults()?;
    redis.queue_prefix = format!("test-{}:", ids::new_id());
    let metrics = Metrics::new();
    Ok(Services {
        db: Database::from_options(options, &database),
        queues: Queues::open(&redis)?,
        vault: Vault::new(&format!("test:{}", STANDARD.encode([7; 32])).into())?,
        // empty until a test stores objects; such tests use their own folder
        objects: Objects::folder(&std::env::temp_dir().join(format!("longshore-{}", ids::new_id())))?,
        clock: Clock::system(),
        outbound: OutboundSettings {
            webhook_allow_http: true,
            webhook_allow_subnets: vec!["127.0.0.0/8".parse()?, "::1/128".parse()?],
            // one test has hundreds of lanes, and another checks this limit itself
            webhooks_per_eshop: 10_000,
        },
        quotas: Quotas::new(defaults()?, metrics.clone()),
        metrics,
        unfinished_jobs: 10_000,
        refusals: Refusals::default(),
        rests: Rests::default(),
    })
}

/// Makes Redis grant slots for BaseLinker at once: no requests were sent before, so there is no need to wait
/// until they leave every window.
pub async fn nothing_was_sent_before(queues: &Queues) -> anyhow::Result<()> {
    let window = Window::new(queues, window::DOCUMENTED);
    window.open().await;
    let mut connection = queues.connection();
    redis::cmd("HSET").arg(window.since()).arg("open").arg(0).exec_async(&mut connection).await?;
    Ok(())
}

/// Pages of tables and indexes that were read so far, from memory or disk, through the owner's pool and
/// another pool with this many connections, none of which is in use.
///
/// # Errors
/// Postgres does not answer.
pub async fn pages_looked_at(pool: &PgPool, connections: u32, owner: &PgPool) -> anyhow::Result<i64> {
    let mut held = Vec::new();
    for (pool, connections) in [(pool, connections), (owner, 1)] {
        let before = held.len();
        // a connection that is being returned makes room for a new one, but must be waited for, too
        while held.len() - before < usize::try_from(pool.size().max(connections))? {
            held.push(pool.acquire().await?);
        }
    }
    // a session publishes its statistics at most once a second, unless it is asked
    for connection in &mut held {
        sqlx::query("SELECT pg_stat_force_next_flush()").execute(&mut **connection).await?;
    }
    drop(held);
    let looked_at = "SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0))::bigint
                     FROM pg_statio_user_tables";
    Ok(sqlx::query_scalar(looked_at).fetch_one(owner).await?)
}

/// Disables autovacuum, so that only the test changes the table statistics.
///
/// # Errors
/// Postgres does not answer.
pub async fn analyse_by_hand(owner: &PgPool) -> anyhow::Result<()> {
    let off = "DO $$
               DECLARE name regclass;
               BEGIN
                   FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
                       EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
                   END LOOP;
               END $$";
    sqlx::raw_sql(off).execute(owner).await?;
    Ok(())
}

/// Waits until at least this many sessions of the test's database wait for a lock.
///
/// # Errors
/// Postgres does not answer, or they do not come within half a minute.
pub async fn until_locked(pool: &PgPool, sessions: i64) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await? < sessions {
        ensure!(Instant::now() < deadline, "fewer than {sessions} sessions stand before a lock");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Queues on a Redis that does not exist.
pub fn queues_that_nobody_answers() -> anyhow::Result<Queues> {
    let mut redis: RedisSettings = defaults()?;
    redis.redis_url = "redis://127.0.0.1:1".into();
    Ok(Queues::open(&redis)?)
}

/// The default database settings.
pub fn database_settings() -> anyhow::Result<DatabaseSettings> {
    defaults()
}

/// The default quotas.
pub fn quota_settings() -> anyhow::Result<QuotaSettings> {
    defaults()
}

/// The Redis settings of the environment.
pub fn redis_settings() -> anyhow::Result<RedisSettings> {
    defaults()
}

/// Settings from the environment and the defaults.
fn defaults<S: Args>() -> anyhow::Result<S> {
    let matches = S::augment_args(Command::new("test")).try_get_matches_from(["test"])?;
    Ok(S::from_arg_matches(&matches)?)
}
