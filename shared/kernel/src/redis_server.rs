//! Where Redis is, and the connections to it: a server by its address, or the one that Sentinels name
//! (`docs/scaling.md#redis`).
//!
//! - [`RedisServer`] is what `REDIS_URL` says.
//! - [`RedisServer::shared`] gives a connection for commands that do not block. It is cheap to clone, connects when first used, and
//!   again whenever the connection is lost.
//! - [`RedisServer::connect`] gives a connection of one's own, for commands that block; who has it connects again.
//!
//! Behind Sentinels a connection ends within a second of the moment at which most of them name another master, also while a command
//! waits on it. What was lost with it is found in Postgres: see [`queue`](crate::queue).

mod sentinel;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, Pipeline,
    RedisError, RedisFuture, RedisResult, Value,
};

use self::sentinel::{Named, Sentinels};
use super::outage::UNACKNOWLEDGED;

/// The pause before the second attempt to connect; then those who wait are told, and the next command tries again.
const PAUSE: Duration = Duration::from_millis(100);

/// The interval of asking Sentinels for the master, and the least time that a connection is kept to a server that takes no writes.
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
    At(Box<Client>),
    Behind(Sentinels),
}

impl From<Client> for RedisServer {
    fn from(client: Client) -> Self {
        Self(Arc::new(Place::At(Box::new(client))))
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

/// A connection to a server. Behind Sentinels it ends when they name another one: a command that waits on it fails then.
#[derive(Clone)]
pub struct RedisLink {
    connection: MultiplexedConnection,
    address: ConnectionAddr,
    /// The master, as Sentinels name it.
    named: Option<Named>,
    since: Instant,
}

type Connecting = Shared<BoxFuture<'static, RedisResult<RedisLink>>>;

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
            _ => Place::At(Box::new(Client::open(careful(url.into_connection_info()?))?)),
        };
        Ok(Self(Arc::new(place)))
    }

    /// A connection of one's own.
    ///
    /// # Errors
    /// If Redis is away, or no server is the master.
    pub async fn connect(&self, config: &AsyncConnectionConfig) -> RedisResult<RedisLink> {
        let (address, named, connection) = match &*self.0 {
            Place::At(client) => {
                let connection = client.get_multiplexed_async_connection_with_config(config).await?;
                (client.get_connection_info().addr().clone(), None, connection)
            }
            Place::Behind(sentinels) => {
                let address = sentinels.master().await?;
                let connection = sentinels.connect(&address, config).await?;
                (address, Some(sentinels.named()), connection)
            }
        };
        Ok(RedisLink { connection, address, named, since: Instant::now() })
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

    /// A connection that many share.
    #[must_use]
    pub fn shared(&self, config: AsyncConnectionConfig) -> RedisConnection {
        let current = Mutex::new(connecting(self.clone(), config.clone()));
        RedisConnection(Arc::new(Held { server: self.clone(), config, current }))
    }
}

/// The same, ended by the kernel where the other side is silent.
fn careful(info: ConnectionInfo) -> ConnectionInfo {
    info.set_tcp_settings(TcpSettings::default().set_user_timeout(UNACKNOWLEDGED))
}

/// Connects, in at most two attempts.
fn connecting(server: RedisServer, config: AsyncConnectionConfig) -> Connecting {
    let connect = async move {
        if let Ok(link) = server.connect(&config).await {
            return Ok(link);
        }
        tokio::time::sleep(PAUSE).await;
        server.connect(&config).await
    };
    connect.boxed().shared()
}

impl RedisLink {
    /// Whether Sentinels name another server by now.
    fn is_former(&self) -> bool {
        self.named.as_ref().is_some_and(|named| is_other(named.borrow().as_ref(), &self.address))
    }

    /// What `ask` makes of the connection, unless Sentinels name another server before.
    async fn with<T>(
        &mut self,
        ask: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let Some(named) = &mut self.named else { return ask(&mut self.connection).await };
        let left = async {
            if named.wait_for(|named| is_other(named.as_ref(), &self.address)).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            asked = ask(&mut self.connection) => asked,
            () = left => Err(io::Error::new(io::ErrorKind::ConnectionReset, "another server is the master").into()),
        }
    }
}

fn is_other(named: Option<&ConnectionAddr>, address: &ConnectionAddr) -> bool {
    named.is_some_and(|named| named != address)
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
    /// What `ask` makes of the connection; `refuses` is whether the server says by it that it takes no writes.
    async fn with<T>(
        &self,
        ask: impl AsyncFnOnce(&mut RedisLink) -> RedisResult<T>,
        refuses: impl FnOnce(&T) -> bool,
    ) -> RedisResult<T> {
        let held = &self.0;
        let mut current = held.current();
        // what failed before is tried again, and what leads to a former master is not asked
        if current.peek().is_some_and(|link| link.as_ref().map_or(true, RedisLink::is_former)) {
            held.leave(&current);
            current = held.current();
        }
        let mut link = current.clone().await.inspect_err(|_| held.leave(&current))?;
        let asked = ask(&mut link).await;
        let is_over = match &asked {
            Ok(answer) => refuses(answer) && link.since.elapsed() >= LOOK_AGAIN,
            Err(error) => error.is_unrecoverable_error(),
        };
        if is_over {
            held.leave(&current);
        }
        asked
    }
}

/// Whether a server says that it takes no writes: a library returns that as a value.
fn refuses_writes(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if LEFT.contains(&error.code()))
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.with(async |link| link.req_packed_command(cmd).await, refuses_writes).boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let refuse = |answers: &Vec<Value>| answers.iter().any(refuses_writes);
        self.with(async move |link| link.req_packed_commands(pipeline, offset, count).await, refuse).boxed()
    }

    fn get_db(&self) -> i64 {
        match &*self.0.server.0 {
            Place::At(client) => client.get_connection_info().redis_settings().db(),
            Place::Behind(sentinels) => sentinels.db(),
        }
    }
}

impl ConnectionLike for RedisLink {
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
        self.connection.get_db()
    }
}

// none shows what may hold a password
impl std::fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisServer").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RedisLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisLink").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConnection").finish_non_exhaustive()
    }
}
