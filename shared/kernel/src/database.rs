//! Postgres: pools and roles.
//!
//! # Plans
//!
//! Queries by key ([`Database::main`]) are planned once, and the plan is kept while the tables grow. Lists ([`Database::lists`]) are
//! planned for their values. Neither may depend on the statistics: those are old after an import, and absent after a restore. Of queries
//! by key:
//!
//! - A query whose values do not decide its plan belongs here, also that of a page. To plan a look-up in a partitioned table takes
//!   longer than to run it: every partition is planned, with all of its indexes. What is optional is a bound with a default
//!   (`id < coalesce($2, 'ffffffff-…')`): `$2 IS NULL OR id < $2` is a filter in a plan for all values.
//! - A table is neither scanned, nor are bitmaps made of its rows: both are cheap in a table of fifty, and cost as much as the
//!   table is large. A bitmap takes any index that begins right, such as all products of an organisation for one SKU.
//! - Small tables that outgrow their statistics are analysed within a second, after which all sessions plan again
//!   ([`statistics`](super::statistics)): no plan for an empty table survives.
//! - A statement leaves one index to find a row by. What an SKU is looked up by is the first in the order of SKUs. What
//!   joins rows to a table says `id = ANY (ARRAY[x.id])`, which can only be looked up, instead of `id = x.id`, for which
//!   the whole table may be read and hashed. What a partial index is for is said otherwise where a row is found by its key:
//!   `leased_until IS NOT NULL`, not `state = 'running'`, else all that runs is gone through, with the dead entries that a
//!   long transaction keeps. A queue that a vacuum found empty has a hash index for its key (`delivery_by_id`): Postgres then expects
//!   no row, and takes any index that has the key among its columns for as cheap. A join by a unique key compares another column, too:
//!   where it expects no row, the look-ups of a join by the key alone are reckoned twice, and all of the key's index costs less.
//!
//! Of lists:
//!
//! - A list reads its first rows in the order of one index, and never all rows to sort them. Its order ends in all columns of that
//!   index; where others end alike, it begins with a column that only the wanted one has. Of a column that is compared by `=`, Postgres
//!   would leave that out, so it is compared by `= ANY`: `eshop_id = ANY (ARRAY[$1]) ORDER BY eshop_id, created_at, id`. Two ranges
//!   (`BETWEEN`) do not serve: an index is entered at the second only after a single value of the first.
//! - Where many rows are looked at for few, Postgres may expect fewer rows than that, and then makes a bitmap of all and sorts it. A bound
//!   that it does not know when it plans (`LIMIT (SELECT $3)`) counts as a tenth of the rows, for which the order of the index is cheaper.
//! - What is looked up for each row says `LIMIT 1`, or a join may read and hash the whole table.
//!
//! Tests count the pages that are looked at for a row, in tables that are new, were analysed when they were tiny, and are known.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, PgTransaction};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::config::DatabaseSettings;
pub use super::pool::{Pool, Transaction};
use super::pooler::{Guard, Pooler};
use super::pools::{self, Kind};
use super::postgres_server::{InvalidUrl, PostgresServer};
use super::pulse::{self, Memory};
use super::share;
use super::standby::Standby;

/// A connection that was given back no longer ago is taken to be alive.
const BELIEVED: Duration = Duration::from_secs(1);

/// The pools of a process. Each takes the service's role, so that even a mistake cannot alter the audit.
#[derive(Clone, Debug)]
pub struct Database {
    /// Changes and look-ups by key: prepared once, planned once.
    pub main: Pool,
    /// Pages of lists: planned for the values they are asked with.
    pub lists: Pool,
    /// Unlimited lists: few, long, and never in the way of the rest.
    pub streams: Pool,
    /// Renewals of leases, which must not wait for the work that they are about, nor for a locked row. Only workers use it.
    pub leases: PgPool,
    /// For checks of Postgres, even when the others are busy. It has the right of the login, which sees what its sessions wait for.
    probe: PgPool,
    /// Commits that wait for a standby.
    pub standby: Standby,
    /// The highest pulse that this process knows to be committed; each new connection is compared with it.
    pub(super) pulse: Memory,
    /// A change was committed by this process: who waits for changes looks at once.
    pub committed: Arc<Notify>,
    /// Leads the pools to the host that takes writes, where it is not on this machine.
    leading: Option<Arc<JoinSet<()>>>,
    /// Sees that a pooler keeps what the pools need.
    pooler: Pooler,
}

/// There are no pools.
#[derive(Debug, thiserror::Error)]
pub enum NoPools {
    /// The URL is none.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// This process could open no socket for the connections that it relays.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What a process does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It serves requests.
    Requests,
    /// It does what was accepted.
    Work,
}

impl Database {
    /// Pools that connect when they are first used: a process starts although Postgres is not there yet.
    pub fn connect_lazy(
        settings: &DatabaseSettings,
        application: &str,
        used_for: Use,
    ) -> Result<Self, NoPools> {
        let server = PostgresServer::of(settings)?;
        let (options, relay) = server.follow()?;
        let (mut database, opened) = Self::open(&options.application_name(application), settings, used_for);
        let pools = opened.iter().map(|(pool, _)| pool.clone()).collect();
        database.leading = relay.map(|relay| Arc::new(server.lead(relay, pools)));
        let guarded = opened.into_iter().filter_map(|(pool, guard)| Some((guard?, pool)));
        database.pooler = Pooler::watch(guarded.collect());
        Ok(database)
    }

