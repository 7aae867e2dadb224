//! Postgres and Redis as child processes, which can be killed, paused, restarted, and deprived of disk space.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use longshore_stack::postgres::{Cluster, hand_over};
use longshore_stack::redis;
use longshore_testkit::port::free_port;
use longshore_testkit::process::{self, Process, ready, signal};
use longshore_testkit::stack::ping;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Mutex;
use url::Url;

/// How long a server may take to stop or start: after a crash, Postgres replays its log.
const PATIENCE: Duration = Duration::from_mins(1);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The file size above which a limited Postgres cannot write, in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// A process that is restarted only on request.
pub(crate) struct Server {
    command: Box<dyn Fn() -> anyhow::Result<std::process::Command> + Send + Sync>,
    log: PathBuf,
    process: Mutex<Option<Process>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(
        log: PathBuf,
        command: impl Fn() -> anyhow::Result<std::process::Command> + Send + Sync + 'static,
    ) -> Self {
        Self { command: Box::new(command), log, process: Mutex::new(None) }
    }

    /// Starts it, unless it is running.
    pub(crate) async fn start(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        if process.as_mut().is_none_or(Process::has_ended) {
            *process = Some(Process::start((self.command)()?, self.log.clone())?);
        }
        Ok(())
    }

    /// Sends it a signal, and waits until it has ended.
    pub(crate) async fn end(&self, by: &str) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        if let Some(running) = process.as_mut()
            && let Some(pid) = running.pid()
        {
            signal(by, &[pid]).await?;
            let until = Instant::now() + PATIENCE;
            while !running.has_ended() {
                ensure!(Instant::now() < until, "it does not end by SIG{by}");
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        *process = None;
        Ok(())
    }

    /// The file with its output.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Its process id, followed by those of its children.
    async fn pids(&self) -> anyhow::Result<Vec<u32>> {
        let Some(pid) = self.process.lock().await.as_ref().and_then(Process::pid) else {
            return Ok(Vec::new());
        };
        let mut pids = vec![pid];
        for entry in fs::read_dir("/proc")? {
            let Some(child) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if parent_of(child) == Some(pid) {
                pids.push(child);
            }
        }
        Ok(pids)
    }

    /// Stops it in the middle of its work.
    pub(crate) async fn pause(&self) -> anyhow::Result<()> {
        // ignore children that have ended meanwhile
        let pids = self.pids().await?;
        let Some(first) = pids.first() else { return Ok(()) };
        signal("STOP", &[*first]).await?;
        _ = signal("STOP", &self.pids().await?).await;
        Ok(())
    }

    /// Continues it.
    pub(crate) async fn resume(&self) -> anyhow::Result<()> {
        let pids = self.pids().await?;
        if !pids.is_empty() {
            _ = signal("CONT", &pids).await;
        }
        Ok(())
    }
}

/// The parent of a process; `None` if the process has ended.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name of the program may contain anything, and ends at the last parenthesis
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A Redis without persistence.
#[derive(Debug)]
pub(crate) struct Redis {
    pub(crate) server: Server,
    pub(crate) port: u16,
    pub(crate) url: String,
}

impl Redis {
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Self> {
        let redis = redis::Server::configure(folder, free_port()?, &[])?;
        let (port, url) = (redis.port(), redis.url());
        let server = Server::new(redis.log(), move || Ok(redis.command()));
        let redis = Self { server, port, url };
        redis.be_there().await?;
        Ok(redis)
    }

    /// Starts it empty if it is not running, and waits until it answers.
    pub(crate) async fn be_there(&self) -> anyhow::Result<()> {
        self.server.start().await?;
        ready(&self.server.log, || async { ping(&self.url).await.is_ok() }).await.context("redis-server")
    }
}

/// How a full disk is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// Its data is on a small separate disk, which another file fills.
    Own,
    /// Its file size is limited; the resulting errors differ from those of a full disk.
    Limited,
}

/// A durable Postgres.
#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) server: Server,
    pub(crate) port: u16,
    pub(crate) url: Url,
    pub(crate) disk: Disk,
    /// The folder of its data.
    home: PathBuf,
    folder: TempDir,
}

