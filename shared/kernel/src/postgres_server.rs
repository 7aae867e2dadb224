//! Where Postgres is: a server by its address, or that of several hosts which takes writes (`docs/scaling.md#postgres`).
//!
//! - [`PostgresServer`] is what `DATABASE_URL` says.
//! - [`PostgresServer::find`] gives the server for one connection.
//! - [`PostgresServer::follow`] gives an address for pools that always leads to it.
//!
//! A library connects to one host, and waits for its answer without end. So pools connect to a socket of this process, and a relay behind
//! it to the server that takes writes. When another one does, or the server is silent, the relays end, and so do the statements that wait
//! on them: pools and statements need to know nothing of it. With one host on this machine nothing is in between.

mod relay;

use std::cmp::Reverse;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Error, PgConnection, PgPool, Row as _};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::relay::Relay;
use super::cause::causes;
use super::config::DatabaseSettings;
use super::pools;

/// How long a server may take to accept a session.
const CONNECTED: Duration = Duration::from_secs(2);

/// How long a server may take to say what it is. A busy one is not left.
const SILENT: Duration = Duration::from_secs(5);

/// The interval of asking each server what it is while none takes writes, and the least after a connection ended.
const LOOK_SOON: Duration = Duration::from_millis(250);

/// By how much it is longer while one does.
const PAUSE: Duration = Duration::from_millis(750);

/// Why there is no connection.
const NONE: &str = "no host of DATABASE_URL takes writes";

/// `DATABASE_URL` does not say where Postgres is. The message has no password.
#[derive(Debug, thiserror::Error)]
#[error("DATABASE_URL: {0}")]
pub struct InvalidUrl(String);

impl InvalidUrl {
    pub(super) fn because(why: &str) -> Self {
        Self(why.to_owned())
    }
}

/// Where Postgres is; cheap to clone.
#[derive(Clone, Debug)]
pub struct PostgresServer {
    hosts: Arc<[PgConnectOptions]>,
    /// Whether it matters which of them takes writes.
    is_primary: bool,
    /// Whether there is anything to choose, or to wait for.
    is_chosen: bool,
    /// Whether the hosts are poolers.
    is_pooled: bool,
}

/// What a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Primary {
        /// The cluster, as `initdb` named it.
        system_identifier: i64,
        /// Each promotion begins the next one.
        timeline: i32,
    },
    /// It takes none: it is a standby, or was told so.
    ReadOnly,
    /// It cannot be asked: why.
    Away(String),
}

