//! A pooler (PgBouncer) between the service and Postgres (`docs/scaling.md#poolers`).
//!
//! A session of Postgres then serves many connections, a transaction at a time. So a connection can set nothing that lasts, and what it
//! prepared may be elsewhere. A pooler that is told how gives each session the settings of its [`pools`], and
//! prepares a statement wherever it is needed; one that is not told so loses both, and says nothing.
//!
//! - [`file()`] is what it must be told.
//! - [`examine`] tries whether it does.
//! - [`Pooler`] does so for the pools of a process: at the start, each minute, and as long as something is lost. A pool that loses something
//!   gets no connection, and the process is not ready.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgSeverity, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Error, PgConnection, PgPool, Row as _, Transaction};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::cause::causes;
use super::config::DatabaseSettings;
use super::ids;
use super::pools::{self, Kind};
use super::postgres_server::{InvalidUrl, PostgresServer};
use super::share;

/// Statements that a session of Postgres may have prepared: more than the service has, so that none is prepared again and again.
pub const PREPARED: usize = 1_500;

/// Processes for which the file has room.
const PROCESSES: u32 = 20;

/// How long it is believed that a pool loses nothing.
const BELIEVED: Duration = Duration::from_mins(1);

/// The interval of examining a pool that loses something, or cannot be asked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long a pooler may take to be examined.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often another connection is put in the way of the first one, so that it gets another session.
const TRIES: u32 = 10;

/// A pooler loses what a pool needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pooler loses {what} of the pool {pool}")]
pub struct Lost {
    /// The pool.
    pub pool: &'static str,
    /// What.
    pub what: String,
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        Self::Configuration(Box::new(lost))
    }
}

/// What a pooler does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Examined {
    /// It loses something.
    Lost(Lost),
    /// It keeps all, over two sessions of Postgres.
    Kept,
    /// It keeps all, but a connection never got another session: whether statements are kept there is not known.
    OneSession,
}

/// Compares the settings of a session with those that the pool needs.
async fn compare(connection: &mut PgConnection, kind: &Kind, role: &str) -> Result<Option<Lost>, Error> {
    let needed = kind.settings(role);
    let asked: Vec<_> = needed.iter().map(|(name, _)| format!("current_setting('{name}')")).collect();
    // not prepared: that may be what is lost
    let asked = sqlx::raw_sql(AssertSqlSafe(format!("SELECT {}", asked.join(", "))));
    let found = asked.fetch_one(connection).await?;
    let mut lost = Vec::new();
    for (at, (name, needed)) in needed.iter().enumerate() {
        let found: String = found.try_get(at)?;
        if found != *needed {
            lost.push(format!("{name} (it is {found:?} instead of {needed:?})"));
        }
    }
    Ok((!lost.is_empty()).then(|| Lost { pool: kind.name, what: format!("settings {}", lost.join(", ")) }))
}

/// Opens two connections to a pool; compares its settings, and runs a statement of one in two sessions of Postgres.
///
/// # Errors
/// The pooler or Postgres is away, or refuses a connection.
pub async fn examine(options: &PgConnectOptions, kind: &Kind, role: &str) -> Result<Examined, Error> {
    let mut connection = options.connect().await?;
    if let Some(lost) = compare(&mut connection, kind, role).await? {
        return Ok(Examined::Lost(lost));
    }
    let mut other = options.connect().await?;
    // Each connection numbers its statements from one, so another one has a statement by the same name. The text tells them apart.
    let mark = ids::new_id().to_string();
    let statement = format!("SELECT pg_backend_pid(), '{mark}'");
    let lost = |what: String| {
        Ok(Examined::Lost(Lost { pool: kind.name, what: format!("prepared statements ({what})") }))
    };
    let mut first = None;
    for attempt in 0..2 * TRIES {
        // the session that a pooler got back last is the one that it lends next
        let blocking = if attempt % 2 == 1 { Some(sqlx::Connection::begin(&mut other).await?) } else { None };
        let ran = sqlx::query_as::<_, (i32, String)>(AssertSqlSafe(statement.clone()));
        let ran = timeout(LOOK_AGAIN, ran.fetch_one(&mut connection)).await;
        if let Some(blocking) = blocking {
            Transaction::rollback(blocking).await?;
        }
        match ran {
            // the pool has one session, which the other connection held
            Err(_) => return Ok(Examined::OneSession),
            Ok(Err(error)) if is_of_statement(&error) => return lost(causes(&error).to_string()),
            Ok(Err(error)) => return Err(error),
            Ok(Ok((_, found))) if found != mark => return lost("another one has the same name".to_owned()),
            Ok(Ok((session, _))) if *first.get_or_insert(session) != session => return Ok(Examined::Kept),
            Ok(Ok(_)) => {}
        }
    }
    Ok(Examined::OneSession)
}