impl Postgres {
    /// Creates a cluster with this many MiB, and starts it.
    pub(crate) async fn start(mebibytes: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        // the user that runs Postgres must reach its folder inside
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711))?;
        let home = folder.path().join("postgres");
        fs::create_dir(&home)?;
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=0700"), "longshore-chaos"])
            .arg(&home);
        let mounted = mount.output().await.is_ok_and(|mounted| mounted.status.success());
        let disk = if mounted { Disk::Own } else { Disk::Limited };
        hand_over(&home)?;
        let (cluster, port) = (Cluster::in_folder(home.join("data"))?, free_port()?);
        let settings = [
            ("max_connections", "250"),
            ("min_wal_size", "32MB"),
            ("max_wal_size", "128MB"),
            // the checks compare when transactions were committed
            ("track_commit_timestamp", "on"),
        ];
        let server = Server::new(folder.path().join("postgres.log"), {
            let cluster = cluster.clone();
            move || cluster.server(port, &settings)
        });
        let url: Url = format!("postgres://longshore@127.0.0.1:{port}/longshore").parse()?;
        // from here on, dropping it unmounts the disk
        let postgres = Self { server, port, url, disk, home, folder };
        tokio::task::spawn_blocking(move || cluster.create(None)).await??;
        postgres.server.start().await?;
        let mut first = postgres.url.clone();
        first.set_path("postgres");
        postgres.wait_for(&first).await?;
        let mut connection = PgConnection::connect(first.as_str()).await?;
        connection.execute("CREATE DATABASE longshore").await?;
        connection.close().await?;
        Ok(postgres)
    }

    async fn wait_for(&self, url: &Url) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            // restarts it if it could not start before, for example on a full disk
            self.server.start().await?;
            if let Ok(Ok(connection)) =
                tokio::time::timeout(Duration::from_secs(5), PgConnection::connect(url.as_str())).await
            {
                return Ok(connection.close().await?);
            }
            if Instant::now() >= until {
                bail!("Postgres is not there after {PATIENCE:?}; {}", process::end_of(&self.server.log));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Starts it if it is not running, and waits until it answers.
    pub(crate) async fn be_there(&self) -> anyhow::Result<()> {
        self.wait_for(&self.url).await
    }

    /// Copies its data, to which it can be [set back](Self::set_back).
    pub(crate) async fn keep(&self) -> anyhow::Result<()> {
        // fast: it ends with all that was committed
        self.server.end("INT").await?;
        copy(&self.data(), &self.kept()).await?;
        self.be_there().await
    }

    /// Ends it without a clean shutdown, and starts it with the data that were kept.
    pub(crate) async fn set_back(&self) -> anyhow::Result<()> {
        self.server.end("QUIT").await?;
        fs::remove_dir_all(self.data())?;
        copy(&self.kept(), &self.data()).await?;
        self.be_there().await
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Beside its disk, which has no room for both.
    fn kept(&self) -> PathBuf {
        self.folder.path().join("kept")
    }

    /// Fills its disk.
    pub(crate) async fn fill_disk(&self) -> anyhow::Result<()> {
        match self.disk {
            Disk::Own => {
                let filler = self.filler();
                tokio::task::spawn_blocking(move || fill(&filler)).await?
            }
            Disk::Limited => self.limit(&format!("{FILE_LIMIT}:")).await,
        }
    }

    /// Frees its disk.
    pub(crate) async fn free_disk(&self) -> anyhow::Result<()> {
        match self.disk {
            Disk::Own => fs::remove_file(self.filler())?,
            Disk::Limited => self.limit("unlimited:").await?,
        }
        self.be_there().await
    }

    fn filler(&self) -> PathBuf {
        self.home.join("filler")
    }

    async fn limit(&self, size: &str) -> anyhow::Result<()> {
        for pid in self.server.pids().await? {
            // ignore processes that have ended meanwhile
            let mut limit = Command::new("prlimit");
            limit.args(["--pid", &pid.to_string(), &format!("--fsize={size}")]).output().await?;
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(process) = self.server.process.get_mut().take() {
            // killed together with its children
            drop(process);
        }
        if self.disk == Disk::Own {
            let mut unmount = std::process::Command::new("umount");
            // lazily: its children take a moment to end
            let unmounted = unmount.arg("--lazy").arg(&self.home).status();
            if !unmounted.is_ok_and(|status| status.success()) {
                tracing::warn!(folder = %self.home.display(), "a disk was left behind");
            }
        }
    }
}

/// Copies a folder with its owners and rights.
async fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).output().await?;
    ensure!(copied.status.success(), "cp: {}", String::from_utf8_lossy(&copied.stderr));
    Ok(())
}

/// Fills the disk of a file.
fn fill(path: &Path) -> anyhow::Result<()> {
    let mut filler = File::create(path)?;
    for size in [1 << 20, 4096] {
        let zeros = vec![0; size];
        while filler.write_all(&zeros).is_ok() {}
    }
    Ok(())
}
