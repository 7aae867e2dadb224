//! The whole service as separate processes: a new database, a private Redis, the api, and a worker that is
//! restarted whenever it ends.
//!
//! For tests that inject faults, and for measurements. Dropping the stack stops and removes everything. The
//! programs are those beside the running one, so of the same build.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Args, Command as Cli, FromArgMatches as _};
use longshore_stack::redis as redis_server;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;
use tokio::process::Command;
use url::Url;

use crate::client;
use crate::port::free_port;
use crate::process::{self, Kept, Process, ready};
use longshore_kernel::ids;

/// The encryption key of stacks; it protects nothing.
pub const KEY: &str = "stack:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// The server for the database of a stack.
#[derive(Args, Clone, Debug)]
pub struct StackSettings {
    /// URL of a database on the server where stacks create theirs. The login must be able to create databases.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Url,
}

impl StackSettings {
    /// Settings as the environment has them, for tests.
    ///
    /// # Errors
    /// When `DATABASE_URL` is not set or no URL.
    pub fn from_environment() -> anyhow::Result<Self> {
        let matches = Self::augment_args(Cli::new("stack")).try_get_matches_from(["stack"])?;
        Ok(Self::from_arg_matches(&matches)?)
    }
}

/// The running service; see the module.
#[derive(Debug)]
pub struct Stack {
    /// The URL of the api, such as `http://127.0.0.1:40123`.
    pub base_url: String,
    /// Its database.
    pub database_url: Url,
    /// Its Redis.
    pub redis_url: String,
    /// The URL of the worker's metrics.
    pub worker_metrics_url: String,
    service: Service,
    // Dropped in this order: what uses the database and Redis first.
    worker: Kept,
    api: Process,
    redis: Process,
    _database: Database,
    folder: TempDir,
}

impl Stack {
    /// Starts everything, and waits until it is ready.
    ///
    /// # Errors
    /// When a part cannot be started or is not ready in time; the error contains the end of its log.
    pub async fn start(settings: &StackSettings) -> anyhow::Result<Self> {
        Self::start_with(settings, Vec::new()).await
    }

    /// The same with further settings, by the names of environment variables.
    ///
    /// # Errors
    /// As [`Stack::start`].
    pub async fn start_with(
        settings: &StackSettings,
        further: Vec<(&'static str, String)>,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let database = Database::create(&settings.database_url).await?;
        let database_url = database.url.clone();

        let server = redis_server::Server::configure(folder.path(), free_port()?, &[])?;
        let redis = Process::start(server.command(), server.log())?;
        let redis_url = server.url();
        ready(&redis.log, || async { ping(&redis_url).await.is_ok() }).await.context("redis-server")?;

        let (api_port, worker_port) = (free_port()?, free_port()?);
        let mut service = Service {
            programs: programs()?,
            environment: vec![
                ("DATABASE_URL", database_url.to_string()),
                ("REDIS_URL", redis_url.clone()),
                ("LONGSHORE_BIND", format!("127.0.0.1:{api_port}")),
                ("LONGSHORE_WORKER_BIND", format!("127.0.0.1:{worker_port}")),
                ("LONGSHORE_ENCRYPTION_KEY", KEY.to_owned()),
                ("LONGSHORE_OBJECT_STORE", folder.path().join("objects").display().to_string()),
                ("LONGSHORE_WEBHOOK_ALLOW_HTTP", "true".to_owned()),
                ("LONGSHORE_WEBHOOK_ALLOW_SUBNETS", "127.0.0.0/8".to_owned()),
                // measurements have more webhooks than shops need
                ("LONGSHORE_WEBHOOKS_PER_ESHOP", "10000".to_owned()),
                ("LONGSHORE_LOG_FORMAT", "json".to_owned()),
                // there is no load balancer
                ("LONGSHORE_DRAIN_SECONDS", "0".to_owned()),
                // one caller is the whole load
                ("LONGSHORE_RATE_LIMIT", "0".to_owned()),
                ("LONGSHORE_TOKEN_STREAMS", "0".to_owned()),
                // … from one address
                ("LONGSHORE_CONNECTIONS", "100000".to_owned()),
                ("LONGSHORE_ADDRESS_CONNECTIONS", "100000".to_owned()),
            ],
        };
        service.environment.extend(further);
        let migrated = service.command("longshore-api").arg("migrate").output().await?;
        ensure!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        let mut serve = service.command("longshore-api");
        serve.arg("serve");
        let api = Process::start(serve.into_std(), folder.path().join("api.log"))?;
        let worker = {
            let service = service.clone();
            Kept::start(
                move || service.command("longshore-worker").into_std(),
                folder.path().join("worker.log"),
            )?
        };
        let http = client::outside()?;
        for (port, log) in [(api_port, api.log.as_path()), (worker_port, worker.log())] {
            let url = format!("http://127.0.0.1:{port}/health/ready");
            let asked = || async { http.get(&url).send().await.is_ok_and(|answer| answer.status() == 200) };
            ready(log, asked).await.with_context(|| url.clone())?;
        }
        let base_url = format!("http://127.0.0.1:{api_port}");
        Ok(Self {
            base_url,
            database_url,
            redis_url,
            worker_metrics_url: format!("http://127.0.0.1:{worker_port}/metrics"),
            service,
            worker,
            api,
            redis,
            _database: database,
            folder,
        })
    }

    /// The ends of the logs, to find the cause of a failure.
    #[must_use]
    pub fn ends_of_logs(&self) -> String {
        let logs = [("api", self.api.log.as_path()), ("worker", self.worker.log())];
        logs.map(|(name, log)| format!("--- end of the log of the {name}:\n{}", process::end_of(log)))
            .join("\n")
    }

    /// The settings of its processes, by the names of environment variables.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.service.environment.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Starts another worker; dropping it kills it.
    ///
    /// # Errors
    /// When it is not ready in time.
    pub async fn another_worker(&self) -> anyhow::Result<Process> {
        let bind = format!("127.0.0.1:{}", free_port()?);
        let mut command = self.service.command("longshore-worker");
        command.env("LONGSHORE_WORKER_BIND", &bind);
        let process =
            Process::start(command.into_std(), self.folder.path().join(format!("worker-{bind}.log")))?;
        let http = client::outside()?;
        let url = format!("http://{bind}/health/ready");
        ready(&process.log, || async {
            http.get(&url).send().await.is_ok_and(|answer| answer.status() == 200)
        })
        .await?;
        Ok(process)
    }

    /// A program of the service, with the settings of this stack.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        self.service.command(program)
    }

