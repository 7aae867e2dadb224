//! Servers of Postgres and Redis of their own, which are killed, restored and promoted.
//!
//! A *process* is pools and queues with a memory of their own; a new Redis is another prefix.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use longshore_kernel::config::{DatabaseSettings, RedisSettings};
use longshore_kernel::database::{Database, Use};
use longshore_kernel::migration;
use longshore_kernel::queue::Queues;
use longshore_kernel::set_back::{self, SetBack};
use longshore_stack::port::free_port;
use longshore_stack::postgres::{Cluster, OWNER, hand_over, programs, stop_in};
use longshore_stack::process::{Process, Signal, gone, signal};
use longshore_stack::redis::Server;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What every server has: it is faster, and no machine crashes here.
pub(crate) const FAST: &[(&str, &str)] =
    &[("fsync", "off"), ("shared_buffers", "16MB"), ("wal_keep_size", "64MB")];

/// A Postgres with our tables in the database `main`, and a Redis.
pub(crate) struct World {
    pub(crate) postgres: Process,
    pub(crate) cluster: Cluster,
    pub(crate) port: u16,
    redis: String,
    _redis: Process,
    pub(crate) folder: TempDir,
}

impl World {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        hand_over(folder.path()).unwrap();
        let server = Server::configure(&folder.path().join("redis"), free_port().unwrap(), &[]).unwrap();
        let cluster = Cluster::in_folder(folder.path().join("first")).unwrap();
        cluster.create(None).unwrap();
        let port = free_port().unwrap();
        let world = Self {
            postgres: cluster.start(port, &[FAST, settings].concat()).unwrap(),
            cluster,
            port,
            redis: server.url(),
            _redis: server.start().unwrap(),
            folder,
        };
        world.execute("postgres", "CREATE DATABASE main").await;
        migration::migrate(&world.url("main")).await.unwrap();
        world
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://{OWNER}@127.0.0.1:{}/{database}", self.port)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Executes a statement as the owner.
    pub(crate) async fn execute(&self, database: &str, sql: &str) {
        let mut connection = PgConnection::connect(&self.url(database)).await.unwrap();
        connection.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    pub(crate) async fn is(&self, sql: &str) -> bool {
        let Ok(mut connection) = PgConnection::connect(&self.url("main")).await else { return false };
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap()
    }

    pub(crate) async fn wait_until(&self, sql: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.is(sql).await {
            assert!(Instant::now() < until, "{sql}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Runs a program of Postgres about a database.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(programs().unwrap().join(program));
        command.args(["-h", "127.0.0.1", "-U", OWNER, "-p", &self.port.to_string()]).args(arguments);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    /// A process whose Redis is called `redis`.
    pub(crate) fn process(&self, database: &str, redis: &str) -> Peer {
        self.process_at(self.url(database), redis)
    }

    pub(crate) fn process_at(&self, database_url: String, redis: &str) -> Peer {
        let settings = DatabaseSettings {
            database_url,
            database_role: "longshore_service".to_owned(),
            database_pooled: false,
            database_connections: 2,
            database_list_connections: 2,
            database_stream_connections: 1,
            commit_seconds: 1,
        };
        let redis = RedisSettings { redis_url: self.redis.clone(), queue_prefix: format!("{redis}:") };
        Peer {
            db: Database::connect_lazy(&settings, "test", Use::Work).unwrap(),
            queues: Queues::open(&redis).unwrap(),
        }
    }

    /// Raises the pulse once more, as if a second had passed, and returns its moment.
    pub(crate) async fn raise(&self, process: &Peer, database: &str) -> DateTime<Utc> {
        let before = process.pulse().await;
        self.execute(database, "UPDATE pulse SET at = at - interval '1 second'").await;
        process.watch().await;
        let after = process.pulse().await;
        assert_eq!((after.0, after.1), (before.0, before.1 + 1));
        after.2
    }

    /// Kills the server as a crash of its machine does, and starts another one in its place.
    pub(crate) fn replace(&mut self, by: Cluster, settings: &[(&str, &str)]) {
        kill(&mut self.postgres);
        self.cluster = by;
        self.start_again(settings);
    }

    pub(crate) fn start_again(&mut self, settings: &[(&str, &str)]) {
        let until = Instant::now() + PATIENCE;
        // sessions of the killed server may live for a moment, and hold its memory
        self.postgres = loop {
            match self.cluster.start(self.port, &[FAST, settings].concat()) {
                Ok(postgres) => break postgres,
                Err(error) => assert!(Instant::now() < until, "{error:#}"),
            }
        };
    }

    /// A standby of the server, which has all that is committed, and its port.
    pub(crate) async fn standby(&self, name: &str) -> (Cluster, u16) {
        let cluster = Cluster::in_folder(self.path(name)).unwrap();
        cluster.copy_from(self.port).unwrap();
        let port = free_port().unwrap();
        let process = cluster.start(port, FAST).unwrap();
        self.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')").await;
        process.detach();
        (cluster, port)
    }

    pub(crate) async fn wait_for_standby(&self) {
        self.wait_until(
            "SELECT bool_and(replay_lsn = pg_current_wal_lsn()) IS TRUE FROM pg_stat_replication",
        )
        .await;
    }

    /// The server is gone, and its standby takes its address.
    pub(crate) async fn fail_over_to(&mut self, standby: Cluster) {
        kill(&mut self.postgres);
        standby.stop();
        self.cluster = standby;
        self.start_again(&[("primary_conninfo", "")]);
        self.execute("postgres", "SELECT pg_promote()").await;
        self.wait_until("SELECT NOT pg_is_in_recovery()").await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // standbys, too
        for folder in std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            stop_in(&folder.path());
        }
    }
}

pub(crate) fn kill(postgres: &mut Process) {
    let pid = postgres.pid().unwrap();
    signal(pid, Signal::SIGKILL).unwrap();
    // and buried: the lock of its folder holds until then
    assert!(gone(pid, PATIENCE) && postgres.has_ended());
}

pub(crate) struct Peer {
    pub(crate) db: Database,
    pub(crate) queues: Queues,
}

impl Peer {
    /// What a worker does each second; Postgres may have been away.
    pub(crate) async fn watch(&self) {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = set_back::watch(&self.db, &self.queues).await {
            assert!(Instant::now() < until, "{error}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    pub(crate) async fn pulse(&self) -> (i32, i64, DateTime<Utc>) {
        let read = sqlx::query_as("SELECT epoch, number, at FROM pulse");
        read.fetch_one(&self.db.main.of_work()).await.unwrap()
    }

    /// Only connects, as an api does.
    pub(crate) async fn pending(&self) -> Option<SetBack> {
        set_back::pending(&self.db.main).await.unwrap()
    }

    pub(crate) async fn set_backs(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM set_back").fetch_one(&self.db.main.of_work()).await.unwrap()
    }
}
