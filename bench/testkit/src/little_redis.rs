//! A private Redis with little memory, which a test can fill up and free.

use anyhow::Context as _;
use longshore_kernel::ids;
use longshore_kernel::queue::{Memory, Queues};
use longshore_stack::redis::Server;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use crate::client;
use crate::port::free_port;
use crate::process::{Process, ready};
use crate::stack::ping;

/// Its `maxmemory`, in bytes. A new Redis takes about one MiB of it.
pub const MAX_MEMORY: u64 = 4 << 20;

/// More than fits, so that writes are refused even when connections use less memory.
const FILLER: usize = 6 << 20;
const FILLER_KEY: &str = "filler";

/// The Redis; dropping it ends it.
#[derive(Debug)]
pub struct LittleRedis {
    /// Its URL.
    pub url: String,
    connection: MultiplexedConnection,
    _process: Process,
    _folder: TempDir,
}

impl LittleRedis {
    /// Starts it, empty.
    ///
    /// # Errors
    /// When it cannot be started, or does not answer.
    pub async fn start() -> anyhow::Result<Self> {
        let (port, folder) = (free_port()?, tempfile::tempdir()?);
        let maxmemory = MAX_MEMORY.to_string();
        let server = Server::configure(folder.path(), port, &[("maxmemory", &maxmemory)])?;
        let process = Process::start(server.command(), server.log())?;
        let url = server.url();
        ready(&process.log, || async { ping(&url).await.is_ok() }).await.context("redis-server")?;
        let connection = client::redis(&url).await?;
        Ok(Self { url, connection, _process: process, _folder: folder })
    }

    /// Queues on it, with a unique prefix.
    ///
    /// # Errors
    /// When the prefix is invalid, which it never is.
    pub fn queues(&self) -> anyhow::Result<Queues> {
        Ok(Queues::new(redis::Client::open(self.url.as_str())?, &format!("test-{}:", ids::new_id()))?)
    }

    /// Sends one command.
    ///
    /// # Errors
    /// Redis does not answer, or refuses.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> anyhow::Result<T> {
        let mut connection = self.connection.clone();
        let mut command = redis::Cmd::new();
        command.arg(words);
        Ok(command.query_async(&mut connection).await?)
    }

    /// Fills it: from now on it refuses writes.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn fill(&self) -> anyhow::Result<()> {
        self.limit(0).await?;
        self.put_filler().await?;
        self.limit(MAX_MEMORY).await
    }

    /// Makes it nearly full: it still accepts writes.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn nearly_fill(&self) -> anyhow::Result<()> {
        self.limit(0).await?;
        self.put_filler().await?;
        let info: String = self.ask(&["INFO", "memory"]).await?;
        let used = Memory::of(&info).context("INFO memory")?.used;
        self.limit(used + used / 10).await
    }

    /// Frees its memory again.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn free(&self) -> anyhow::Result<()> {
        self.ask::<()>(&["DEL", FILLER_KEY]).await?;
        self.limit(MAX_MEMORY).await
    }

    /// Uses a short command: a long one would also fill the buffer of its connection for a while.
    async fn put_filler(&self) -> anyhow::Result<()> {
        self.ask(&["SETRANGE", FILLER_KEY, &FILLER.to_string(), "x"]).await
    }

    async fn limit(&self, bytes: u64) -> anyhow::Result<()> {
        self.ask(&["CONFIG", "SET", "maxmemory", &bytes.to_string()]).await
    }
}