    /// The log lines of api and worker, which are JSON.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub fn logs(&self) -> std::io::Result<Vec<String>> {
        let mut lines = Vec::new();
        for log in [self.api.log.as_path(), self.worker.log()] {
            lines.extend(std::fs::read_to_string(log)?.lines().map(str::to_owned));
        }
        Ok(lines)
    }

    /// The folder of its logs and objects.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process id of the api.
    ///
    /// # Errors
    /// When it has ended.
    pub fn api_pid(&self) -> anyhow::Result<u32> {
        self.api.pid().context("the api is not running")
    }

    /// The process id of its Redis.
    ///
    /// # Errors
    /// When it has ended.
    pub fn redis_pid(&self) -> anyhow::Result<u32> {
        self.redis.pid().context("Redis is not running")
    }

    /// The process id of the worker, if it is running.
    ///
    /// # Errors
    /// When it is being restarted.
    pub fn worker_pid(&self) -> anyhow::Result<u32> {
        self.worker.pid().context("the worker is not running")
    }
}

/// Empties a Redis.
///
/// # Errors
/// When Redis cannot be reached or refuses.
pub async fn flush(redis_url: &str) -> anyhow::Result<()> {
    let mut redis = client::redis(redis_url).await?;
    redis::cmd("FLUSHALL").query_async::<()>(&mut redis).await?;
    Ok(())
}

/// Asks a Redis for a sign of life.
///
/// # Errors
/// When it does not answer.
pub async fn ping(redis_url: &str) -> redis::RedisResult<()> {
    let mut redis = client::redis(redis_url).await?;
    redis::cmd("PING").query_async(&mut redis).await
}

/// The programs and environment of api and worker.
#[derive(Clone, Debug)]
pub struct Service {
    /// The folder of the programs.
    pub programs: PathBuf,
    /// The settings, by the names of environment variables.
    pub environment: Vec<(&'static str, String)>,
}

impl Service {
    /// A program with these settings.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The folder with the programs of this build: that of the running program, or for a test the one above.
///
/// # Errors
/// When they are not built.
pub fn programs() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let both =
        |folder: &&Path| ["longshore-api", "longshore-worker"].iter().all(|name| folder.join(name).is_file());
    let found = this.ancestors().skip(1).take(2).find(both);
    found
        .map(Path::to_owned)
        .context("longshore-api and longshore-worker are not built; cargo build --bins does it")
}

/// A database for one stack, dropped with it.
#[derive(Debug)]
struct Database {
    server: Url,
    name: String,
    url: Url,
}

impl Database {
    async fn create(server: &Url) -> anyhow::Result<Self> {
        let name = format!("longshore_stack_{}", ids::new_id().simple());
        let mut connection = PgConnection::connect(server.as_str()).await.context("DATABASE_URL")?;
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        let mut url = server.clone();
        url.set_path(&name);
        Ok(Self { server: server.clone(), name, url })
    }

    async fn remove(server: Url, name: String) -> sqlx::Result<()> {
        let mut connection = PgConnection::connect(server.as_str()).await?;
        connection.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))).await?;
        connection.close().await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // `drop` cannot wait for a future on the runtime that it may be running on.
        let removed = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(Self::remove(server, name)).map_err(anyhow::Error::from)
        });
        if !matches!(removed.join(), Ok(Ok(()))) {
            tracing::warn!(database = self.name, "a stack's database was left behind");
        }
    }
}