    /// The same from parsed options, without a pooler; tests come with a database of their own.
    #[must_use]
    pub fn from_options(options: &PgConnectOptions, settings: &DatabaseSettings) -> Self {
        Self::open(options, settings, Use::Work).0
    }

    /// All of it, and its pools, each with its guard if there is a pooler and the process uses the pool.
    fn open(
        options: &PgConnectOptions,
        settings: &DatabaseSettings,
        used_for: Use,
    ) -> (Self, Vec<(PgPool, Option<Guard>)>) {
        let memory = Memory::default();
        let mut opened = Vec::new();
        let mut pool = |kind: &'static Kind| {
            let memory = memory.clone();
            // a check finds its session open
            let idle = (kind.name != pools::PROBE.name).then_some(Duration::from_mins(5));
            let guard = settings.database_pooled.then(|| Guard::new(kind, &settings.database_role));
            let (guarding, keeping) = (guard.clone(), guard.clone());
            let pool = PgPoolOptions::new()
                .max_connections(kind.connections(settings))
                .acquire_timeout(share::PATIENCE)
                .idle_timeout(idle)
                // a connection has answered when it was given back: to ask again a moment later doubles the way of each
                // statement, and finds no server that goes away in between
                .test_before_acquire(false)
                .after_connect(move |connection, _| {
                    let (memory, guarding) = (memory.clone(), guarding.clone());
                    Box::pin(async move {
                        if let Some(guard) = guarding {
                            guard.admit(connection).await?;
                        }
                        pulse::greet(connection, &memory).await
                    })
                })
                .before_acquire(move |connection, found| {
                    let is_kept = keeping.as_ref().is_none_or(Guard::is_kept);
                    Box::pin(async move {
                        if is_kept && found.idle_for > BELIEVED {
                            connection.ping().await?;
                        }
                        Ok(is_kept)
                    })
                });
            let options = if settings.database_pooled {
                kind.pooled(options)
            } else {
                kind.direct(options, &settings.database_role)
            };
            let pool = pool.connect_lazy_with(options);
            // only workers use that
            let is_used = kind.name != pools::LEASES.name || used_for == Use::Work;
            opened.push((pool.clone(), guard.filter(|_| is_used)));
            pool
        };
        let main = pool(match used_for {
            Use::Requests => &pools::REQUESTS,
            Use::Work => &pools::WORK,
        });
        let lists = pool(&pools::LISTS);
        let streams = pool(&pools::STREAMS);
        let leases = pool(&pools::LEASES);
        let probe = pool(&pools::PROBE);
        let patience = Duration::from_secs(settings.commit_seconds);
        let standby = Standby::new(probe.clone(), patience, settings.database_connections);
        let shared = |pool, what, times| Pool::new(pool, what, times, standby.clone());
        let database = Self {
            // what runs here takes milliseconds, unless it waits for a row
            main: shared(main, "connections to the database", 3),
            lists: shared(lists, "connections for lists", 1),
            streams: shared(streams, "connections for unlimited lists", 1),
            leases,
            probe,
            standby,
            pulse: memory,
            committed: Arc::default(),
            leading: None,
            pooler: Pooler::default(),
        };
        (database, opened)
    }

    /// Ends all connections: later requests for one fail as if Postgres were unavailable.
    pub async fn close(&self) {
        tokio::join!(
            self.main.close(),
            self.lists.close(),
            self.streams.close(),
            self.leases.close(),
            self.probe.close()
        );
    }

    /// Why this process cannot work through its pooler, if it cannot.
    #[must_use]
    pub fn refused_by_pooler(&self) -> Option<String> {
        self.pooler.refused()
    }

    /// Whether Postgres answers.
    pub async fn ping(&self) -> Result<(), sqlx::Error> {
        sqlx::query!("SELECT 1 AS one").fetch_one(&self.probe).await.map(|_| ())
    }
}

/// A connection of the login that the URL names, in its own right: for commands of the owner of the tables.
///
/// # Errors
/// The URL is none, no server takes writes, or Postgres refuses.
pub async fn connect_owner(settings: &DatabaseSettings, application: &str) -> anyhow::Result<PgConnection> {
    let options = PostgresServer::of(settings)?.find().await?.application_name(application);
    Ok(PgConnection::connect_with(&options.options([("timezone", "UTC")])).await?)
}

/// Begins a transaction of what is done for no request; the others begin by [`Pool::transaction`].
///
/// `BEGIN` always runs to its end, even if its caller is gone, and the transaction is then rolled back. If it is dropped in
/// the middle of `BEGIN`, sqlx 0.9.0 forgets the transaction (transact-rs/sqlx#4393): the next user of the connection then
/// writes into a transaction that is never committed, without an error.
pub async fn begin(pool: &PgPool) -> Result<PgTransaction<'static>, sqlx::Error> {
    let connection = pool.acquire().await?;
    let begun = tokio::spawn(PgTransaction::begin(connection, None).in_current_span());
    begun.await.map_err(|_| sqlx::Error::WorkerCrashed)?
}
