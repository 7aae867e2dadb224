//! Sentinels, which say what server is the master: `redis+sentinel://user:password@a:26379,b,c/name?sentinelPassword=…&db=0`.
//!
//! One that is cut off from the others may name a master that is one no longer. So a server is believed if most of them name it, two at
//! least, and it says itself that it is the master.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo as _,
    RedisConnectionInfo, RedisError, RedisResult,
};
use tokio::sync::watch;
use tokio::time::timeout;
use url::Url;

use super::{InvalidUrl, LOOK_AGAIN, RedisConnection, RedisServer, careful};

/// How long a Sentinel may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The port of Sentinels.
const PORT: u16 = 26_379;

/// How many Sentinels there must be.
const LEAST: usize = 2;

/// The master that Sentinels named last.
pub(super) type Named = watch::Receiver<Option<ConnectionAddr>>;

/// Sentinels, and the master that they watch.
pub(super) struct Sentinels(Arc<Watching>);

struct Watching {
    sentinels: Vec<RedisConnection>,
    name: String,
    master: ConnectionInfo,
    named: watch::Sender<Option<ConnectionAddr>>,
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
            let address = careful(address.into_connection_info()?);
            Ok(RedisServer::from(Client::open(address.set_redis_settings(sentinel.clone()))?)
                .shared(config.clone()))
        });
        let sentinels = sentinels.collect::<Result<Vec<_>, InvalidUrl>>()?;
        if sentinels.len() < LEAST {
            return Err(InvalidUrl::from("must name at least two Sentinels, since two must agree"));
        }
        let mut without_path = master;
        without_path.set_path("");
        without_path.set_query(None);
        let master = careful(without_path.into_connection_info()?);
        let settings = master.redis_settings().clone().set_db(db);
        let master = master.set_redis_settings(settings);
        let named = watch::Sender::new(None);
        let watching = Arc::new(Watching { sentinels, name, master, named });
        tokio::spawn(look_again(Arc::downgrade(&watching)));
        Ok(Self(watching))
    }

    pub(super) fn db(&self) -> i64 {
        self.0.master.redis_settings().db()
    }

    /// The master, as it is named from time to time.
    pub(super) fn named(&self) -> Named {
        self.0.named.subscribe()
    }

    /// The master that most Sentinels name now.
    pub(super) async fn master(&self) -> RedisResult<ConnectionAddr> {
        self.0.ask().await
    }

    /// Connects to a server that says itself that it is the master.
    pub(super) async fn connect(
        &self,
        address: &ConnectionAddr,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let of = |error: RedisError| {
            let what = "the master that Sentinels name was not reached";
            RedisError::from((ErrorKind::Io, what, format!("{address}: {error}")))
        };
        let client = Client::open(self.0.master.clone().set_addr(address.clone()))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(config).await.map_err(of)?;
        let info: String =
            redis::cmd("INFO").arg("replication").query_async(&mut connection).await.map_err(of)?;
        if info.lines().any(|line| line.trim_end() == "role:master") {
            return Ok(connection);
        }
        let what = "the server that Sentinels name as the master says that it is none";
        Err(RedisError::from((ErrorKind::Io, what, address.to_string())))
    }
}

/// Asks for the master as long as somebody wants to know it.
async fn look_again(watching: Weak<Watching>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(watching) = watching.upgrade() else { return };
        // those who connect say why not
        let _ = watching.ask().await;
    }
}

impl Watching {
    async fn ask(&self) -> RedisResult<ConnectionAddr> {
        let most = self.sentinels.len() / 2 + 1;
        let mut answers: FuturesUnordered<_> = self.sentinels.iter().map(|one| self.named_by(one)).collect();
        let (mut named, mut why): (Vec<(String, u16)>, _) = (Vec::new(), String::new());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(address) => named.push(address),
                Err(reason) => why = format!("; one of the others: {reason}"),
            }
            let Some(last) = named.last() else { continue };
            if named.iter().filter(|other| *other == last).count() >= most {
                let (host, port) = last.clone();
                let address = match self.master.addr() {
                    ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                        let (insecure, tls_params) = (*insecure, tls_params.clone());
                        ConnectionAddr::TcpTls { host, port, insecure, tls_params }
                    }
                    _ => ConnectionAddr::Tcp(host, port),
                };
                self.named
                    .send_if_modified(|known| known.replace(address.clone()).as_ref() != Some(&address));
                return Ok(address);
            }
        }
        let found = format!("of {}, {} name one{why}", self.sentinels.len(), named.len());
        Err(RedisError::from((ErrorKind::Io, "no majority of the Sentinels names the same master", found)))
    }

    /// What a Sentinel says, or why it says nothing.
    async fn named_by(&self, sentinel: &RedisConnection) -> Result<(String, u16), String> {
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let mut sentinel = sentinel.clone();
        match timeout(PATIENCE * 2, ask.query_async::<Option<(String, u16)>>(&mut sentinel)).await {
            Ok(Ok(Some(address))) => Ok(address),
            Ok(Ok(None)) => Err(format!("knows no master of the name {}", self.name)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        }
    }
}
