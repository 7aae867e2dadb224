//! Where Redis is, and the connections to it: a server by its address, or the one that Sentinels name
//! (`docs/scaling.md#redis`).
//!
//! - [`RedisServer`] is what `REDIS_URL` says.
//! - [`RedisServer::shared`] gives a connection for commands that do not block. It is cheap to clone, connects when first used, and
//!   again whenever the connection is lost.
//! - [`RedisServer::connect`] gives a connection of one's own, for commands that block; who has it connects again.
//!
//! Behind Sentinels a connection is left as soon as the server says that it is no master, or has no replica, and within a second of
//! the moment at which they name another one. What was lost with it is found in Postgres: see [`queue`](crate::queue).

mod sentinel;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, Pipeline, RedisError, RedisFuture, RedisResult, Value,
};

use self::sentinel::Sentinels;

/// The pause before the second attempt to connect; then those who wait are told, and the next command tries again.
const PAUSE: Duration = Duration::from_millis(100);

/// The interval of asking whether the master is still the same.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why Redis Cluster is refused.
pub const NO_CLUSTER: &str =
    "Redis Cluster is not supported: all keys of a queue are in one slot, so that it would scale nothing";

/// What a master says that takes no writes: it became a replica, has too few replicas, or still reads its data.
const LEFT: [&str; 4] = ["READONLY", "NOREPLICAS", "LOADING", "MASTERDOWN"];

/// Where Redis is; cheap to clone.
#[derive(Clone)]
pub struct RedisServer(Arc<Place>);

enum Place {
    At(Client),
    Behind(Sentinels),
}

impl From<Client> for RedisServer {
    fn from(client: Client) -> Self {
        Self(Arc::new(Place::At(client)))
    }
}

/// `REDIS_URL` does not say where Redis is.
#[derive(Debug, thiserror::Error)]
#[error("REDIS_URL: {0}")]
pub struct InvalidUrl(String);

impl From<&str> for InvalidUrl {
    fn from(what: &str) -> Self {
        Self(what.to_owned())
    }
}

impl From<RedisError> for InvalidUrl {
    fn from(error: RedisError) -> Self {
        Self(error.to_string())
    }
}

/// A connection, and where it leads.
#[derive(Clone)]
struct Connected {
    address: ConnectionAddr,
    connection: MultiplexedConnection,
}

type Connecting = Shared<BoxFuture<'static, RedisResult<Connected>>>;

/// A connection that many share.
#[derive(Clone)]
pub struct RedisConnection(Arc<Held>);

struct Held {
    server: RedisServer,
    config: AsyncConnectionConfig,
    current: Mutex<Connecting>,
}

impl RedisServer {
    /// Reads `REDIS_URL`.
    ///
    /// # Errors
    /// If it is none. The message has no password.
    pub fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let scheme = url.split("://").next().unwrap_or_default();
        if scheme.contains("cluster") {
            return Err(NO_CLUSTER.into());
        }
        let place = match scheme {
            "redis+sentinel" | "rediss+sentinel" => Place::Behind(Sentinels::parse(url)?),
            _ => Place::At(Client::open(url)?),
        };
        Ok(Self(Arc::new(place)))
    }

    /// A connection of one's own.
    ///
    /// # Errors
    /// If Redis is away, or no server is the master.
    pub async fn connect(&self, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        Ok(self.connected(config).await?.connection)
    }

    /// Where it is at this moment, without a login.
    ///
    /// # Errors
    /// If the Sentinels do not say.
    pub async fn address(&self) -> RedisResult<ConnectionAddr> {
        match &*self.0 {
            Place::At(client) => Ok(client.get_connection_info().addr().clone()),
            Place::Behind(sentinels) => sentinels.master().await,
        }
    }

    /// Whether Sentinels say where it is.
    #[must_use]
    pub fn has_sentinels(&self) -> bool {
        matches!(*self.0, Place::Behind(_))
    }

    /// A connection that many share; must be called within a tokio runtime.
    #[must_use]
    pub fn shared(&self, config: AsyncConnectionConfig) -> RedisConnection {
        let current = Mutex::new(connecting(self.clone(), config.clone()));
        let held = Arc::new(Held { server: self.clone(), config, current });
        if self.has_sentinels() {
            tokio::spawn(leave_former(Arc::downgrade(&held)));
        }
        RedisConnection(held)
    }

    async fn connected(&self, config: &AsyncConnectionConfig) -> RedisResult<Connected> {
        let address = self.address().await?;
        let connection = match &*self.0 {
            Place::At(client) => client.get_multiplexed_async_connection_with_config(config).await?,
            Place::Behind(sentinels) => sentinels.connect(&address, config).await?,
        };
        Ok(Connected { address, connection })
    }
}

/// Connects, in at most two attempts.
fn connecting(server: RedisServer, config: AsyncConnectionConfig) -> Connecting {
    let connect = async move {
        if let Ok(connected) = server.connected(&config).await {
            return Ok(connected);
        }
        tokio::time::sleep(PAUSE).await;
        server.connected(&config).await
    };
    connect.boxed().shared()
}

/// Leaves a connection within seconds of the moment at which its server is no longer the master, whatever that still answers.
async fn leave_former(held: Weak<Held>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(held) = held.upgrade() else { return };
        let current = held.current();
        let Some(Ok(connected)) = current.peek() else { continue };
        if held.server.address().await.is_ok_and(|address| address != connected.address) {
            held.leave(&current);
        }
    }
}

impl Held {
    fn current(&self) -> Connecting {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects again, unless somebody else has begun to.
    fn leave(&self, left: &Connecting) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.ptr_eq(left) {
            return;
        }
        *current = connecting(self.server.clone(), self.config.clone());
        // at once, and not only when the next command comes
        tokio::spawn(current.clone());
    }
}

impl RedisConnection {
    /// What `ask` makes of the connection.
    async fn with<T>(
        &self,
        ask: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let held = &self.0;
        let current = held.current();
        let asked = match current.clone().await {
            Ok(mut connected) => ask(&mut connected.connection).await,
            Err(error) => {
                held.leave(&current);
                return Err(error);
            }
        };
        if let Err(error) = &asked
            && (error.is_unrecoverable_error()
                || held.server.has_sentinels() && error.code().is_some_and(|code| LEFT.contains(&code)))
        {
            held.leave(&current);
        }
        asked
    }
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.with(async |connection| connection.req_packed_command(cmd).await).boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.with(async move |connection| connection.req_packed_commands(pipeline, offset, count).await)
            .boxed()
    }

    fn get_db(&self) -> i64 {
        match &*self.0.server.0 {
            Place::At(client) => client.get_connection_info().redis_settings().db(),
            Place::Behind(sentinels) => sentinels.db(),
        }
    }
}

// neither shows the address, which may hold a password
impl std::fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisServer").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConnection").finish_non_exhaustive()
    }
}