/// Whether a statement ran that is not there, is there already, or is another one. What ends the session says nothing about statements.
fn is_of_statement(error: &Error) -> bool {
    match error {
        Error::Database(error) => {
            let is_answer = error
                .try_downcast_ref::<PgDatabaseError>()
                .is_some_and(|error| error.severity() == PgSeverity::Error);
            is_answer && error.code().is_some_and(|code| matches!(code.as_ref(), "26000" | "42P05" | "08P01"))
        }
        Error::ColumnDecode { .. } | Error::ColumnIndexOutOfBounds { .. } | Error::Decode(_) => true,
        _ => false,
    }
}

/// What is known of a pool: nothing before it was examined.
type Known = Option<Examined>;

fn is_kept(known: &Known) -> bool {
    matches!(known, Some(Examined::Kept | Examined::OneSession))
}

/// A pool of this process at a pooler; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    kind: &'static Kind,
    role: Arc<str>,
    known: watch::Sender<Known>,
}

impl Guard {
    pub(super) fn new(kind: &'static Kind, role: &str) -> Self {
        Self { kind, role: role.into(), known: watch::Sender::default() }
    }

    /// Whether nothing is lost.
    pub(super) fn is_kept(&self) -> bool {
        is_kept(&self.known.borrow())
    }

    /// Refuses a new connection of the pool where something is lost.
    pub(super) async fn admit(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let mut known = self.known.subscribe();
        if timeout(LOOK_AGAIN, known.wait_for(is_kept)).await.is_err() {
            return Err(match known.borrow().clone() {
                Some(Examined::Lost(lost)) => lost.into(),
                _ => Error::PoolTimedOut,
            });
        }
        match compare(connection, self.kind, &self.role).await? {
            None => Ok(()),
            Some(lost) => {
                self.learn(Examined::Lost(lost.clone()));
                Err(lost.into())
            }
        }
    }

    fn learn(&self, found: Examined) {
        let before = self.known.send_replace(Some(found.clone()));
        match found {
            Examined::Lost(lost) if before.as_ref() != Some(&Examined::Lost(lost.clone())) => {
                tracing::error!("{lost}; give it the file that `longshore-api pooler` prints");
            }
            Examined::Kept | Examined::OneSession if matches!(before, Some(Examined::Lost(_))) => {
                tracing::info!("the pooler keeps what the pool {} needs", self.kind.name);
            }
            _ => {}
        }
    }