impl PostgresServer {
    /// Reads the URL of settings.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(settings: &DatabaseSettings) -> Result<Self, InvalidUrl> {
        Ok(Self { is_pooled: settings.database_pooled, ..Self::parse(&settings.database_url)? })
    }

    /// Reads `DATABASE_URL`: `postgres://user:password@a:5432,b,c/name`, with `target_session_attrs` as of libpq.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let invalid = InvalidUrl::because;
        let (before, query) =
            url.split_once('?').map_or((url, None), |(before, query)| (before, Some(query)));
        let (scheme, rest) = before
            .split_once("://")
            .ok_or_else(|| invalid("must be postgres://user:password@host:port/name"))?;
        let (authority, name) =
            rest.split_once('/').map_or((rest, ""), |(authority, name)| (authority, name));
        let (login, hosts) = authority
            .rsplit_once('@')
            .map_or((String::new(), authority), |(login, hosts)| (format!("{login}@"), hosts));

        let mut wanted = None;
        let parameters = query.into_iter().flat_map(|query| query.split('&'));
        let parameters: Vec<_> = parameters
            .filter(|parameter| match parameter.strip_prefix("target_session_attrs=") {
                Some(value) => {
                    wanted = Some(value);
                    false
                }
                None => true,
            })
            .collect();
        let query = if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) };

        let hosts: Vec<_> = hosts.split(',').collect();
        let is_primary = match wanted {
            None => hosts.len() > 1,
            Some("any") => false,
            Some("read-write" | "primary") => true,
            Some(_) => return Err(invalid("`target_session_attrs` must be any, read-write or primary")),
        };
        let is_chosen = is_primary || hosts.len() > 1;
        let no_address =
            || invalid("each of several hosts must be a name or an address before the name of the database");
        let read = |host: &&str| {
            if is_chosen && host.is_empty() {
                return Err(no_address());
            }
            let options: PgConnectOptions = format!("{scheme}://{login}{host}/{name}{query}")
                .parse()
                .map_err(|error: Error| InvalidUrl(causes(&error).to_string()))?;
            let address = options.get_host().to_owned();
            if address.contains(',') {
                return Err(invalid(
                    "several hosts are listed before the name of the database: postgres://a,b/name",
                ));
            }
            let is_named = parameters.iter().any(|one| one.starts_with("host"));
            if is_chosen && (is_named || options.get_socket().is_some() || address.starts_with('/')) {
                return Err(no_address());
            }
            // as it is in a URL, an address of IPv6 is in brackets
            Ok(options.host(address.trim_matches(['[', ']'])))
        };
        let hosts = hosts.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { hosts, is_primary, is_chosen, is_pooled: false })
    }

    /// The server for one connection: where there is a choice, the one that takes writes now.
    ///
    /// # Errors
    /// If none does.
    pub async fn find(&self) -> Result<PgConnectOptions, Error> {
        if !self.is_chosen {
            return Ok(self.hosts[0].clone());
        }
        let roles = self.roles().await;
        match choose(&roles, None, None, self.is_primary) {
            Some(chosen) => Ok(self.hosts[chosen].clone()),
            None => Err(Error::Io(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("{NONE}: {}", self.describe(&roles)),
            ))),
        }
    }

    /// The server where there is one host.
    ///
    /// # Errors
    /// If there are several: a pooler does not choose, so each has one of its own.
    pub(super) fn only(&self) -> Result<&PgConnectOptions, InvalidUrl> {
        match &*self.hosts {
            [host] => Ok(host),
            _ => Err(InvalidUrl::because(
                "must name one host, that of the Postgres which the pooler is for: it chooses none",
            )),
        }
    }

    /// What each host is, in their order.
    pub async fn roles(&self) -> Vec<Role> {
        join_all((0..self.hosts.len()).map(async |at| self.ask(at, &mut None).await)).await
    }

    /// What a host is, by the session that is open; by a new one if that has ended.
    async fn ask(&self, at: usize, session: &mut Option<PgConnection>) -> Role {
        // a pooler has no database of the plain name
        let host = &self.hosts[at];
        if self.is_pooled { ask(&pools::PROBE.pooled(host), session).await } else { ask(host, session).await }
    }

    /// What each host is, for people.
    #[must_use]
    pub fn describe(&self, roles: &[Role]) -> String {
        let each = self.hosts.iter().zip(roles).map(|(host, role)| format!("{} {role}", address(host)));
        each.collect::<Vec<_>>().join("; ")
    }

    /// Whether one of several is chosen, or a standby is none.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// Options for pools, and the relay by which they lead to the server, if there is one ([`Self::lead`]).
    ///
    /// # Errors
    /// If this process can open no socket.
    pub(super) fn follow(&self) -> io::Result<(PgConnectOptions, Option<Relay>)> {
        let first = &self.hosts[0];
        if !self.is_chosen && is_near(first) {
            return Ok((first.clone(), None));
        }
        let hosts = self.hosts.iter().map(|host| (host.get_host().to_owned(), host.get_port()));
        let relay = Relay::open(hosts.collect())?;
        Ok((first.clone().socket(relay.folder()).port(relay::PORT), Some(relay)))
    }

    /// Leads pools of these options to the chosen server for as long as the value lives.
    pub(super) fn lead(self, relay: Relay, pools: Vec<PgPool>) -> JoinSet<()> {
        let chosen = watch::Sender::new((!self.is_chosen).then_some(0));
        let soon: Arc<[_]> = self.hosts.iter().map(|_| Notify::new()).collect();
        let mut tasks = JoinSet::new();
        tasks.spawn(relay.run(chosen.subscribe(), Arc::clone(&soon)));
        if self.is_chosen {
            tasks.spawn(watch_all(self, chosen, soon, pools));
        } else {
            // which stays so
            tasks.spawn(async move { chosen.closed().await });
        }
        tasks
    }
}

