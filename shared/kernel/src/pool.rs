//! A pool of connections to Postgres with a share for each caller ([`share`](super::share)).
//!
//! A request ([`Asker`]) waits for a place before it takes a connection from the pool, and keeps the place until the connection
//! is back in the pool, even if the request was aborted and Postgres still works for it. Callers without a request need no
//! place.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Database, Describe, Either, Error, Execute, Executor, PgConnection, PgPool, Postgres, SqlStr};
use sqlx_core::transaction::TransactionManager as _;
use tracing::Instrument as _;

use super::share::{Asker, Grant, Holding, Ledger, PATIENCE, Refusal};
use super::standby::Standby;

type Transactions = <Postgres as Database>::TransactionManager;

/// Begins a transaction that waits for a lock for a tenth of a second ([`Pool::transaction`]).
pub const BEGIN_BRIEF: &str = "BEGIN; SET LOCAL lock_timeout = '100ms'";

/// A connection that is given back answers so soon.
const GRACE: Duration = Duration::from_millis(100);

/// A pool with shares; cheap to clone. What takes a [`PgPool`] takes connections of it without a share.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: PgPool,
    places: Ledger,
    standby: Standby,
}

impl Deref for Pool {
    type Target = PgPool;

    fn deref(&self) -> &PgPool {
        &self.inner
    }
}

impl Pool {
    /// A pool whose connections are called `what`; a caller may have up to `times` as many as are free.
    pub(super) fn new(pool: PgPool, what: &'static str, times: u64, standby: Standby) -> Self {
        let size = u64::from(pool.options().get_max_connections());
        Self { inner: pool, places: Ledger::new(what, size, times), standby }
    }

    /// The same pool for what is done for no request.
    #[must_use]
    pub fn of_work(&self) -> PgPool {
        self.inner.clone()
    }

    /// The commits that wait for a standby.
    #[must_use]
    pub fn standby(&self) -> &Standby {
        &self.standby
    }

    /// The connections of each caller.
    #[must_use]
    pub fn places(&self) -> &Ledger {
        &self.places
    }

    /// A connection.
    ///
    /// # Errors
    /// A [`Refusal`] where the share of the running request, or the pool, is used up; those of [`PgPool::acquire`].
    pub async fn acquire(&self) -> Result<Held, Error> {
        let asker = Asker::current();
        let _waiting = asker.as_ref().map(Asker::begins_to_wait);
        let (place, patience) = match &asker {
            None => (None, PATIENCE),
            Some(asker) => {
                asker.must_have_read()?;
                (Some(asker.wait(&self.places).await?), asker.patience())
            }
        };
        match tokio::time::timeout(patience, self.inner.acquire()).await {
            Ok(Ok(connection)) => {
                Ok(Held { connection, place, holding: None, standby: self.standby.clone() })
            }
            Ok(Err(Error::PoolTimedOut)) | Err(_) => Err(self.full()),
            Ok(Err(error)) => Err(error),
        }
    }

    /// A connection for one statement. Others of the same request may wait for its end; for that of a transaction, which might wait for
    /// them, they do not.
    async fn for_statement(&self) -> Result<Held, Error> {
        let mut held = self.acquire().await?;
        held.holding = Asker::current().map(|asker| asker.holds(&self.places));
        Ok(held)
    }

    /// No connection was returned in time; or, if the pool could grow, Postgres opens none.
    fn full(&self) -> Error {
        let all = self.inner.options().get_max_connections();
        if self.inner.size() >= all && self.inner.num_idle() == 0 {
            Refusal::Full(self.places.what()).into()
        } else {
            Error::PoolTimedOut
        }
    }

    /// Begins a transaction, which is how all of them begin; `statement` where it is no plain `BEGIN`.
    ///
    /// `BEGIN` always runs to its end, even if its caller is gone (a client disconnected, a request took too long), and the
    /// transaction is then rolled back, for the reason that [`begin`](super::database::begin) gives.
    ///
    /// # Errors
    /// As of [`Self::acquire`].
    pub async fn transaction(&self, statement: Option<&'static str>) -> Result<Transaction, Error> {
        // a caller that gives up waiting for a connection leaves no waiting entry
        let mut held = self.acquire().await?;
        let begin = async move {
            Transactions::begin(&mut held, statement.map(SqlStr::from_static)).await?;
            Ok(Transaction(held))
        };
        tokio::spawn(begin.in_current_span()).await.map_err(|_| Error::WorkerCrashed)?
    }
}

/// A connection, with the place that its holder has.
pub struct Held {
    connection: PoolConnection<Postgres>,
    place: Option<Grant>,
    holding: Option<Holding>,
    standby: Standby,
}

impl Deref for Held {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let (place, holding) = (self.place.take(), self.holding.take());
        // What was begun and not committed is rolled back on its way; a statement that still runs is waited for. What the
        // process ends with is Postgres' to undo.
        if Transactions::get_transaction_depth(&self.connection) > 0 {
            Transactions::start_rollback(&mut self.connection);
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // it is large, and would be copied on its way
            let (back, standby) = (Box::pin(self.connection.return_to_pool()), self.standby.clone());
            runtime.spawn(async move {
                let is_stuck = async {
                    tokio::time::sleep(GRACE).await;
                    standby.is_behind().await;
                };
                // a commit that waits for a standby is ended by no time limit, and reads need its connection, which is closed
                tokio::select! {
                    biased;
                    () = back => {}
                    () = is_stuck => {}
                }
                drop((place, holding));
            });
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("place", &self.place).finish_non_exhaustive()
    }
}

/// A transaction, which is undone unless it is committed.
#[derive(Debug)]
pub struct Transaction(Held);

impl Transaction {
    /// Keeps what was done.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn commit(mut self) -> Result<(), Error> {
        Transactions::commit(&mut self.0).await
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}

impl<'p> Executor<'p> for &'_ Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
    where
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        let all = async move {
            let mut held = pool.for_statement().await?;
            let found: Vec<_> = held.fetch_many(query).collect().await;
            Ok::<_, Error>(stream::iter(found))
        };
        stream::once(all).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        Box::pin(async move { pool.for_statement().await?.fetch_optional(query).await })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move { pool.for_statement().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move { pool.for_statement().await?.describe(sql).await })
    }
}
