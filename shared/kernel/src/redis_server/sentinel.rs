//! Sentinels, which say what server is the master: `redis+sentinel://user:password@a:26379,b,c/name?sentinelPassword=…&db=0`.
//!
//! One that is cut off from the others may name a master that is one no longer. So a server is believed if two of them name it and it
//! says itself that it is the master.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo as _,
    RedisConnectionInfo, RedisError, RedisResult,
};
use tokio::time::timeout;
use url::Url;

use super::{InvalidUrl, RedisConnection, RedisServer};

/// How long a Sentinel may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The port of Sentinels.
const PORT: u16 = 26_379;

/// How many Sentinels must name the same master.
const AGREE: usize = 2;

/// Sentinels, and the master that they watch.
pub(super) struct Sentinels {
    sentinels: Vec<RedisConnection>,
    name: String,
    master: ConnectionInfo,
}

impl Sentinels {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidUrl> {
        const FORM: &str = "must be redis+sentinel://a:26379,b:26379,c:26379/name";
        let (scheme, rest) = text.split_once("://").ok_or_else(|| InvalidUrl::from(FORM))?;
        let (authority, path) = rest.split_once('/').ok_or_else(|| InvalidUrl::from(FORM))?;
        let (login, hosts) =
            authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
        let scheme = scheme.trim_end_matches("+sentinel");
        // one URL a server, each of which a library reads
        let read = |login: &str, host: &str, path: &str| {
            let login = if login.is_empty() { String::new() } else { format!("{login}@") };
            Url::parse(&format!("{scheme}://{login}{host}/{path}")).map_err(|_| InvalidUrl::from(FORM))
        };
        let master = read(login, "master", path)?;
        let name = master.path().trim_matches('/').to_owned();
        if name.is_empty() || name.contains('/') {
            return Err(InvalidUrl::from(FORM));
        }
        let (mut db, mut sentinel) = (0, RedisConnectionInfo::default());
        for (key, value) in master.query_pairs() {
            match &*key {
                "db" => db = value.parse().map_err(|_| InvalidUrl::from("`db` must be a number"))?,
                "sentinelUsername" => sentinel = sentinel.set_username(&*value),
                "sentinelPassword" => sentinel = sentinel.set_password(&*value),
                _ => {
                    return Err(InvalidUrl::from(
                        "knows the parameters `db`, `sentinelUsername` and `sentinelPassword` only",
                    ));
                }
            }
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let sentinels = hosts.split(',').map(|host| {
            let url = read("", host, "")?;
            let host =
                url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| InvalidUrl::from(FORM))?;
            let address = format!("{scheme}://{}:{}", host, url.port().unwrap_or(PORT));
            let client = Client::open(address.into_connection_info()?.set_redis_settings(sentinel.clone()))?;
            Ok(RedisServer::from(client).shared(config.clone()))
        });
        let sentinels = sentinels.collect::<Result<Vec<_>, InvalidUrl>>()?;
        if sentinels.len() < AGREE {
            return Err(InvalidUrl::from("must name at least two Sentinels, since two must agree"));
        }
        let mut without_path = master;
        without_path.set_path("");
        without_path.set_query(None);
        let master = without_path.into_connection_info()?;
        let settings = master.redis_settings().clone().set_db(db);
        Ok(Self { sentinels, name, master: master.set_redis_settings(settings) })
    }

    pub(super) fn db(&self) -> i64 {
        self.master.redis_settings().db()
    }

    /// The address that two Sentinels name.
    pub(super) async fn master(&self) -> RedisResult<ConnectionAddr> {
        let mut answers: FuturesUnordered<_> = self.sentinels.iter().map(|one| self.named_by(one)).collect();
        let mut named: Vec<(String, u16)> = Vec::new();
        while let Some(answer) = answers.next().await {
            let Some(address) = answer else { continue };
            let others = named.iter().filter(|other| **other == address).count();
            if others + 1 >= AGREE {
                let (host, port) = address;
                return Ok(match self.master.addr() {
                    ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                        let (insecure, tls_params) = (*insecure, tls_params.clone());
                        ConnectionAddr::TcpTls { host, port, insecure, tls_params }
                    }
                    _ => ConnectionAddr::Tcp(host, port),
                });
            }
            named.push(address);
        }
        let found = format!("of {}, {} name one", self.sentinels.len(), named.len());
        Err(RedisError::from((ErrorKind::Io, "no two Sentinels name the same master", found)))
    }

    /// What a Sentinel says; nothing: it does not answer, or does not know the name.
    async fn named_by(&self, sentinel: &RedisConnection) -> Option<(String, u16)> {
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let mut sentinel = sentinel.clone();
        timeout(PATIENCE, ask.query_async(&mut sentinel)).await.ok()?.ok()?
    }

    /// Connects to a server that says itself that it is the master.
    pub(super) async fn connect(
        &self,
        address: &ConnectionAddr,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let client = Client::open(self.master.clone().set_addr(address.clone()))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(config).await?;
        let info: String = redis::cmd("INFO").arg("replication").query_async(&mut connection).await?;
        if info.lines().any(|line| line.trim_end() == "role:master") {
            return Ok(connection);
        }
        Err(RedisError::from((
            ErrorKind::Io,
            "the server that Sentinels name as the master says that it is none",
        )))
    }
}