/// Whether it is on this machine, which has no cable that could be cut.
fn is_near(host: &PgConnectOptions) -> bool {
    let name = host.get_host();
    let is_socket = host.get_socket().is_some() || name.starts_with('/');
    is_socket || name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Keeps asking all servers, and chooses.
async fn watch_all(
    server: PostgresServer,
    chosen: watch::Sender<Option<usize>>,
    soon: Arc<[Notify]>,
    pools: Vec<PgPool>,
) {
    let roles = watch::Sender::new(vec![None; server.hosts.len()]);
    let mut tasks = JoinSet::new();
    for at in 0..server.hosts.len() {
        let (server, roles, chosen, soon) =
            (server.clone(), roles.clone(), chosen.subscribe(), Arc::clone(&soon));
        tasks.spawn(async move {
            let mut session = None;
            loop {
                let role = Some(server.ask(at, &mut session).await);
                roles.send_if_modified(|roles| std::mem::replace(&mut roles[at], role.clone()) != role);
                tokio::time::sleep(LOOK_SOON).await;
                if chosen.borrow().is_some() {
                    let _ = timeout(PAUSE, soon[at].notified()).await;
                }
            }
        });
    }
    let (mut roles, mut last, mut told) = (roles.subscribe(), None, None);
    while roles.changed().await.is_ok() {
        // one that answers first may be a former primary
        let all_asked: Option<Vec<Role>> = roles.borrow_and_update().iter().cloned().collect();
        let Some(now) = all_asked else { continue };
        let at = choose(&now, *chosen.borrow(), last.as_ref(), server.is_primary);
        if told.replace(at) == Some(at) {
            continue;
        }
        if let Some(at) = at {
            let host = &server.hosts[at];
            tracing::info!(server.address = address(host), "the host of Postgres {}", now[at]);
            last = Some(now[at].clone());
            // whose certificate they expect
            for pool in &pools {
                pool.set_connect_options((*pool.connect_options()).clone().host(host.get_host()));
            }
        } else {
            tracing::warn!("{NONE}: {}", server.describe(&now));
        }
        chosen.send_replace(at);
    }
}

/// The server to use: of those that say they take writes, the one that was promoted last. Where it need not take writes, the one that is
/// in use serves until it is away. `last` is what was chosen last: a former primary that others cannot see does not serve again.
fn choose(roles: &[Role], current: Option<usize>, last: Option<&Role>, is_primary: bool) -> Option<usize> {
    let is_away = |at: usize| matches!(roles[at], Role::Away(_));
    if let Some(current) = current.filter(|at| !is_primary && !is_away(*at)) {
        return Some(current);
    }
    (0..roles.len())
        .filter(|at| roles[*at].timeline().is_some() && !roles[*at].is_before(last))
        .max_by_key(|at| (roles[*at].timeline(), Some(*at) == current, Reverse(*at)))
        .or_else(|| (0..roles.len()).find(|at| !is_primary && !is_away(*at)))
}

impl Role {
    fn timeline(&self) -> Option<i32> {
        match self {
            Self::Primary { timeline, .. } => Some(*timeline),
            _ => None,
        }
    }

    /// Whether it is of the same cluster as another one, from before a promotion of that.
    fn is_before(&self, other: Option<&Self>) -> bool {
        match (self, other) {
            (
                Self::Primary { system_identifier, timeline },
                Some(Self::Primary { system_identifier: other, timeline: later }),
            ) => system_identifier == other && timeline < later,
            _ => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary { timeline, .. } => write!(f, "takes writes (timeline {timeline})"),
            Self::ReadOnly => f.write_str("takes no writes"),
            Self::Away(why) => write!(f, "cannot be asked: {why}"),
        }
    }
}

async fn ask(host: &PgConnectOptions, session: &mut Option<PgConnection>) -> Role {
    if let Some(mut open) = session.take() {
        match timeout(SILENT, role(&mut open)).await {
            Ok(Ok(role)) => {
                *session = Some(open);
                return role;
            }
            Ok(Err(_)) => {}
            Err(_) => return Role::Away("no answer".to_owned()),
        }
    }
    let connect = async {
        let mut new = timeout(CONNECTED, host.connect()).await.map_err(|_| Error::PoolTimedOut)??;
        let role = timeout(SILENT, role(&mut new)).await.map_err(|_| Error::PoolTimedOut)??;
        Ok::<_, Error>((new, role))
    };
    match connect.await {
        Ok((new, role)) => {
            *session = Some(new);
            role
        }
        Err(Error::PoolTimedOut) => Role::Away("no answer".to_owned()),
        Err(error) => Role::Away(causes(&error).to_string()),
    }
}

async fn role(session: &mut PgConnection) -> Result<Role, Error> {
    // not prepared: a pooler may lose what is
    let found = sqlx::raw_sql(
        "SELECT system_identifier,
                CASE WHEN current_setting('transaction_read_only') = 'off'
                     THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END
         FROM pg_control_system()",
    );
    let found = found.fetch_one(session).await?;
    let (system_identifier, timeline): (i64, Option<i32>) = (found.try_get(0)?, found.try_get(1)?);
    Ok(timeline.map_or(Role::ReadOnly, |timeline| Role::Primary { system_identifier, timeline }))
}

fn address(host: &PgConnectOptions) -> String {
    format!("{}:{}", host.get_host(), host.get_port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Vec<(String, u16)> {
        let server = PostgresServer::parse(url).unwrap();
        server.hosts.iter().map(|host| (host.get_host().to_owned(), host.get_port())).collect()
    }

    fn refused(url: &str) -> String {
        PostgresServer::parse(url).unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_url_names_one_host_or_several() {
        for (url, expected) in [
            ("postgres://u:p@a/d", vec![("a", 5432)]),
            ("postgres://u:p,q@a:1,b,[::1]:3/d?sslmode=require", vec![("a", 1), ("b", 5432), ("::1", 3)]),
            ("postgresql://a,b", vec![("a", 5432), ("b", 5432)]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(host, port)| (host.to_owned(), port)).collect();
            assert_eq!(hosts(url), expected, "{url}");
        }
        let server =
            PostgresServer::parse("postgres://u@a,b/d?application_name=x&target_session_attrs=any").unwrap();
        assert_eq!(server.hosts[1].get_application_name(), Some("x"));
        assert_eq!(server.hosts[1].get_database(), Some("d"));
        assert_eq!((server.is_primary, server.is_chosen), (false, true));
        let chosen =
            |url| PostgresServer::parse(url).map(|server| (server.is_primary, server.is_chosen)).unwrap();
        assert_eq!(chosen("postgres://a,b/d"), (true, true));
        assert_eq!(chosen("postgres://a/d"), (false, false));
        assert_eq!(chosen("postgres://a/d?target_session_attrs=read-write"), (true, true));
        let is_relayed = |url| PostgresServer::parse(url).unwrap().follow().unwrap().1.is_some();
        for (url, expected) in [
            ("postgres://a/d", true),
            ("postgres://10.0.0.1/d", true),
            ("postgres://localhost/d", false),
            ("postgres://[::1]/d", false),
            ("postgres:///d?host=/run/postgresql", false),
            ("postgres://127.0.0.1/d?target_session_attrs=read-write", true),
        ] {
            assert_eq!(is_relayed(url), expected, "{url}");
        }
        // a socket in a folder, where there is nothing to choose
        assert_eq!(chosen("postgres:///d?host=/run/postgresql"), (false, false));
    }

    #[test]
    fn what_is_wrong_in_a_url_is_named_without_the_password() {
        for (url, named) in [
            ("localhost", "must be postgres://"),
            ("postgres://u:secret@a,b/d?target_session_attrs=standby", "must be any, read-write or primary"),
            ("postgres://u:secret@a,,b/d", "each of several hosts"),
            ("postgres://u:secret@a,b/d?host=/run", "each of several hosts"),
            ("postgres://u:secret@a,b/d?host=c", "each of several hosts"),
            ("postgres:///d?user=u&password=secret&host=a,b", "before the name of the database"),
            ("postgres://u:secret@a:port/d", "port"),
        ] {
            let refused = refused(url);
            assert!(refused.contains(named) && !refused.contains("secret"), "{url}: {refused}");
        }
    }

    #[test]
    fn the_primary_that_was_promoted_last_is_chosen_and_a_former_one_never() {
        let away = || Role::Away(String::new());
        let primary = |system_identifier, timeline| Role::Primary { system_identifier, timeline };
        let last = primary(1, 2);
        for (roles, current, last, expected) in [
            (vec![Role::ReadOnly, away()], None, None, None),
            (vec![primary(1, 2), primary(1, 3)], Some(0), Some(&last), Some(1)),
            (vec![primary(1, 2), primary(1, 2)], Some(1), Some(&last), Some(1)),
            (vec![primary(1, 1), away()], Some(1), Some(&last), None),
            // another cluster, such as one that was restored
            (vec![primary(2, 1), away()], Some(1), Some(&last), Some(0)),
            (vec![away(), away()], Some(1), Some(&last), None),
        ] {
            assert_eq!(choose(&roles, current, last, true), expected, "{roles:?}");
        }
        assert_eq!(choose(&[Role::ReadOnly, primary(1, 1)], None, None, false), Some(1));
        assert_eq!(choose(&[Role::ReadOnly, primary(1, 1)], Some(0), None, false), Some(0));
        assert_eq!(choose(&[away(), Role::ReadOnly], Some(0), None, false), Some(1));
    }
}