    async fn keep_examining(self, pool: PgPool) {
        let mut known = self.known.subscribe();
        loop {
            let options = pool.connect_options();
            match timeout(PATIENCE, examine(&options, self.kind, &self.role)).await {
                Ok(Ok(found)) => self.learn(found),
                Ok(Err(error)) => {
                    tracing::debug!(error = %causes(&error), "the pool {} cannot be examined", self.kind.name);
                }
                Err(_) => tracing::debug!("the pool {} cannot be examined in time", self.kind.name),
            }
            let is_kept = is_kept(&known.borrow_and_update());
            // sooner where a new connection has lost something
            let _ = timeout(if is_kept { BELIEVED } else { LOOK_AGAIN }, known.changed()).await;
            if !is_kept {
                sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// The pools of a process at a pooler, if there is one; cheap to clone. They are examined until it is dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Pooler {
    guards: Arc<[Guard]>,
    _tasks: Option<Arc<JoinSet<()>>>,
}

impl Pooler {
    /// Begins to examine pools.
    pub(super) fn watch(pools: Vec<(Guard, PgPool)>) -> Self {
        let guards = pools.iter().map(|(guard, _)| guard.clone()).collect();
        let mut tasks = JoinSet::new();
        for (guard, pool) in pools {
            tasks.spawn(guard.keep_examining(pool));
        }
        Self { guards, _tasks: Some(Arc::new(tasks)) }
    }

    /// Why this process cannot work through the pooler; `None` where it can, and where there is none.
    pub(super) fn refused(&self) -> Option<String> {
        let each = self.guards.iter().filter_map(|guard| match &*guard.known.borrow() {
            // others may be busy, also those of other processes
            None if [pools::REQUESTS.name, pools::WORK.name].contains(&guard.kind.name) => {
                Some(format!("the pool {} was not examined yet", guard.kind.name))
            }
            Some(Examined::Lost(lost)) => Some(lost.to_string()),
            None | Some(Examined::Kept | Examined::OneSession) => None,
        });
        let each: Vec<_> = each.collect();
        (!each.is_empty()).then(|| each.join("; "))
    }
}

/// The sessions of Postgres that the pooler opens for a pool: as many as one process, and two at least, which [`examine`] needs.
fn sessions(kind: &Kind, settings: &DatabaseSettings) -> u32 {
    kind.connections(settings).max(2)
}

/// The sessions of Postgres that the pooler opens for all pools.
#[must_use]
pub fn most_sessions(settings: &DatabaseSettings) -> u32 {
    pools::ALL.iter().map(|kind| sessions(kind, settings)).sum()
}

/// What `PgBouncer` must be told, for the Postgres that the settings name. It forgets what a section says where the section begins again, so
/// this has the end of one, and then another one.
///
/// # Errors
/// The URL does not name one server, or `PgBouncer` has no database of that name.
pub fn file(settings: &DatabaseSettings) -> Result<String, InvalidUrl> {
    let server = PostgresServer::parse(&settings.database_url)?;
    let options = server.only()?;
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    if !database.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
        return Err(InvalidUrl::because(
            "PgBouncer takes no name of a database with other characters than letters, digits, _, - and .",
        ));
    }
    let mut file = format!(
        "; For PgBouncer 1.21 or newer, by `longshore-api pooler` (docs/scaling.md#poolers). The section [pgbouncer] of pgbouncer.ini
; includes this at its end: %include /etc/pgbouncer/longshore.ini

pool_mode = transaction
max_prepared_statements = {PREPARED}
; a request waits no longer for a session of Postgres
query_wait_timeout = {}
; {PROCESSES} processes
max_client_conn = {}
",
        share::PATIENCE.as_secs(),
        PROCESSES * pools::most_connections(settings),
    );
    if let Some(mode) = tls(options.get_ssl_mode()) {
        let _ = writeln!(file, "server_tls_sslmode = {mode}");
    }
    file.push_str("\n[databases]\n");
    let host =
        options.get_socket().map_or_else(|| options.get_host().into(), |folder| folder.to_string_lossy());
    for kind in pools::ALL {
        let set: Vec<_> = kind.settings(&settings.database_role).iter().map(set).collect();
        let _ = writeln!(
            file,
            "{} = host={} port={} dbname={} pool_size={} connect_query={}",
            kind.database(options),
            quoted(&host),
            options.get_port(),
            quoted(database),
            sessions(kind, settings),
            quoted(&set.join("; ")),
        );
    }
    Ok(file)
}

/// As PgBouncer spells it; nothing for what both do by default.
fn tls(mode: PgSslMode) -> Option<&'static str> {
    match mode {
        PgSslMode::Prefer => None,
        PgSslMode::Disable => Some("disable"),
        PgSslMode::Allow => Some("allow"),
        PgSslMode::Require => Some("require"),
        PgSslMode::VerifyCa => Some("verify-ca"),
        PgSslMode::VerifyFull => Some("verify-full"),
    }
}

fn set((name, value): &(&'static str, String)) -> String {
    format!("SET {name} TO {}", quoted(value))
}

/// As SQL and PgBouncer quote a value.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_quoted_for_sql_and_then_for_the_file() {
        let set = set(&("role", "o'role".to_owned()));
        assert_eq!(set, "SET role TO 'o''role'");
        assert_eq!(quoted(&set), "'SET role TO ''o''''role'''");
    }

    #[test]
    fn a_session_has_room_for_every_statement() {
        let prepared = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.sqlx")).unwrap();
        let statements = prepared.count();
        assert!(statements > 100 && statements < PREPARED, "{statements} of {PREPARED}");
    }
}
