//! Postgres that is set back for real, and what is none: dumps, a point in time, promotions, a crash (`docs/operating.md#after-a-restore`).
//!
//! A *process* is pools and queues with a memory of their own; a new Redis is another prefix.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use longshore_kernel::config::{DatabaseSettings, RedisSettings};
use longshore_kernel::database::{Database, Use};
use longshore_kernel::migration;
use longshore_kernel::queue::Queues;
use longshore_kernel::set_back::{self, SetBack};
use longshore_stack::port::free_port;
use longshore_stack::postgres::{Cluster, OWNER, as_postgres, hand_over, programs, stop_in};
use longshore_stack::process::{Process, Signal, gone, signal};
use longshore_stack::redis::Server;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What every server has: it is faster, and no machine crashes here.
const FAST: &[(&str, &str)] = &[("fsync", "off"), ("shared_buffers", "16MB"), ("wal_keep_size", "64MB")];

/// A Postgres with our tables in the database `main`, and a Redis.
struct World {
    postgres: Process,
    cluster: Cluster,
    port: u16,
    redis: String,
    _redis: Process,
    folder: TempDir,
}

impl World {
    async fn start(settings: &[(&str, &str)]) -> Self {
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

    fn url(&self, database: &str) -> String {
        format!("postgres://{OWNER}@127.0.0.1:{}/{database}", self.port)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Executes a statement as the owner.
    async fn execute(&self, database: &str, sql: &str) {
        let mut connection = PgConnection::connect(&self.url(database)).await.unwrap();
        connection.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    async fn is(&self, sql: &str) -> bool {
        let Ok(mut connection) = PgConnection::connect(&self.url("main")).await else { return false };
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap()
    }

    async fn wait_until(&self, sql: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.is(sql).await {
            assert!(Instant::now() < until, "{sql}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Runs a program of Postgres about a database.
    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(programs().unwrap().join(program));
        command.args(["-h", "127.0.0.1", "-U", OWNER, "-p", &self.port.to_string()]).args(arguments);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    /// A process whose Redis is called `redis`.
    fn process(&self, database: &str, redis: &str) -> Peer {
        let settings = DatabaseSettings {
            database_url: self.url(database),
            database_role: "longshore_service".to_owned(),
            database_connections: 2,
            database_list_connections: 2,
            database_stream_connections: 1,
        };
        let redis = RedisSettings { redis_url: self.redis.clone(), queue_prefix: format!("{redis}:") };
        Peer {
            db: Database::connect_lazy(&settings, "test", Use::Work).unwrap(),
            queues: Queues::open(&redis).unwrap(),
        }
    }

    /// Raises the pulse once more, as if a second had passed, and returns its moment.
    async fn raise(&self, process: &Peer, database: &str) -> DateTime<Utc> {
        let before = process.pulse().await;
        self.execute(database, "UPDATE pulse SET at = at - interval '1 second'").await;
        process.watch().await;
        let after = process.pulse().await;
        assert_eq!((after.0, after.1), (before.0, before.1 + 1));
        after.2
    }

    /// Kills the server as a crash of its machine does, and starts another one in its place.
    fn replace(&mut self, by: Cluster, settings: &[(&str, &str)]) {
        kill(&mut self.postgres);
        self.cluster = by;
        self.start_again(settings);
    }

    fn start_again(&mut self, settings: &[(&str, &str)]) {
        let until = Instant::now() + PATIENCE;
        // sessions of the killed server may live for a moment, and hold its memory
        self.postgres = loop {
            match self.cluster.start(self.port, &[FAST, settings].concat()) {
                Ok(postgres) => break postgres,
                Err(error) => assert!(Instant::now() < until, "{error:#}"),
            }
        };
    }

    /// A standby of the server, which has all that is committed.
    async fn standby(&self, name: &str) -> Cluster {
        let cluster = Cluster::in_folder(self.path(name)).unwrap();
        cluster.copy_from(self.port).unwrap();
        let process = cluster.start(free_port().unwrap(), FAST).unwrap();
        self.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')").await;
        process.detach();
        cluster
    }

    async fn wait_for_standby(&self) {
        self.wait_until(
            "SELECT bool_and(replay_lsn = pg_current_wal_lsn()) IS TRUE FROM pg_stat_replication",
        )
        .await;
    }

    /// The server is gone, and its standby takes its address.
    async fn fail_over_to(&mut self, standby: Cluster) {
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

fn kill(postgres: &mut Process) {
    let pid = postgres.pid().unwrap();
    signal(pid, Signal::SIGKILL).unwrap();
    // and buried: the lock of its folder holds until then
    assert!(gone(pid, PATIENCE) && postgres.has_ended());
}

struct Peer {
    db: Database,
    queues: Queues,
}

impl Peer {
    /// What a worker does each second; Postgres may have been away.
    async fn watch(&self) {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = set_back::watch(&self.db, &self.queues).await {
            assert!(Instant::now() < until, "{error}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn pulse(&self) -> (i32, i64, DateTime<Utc>) {
        let read = sqlx::query_as("SELECT epoch, number, at FROM pulse");
        read.fetch_one(&self.db.main.of_work()).await.unwrap()
    }

    /// Only connects, as an api does.
    async fn pending(&self) -> Option<SetBack> {
        set_back::pending(&self.db.main).await.unwrap()
    }

    async fn set_backs(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM set_back").fetch_one(&self.db.main.of_work()).await.unwrap()
    }
}

async fn restored(world: &World, name: &str, dump: &str) {
    world.execute("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0")).await;
    world.run("pg_restore", &["--exit-on-error", "-d", name, dump]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_is_restored_is_a_set_back_whoever_remembers() {
    let world = World::start(&[]).await;
    let before = world.process("main", "old");
    // a new database, and one that was never restored
    before.watch().await;
    let dumped_at = world.raise(&before, "main").await;
    let dump = world.path("dump").display().to_string();
    world.run("pg_dump", &["--format=custom", &format!("--file={dump}"), "main"]);
    let last_at = world.raise(&before, "main").await;
    assert_eq!(before.pending().await, None);

    // a drill: the same cluster, a new Redis, new processes; one that only connects sees it
    restored(&world, "drill", &dump).await;
    let api = world.process("drill", "new");
    let seen = api.pending().await.unwrap();
    assert_eq!((seen.epoch, seen.since, seen.until), (2, dumped_at, None));
    // others do not see another, and the pulse goes on in the next epoch
    let worker = world.process("drill", "new");
    worker.watch().await;
    world.raise(&worker, "drill").await;
    api.db.close().await;
    let api = world.process("drill", "new");
    assert_eq!((api.pending().await.unwrap().epoch, api.set_backs().await, api.pulse().await.0), (2, 1, 2));

    // the old Redis: it is known how much was lost
    restored(&world, "moved", &dump).await;
    let worker = world.process("moved", "old");
    worker.watch().await;
    let seen = worker.pending().await.unwrap();
    assert_eq!((seen.epoch, seen.since, seen.until), (2, dumped_at, Some(last_at)));

    // the same database, while a process runs on; a new one with a new Redis sees it first, since the tables are others
    world.execute("main", "DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    world.run("pg_restore", &["--exit-on-error", "-d", "main", &dump]);
    let api = world.process("main", "another");
    assert_eq!(api.pending().await.unwrap().epoch, 2);
    before.watch().await;
    assert_eq!((before.set_backs().await, before.pulse().await.0), (1, 2));

    // once it is mended, it is over, and the next restore is another one
    world.execute("main", "UPDATE set_back SET mended_at = now()").await;
    assert_eq!(api.pending().await, None);
    world.execute("main", "DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    world.run("pg_restore", &["--exit-on-error", "-d", "main", &dump]);
    before.watch().await;
    assert_eq!(before.pending().await.unwrap().epoch, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_no_set_back_although_commits_do_not_wait_for_the_disk() {
    let settings = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let mut world = World::start(&settings).await;
    let process = world.process("main", "old");
    process.watch().await;
    world.raise(&process, "main").await;
    let raised = process.pulse().await;
    world.replace(world.cluster.clone(), &settings);

    process.watch().await;
    for process in [process, world.process("main", "old"), world.process("main", "new")] {
        process.watch().await;
        assert_eq!(process.pending().await, None);
        assert!(process.pulse().await.1 >= raised.1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_is_a_set_back_unless_commits_waited_for_the_standby() {
    let mut world = World::start(&[]).await;
    let process = world.process("main", "old");
    process.watch().await;
    // the standby has everything, which nobody can see
    let standby = world.standby("asynchronous").await;
    let last_at = world.raise(&process, "main").await;
    world.wait_for_standby().await;
    world.fail_over_to(standby).await;
    process.watch().await;
    let seen = process.pending().await.unwrap();
    assert_eq!((seen.epoch, seen.since, seen.until), (2, last_at, Some(last_at)));

    world.execute("main", "UPDATE set_back SET mended_at = now()").await;
    let standby = world.standby("synchronous").await;
    world.execute("main", "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    world.execute("main", "SELECT pg_reload_conf()").await;
    world.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").await;
    world.wait_until("SELECT current_setting('synchronous_standby_names') = '*'").await;
    process.watch().await;
    world.raise(&process, "main").await;
    assert!(world.is("SELECT NOT is_asynchronous FROM pulse").await);
    let (epoch, number, _) = process.pulse().await;
    world.fail_over_to(standby).await;
    let elsewhere = world.process("main", "old");
    for process in [&process, &elsewhere] {
        process.watch().await;
        assert_eq!((process.pending().await, process.set_backs().await), (None, 1));
    }
    // the pulse goes on, at its new place
    world.raise(&process, "main").await;
    let now = process.pulse().await;
    assert!(now.0 == epoch && now.1 > number, "{now:?}");
    assert!(world.is("SELECT timeline = 3 FROM pulse").await);
}

/// Makes a base backup recover what was archived, up to a restore point.
fn recover(backup: &Path, archive: &Path) -> [(&'static str, String); 3] {
    std::fs::remove_file(backup.join("standby.signal")).unwrap();
    std::fs::write(backup.join("recovery.signal"), "").unwrap();
    hand_over(&backup.join("recovery.signal")).unwrap();
    [
        ("restore_command", format!("cp {}/%f %p", archive.display())),
        ("recovery_target_name", "here".to_owned()),
        ("recovery_target_action", "promote".to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_in_time_is_a_set_back_whoever_remembers() {
    let archive = tempfile::tempdir().unwrap();
    hand_over(archive.path()).unwrap();
    let command = format!("cp %p {}/%f", archive.path().display());
    let mut world = World::start(&[("archive_mode", "on"), ("archive_command", &command)]).await;
    let process = world.process("main", "old");
    process.watch().await;
    let (backup, again) = (world.path("backup"), world.path("again"));
    Cluster::in_folder(&backup).unwrap().copy_from(world.port).unwrap();
    let copied = as_postgres("cp").unwrap().arg("-a").arg(&backup).arg(&again).status().unwrap();
    assert!(copied.success());
    let kept_at = world.raise(&process, "main").await;
    world.execute("main", "SELECT pg_create_restore_point('here')").await;
    world.raise(&process, "main").await;
    let last_at = world.raise(&process, "main").await;
    let mut owner = PgConnection::connect(&world.url("main")).await.unwrap();
    let file: String =
        sqlx::query_scalar("SELECT pg_walfile_name(pg_switch_wal())").fetch_one(&mut owner).await.unwrap();
    drop(owner);
    world.wait_until(&format!("SELECT (last_archived_wal >= '{file}') IS TRUE FROM pg_stat_archiver")).await;

    let new = world.process("main", "new");
    for (folder, process, until) in [(backup, process, Some(last_at)), (again, new, None)] {
        let settings = recover(&folder, archive.path());
        let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
        world.replace(Cluster::in_folder(folder).unwrap(), &settings);
        world.wait_until("SELECT NOT pg_is_in_recovery()").await;
        process.watch().await;
        let seen = process.pending().await.unwrap();
        assert_eq!((seen.epoch, seen.since, seen.until), (2, kept_at, until));
    }
}
