//! What Redis knows of the lanes that this process keeps warm: a registration for each, and one stream for all.
//!
//! A registration lives no longer than the lease, whenever its command reaches Redis: its end is a moment by the
//! clock of Redis, read just before. So no change is announced to a process whose lease is over, and what arrives
//! after that is found by the dispatcher.

use std::sync::LazyLock;
use std::time::Duration;

use longshore_kernel::crypto::Vault;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::queue::{CONNECTION_TIMEOUT, Notice, Queue, QueueKeys, Queues};
use longshore_kernel::redis_server::RedisLink;
use longshore_kernel::retry::Backoff;
use redis::streams::StreamReadReply;
use redis::{AsyncConnectionConfig, RedisError, RedisResult, Script, cmd, pipe};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::keeper::MARGIN;
use crate::queue::unique_name;

/// Entries of one read.
const READ: usize = 256;

/// How long a read waits for entries.
const BLOCK: Duration = Duration::from_secs(2);

/// How much longer a read may take before its connection is closed.
const RESPONSE_MARGIN: Duration = Duration::from_secs(3);

/// How long Redis may take to answer. What it does not do in that time is done a second later, or not needed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Removes registrations, unless they are another's. KEYS: the registrations. ARGV: what each must be.
static UNREGISTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
for i, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[i] then redis.call('DEL', key) end
end",
    )
});

/// An entry of the stream.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) webhook: WebhookId,
    /// The lease that was registered when the entry was added.
    pub(super) token: i64,
    /// What is due, if the entry says so.
    pub(super) notice: Option<Notice>,
}

/// A lease that is registered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registered {
    pub(super) webhook: WebhookId,
    pub(super) token: i64,
    pub(super) until: Instant,
}

/// This process, as a holder of lanes.
#[derive(Debug)]
pub(super) struct Holder {
    queues: Queues,
    keys: QueueKeys,
    name: String,
}

impl Holder {
    pub(super) fn new(queues: &Queues) -> Self {
        Self { queues: queues.clone(), keys: queues.keys(Queue::Lane), name: unique_name() }
    }

    /// Registers leases until they end.
    pub(super) async fn register(&self, leases: &[Registered]) {
        if !leases.is_empty()
            && let Err(error) = self.try_register(leases).await
        {
            tracing::debug!(error, "warm lanes were not registered; what is due is found by looking");
        }
    }

    async fn try_register(&self, leases: &[Registered]) -> Result<(), String> {
        let registering = async {
            let mut connection = self.queues.connection();
            let (seconds, micros): (u64, u64) = cmd("TIME").query_async(&mut connection).await?;
            // later than the moment at which Redis read its clock, so the ends below are never too late
            let read = Instant::now();
            let mut sets = pipe();
            for lease in leases {
                let left = lease.until.saturating_duration_since(read + MARGIN).as_millis();
                let end = u128::from(seconds * 1_000 + micros / 1_000) + left;
                sets.cmd("SET").arg(self.keys.holder(&lease.webhook.to_string()));
                sets.arg(self.registration(lease.token)).arg("PXAT").arg(u64::try_from(end).unwrap_or(1));
                sets.ignore();
            }
            sets.exec_async(&mut connection).await
        };
        bounded(registering).await
    }

    /// Ends registrations.
    pub(super) async fn unregister(&self, leases: &[(WebhookId, i64)]) {
        if leases.is_empty() {
            return;
        }
        let mut call = UNREGISTER.prepare_invoke();
        for (webhook, token) in leases {
            call.key(self.keys.holder(&webhook.to_string())).arg(self.registration(*token));
        }
        let mut connection = self.queues.connection();
        let ending = async move { call.invoke_async::<()>(&mut connection).await };
        if let Err(error) = bounded(ending).await {
            tracing::debug!(error, "warm lanes are still registered; their registrations expire");
        }
    }

    fn registration(&self, token: i64) -> String {
        format!("{token} {}", self.name)
    }

    /// Reads the stream until the process stops.
    pub(super) async fn read(&self, vault: &Vault, stop: &CancellationToken, mut heard: impl FnMut(Heard)) {
        let stream = self.keys.of_holder(&self.name);
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        let (mut connection, mut done) = (None, Vec::new());
        loop {
            let entries = tokio::select! {
                entries = self.entries(&stream, &mut connection, &done) => entries,
                () = stop.cancelled() => return,
            };
            match entries {
                Ok(reply) => {
                    backoff.reset();
                    done.clear();
                    for entry in reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids) {
                        let token = entry.get::<i64>("t");
                        if let Some(webhook) = entry.get::<String>("d").as_deref().and_then(WebhookId::parse)
                        {
                            let sealed = entry.get::<Vec<u8>>("c").unwrap_or_default();
                            let notice = Notice::open(vault, webhook, &sealed);
                            heard(Heard { webhook, token: token.unwrap_or(0), notice });
                        }
                        done.push(entry.id);
                    }
                }
                Err(error) => {
                    // the queues report that Redis is away
                    tracing::debug!(%error, "the stream of the warm lanes was not read");
                    connection = None;
                    tokio::select! {
                        () = sleep(backoff.next_delay()) => {}
                        () = stop.cancelled() => return,
                    }
                }
            }
        }
    }

    /// Removes what was read before, and reads what is there, from the start: the clock of Redis may be set back.
    async fn entries(
        &self,
        stream: &str,
        connection: &mut Option<RedisLink>,
        done: &[String],
    ) -> RedisResult<Option<StreamReadReply>> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(self.connect().await?),
        };
        let mut read = pipe();
        if !done.is_empty() {
            read.cmd("XDEL").arg(stream).arg(done).ignore();
        }
        read.cmd("XREAD")
            .arg("COUNT")
            .arg(READ)
            .arg("BLOCK")
            .arg(u64::try_from(BLOCK.as_millis()).unwrap_or(1));
        read.arg("STREAMS").arg(stream).arg("0");
        let (reply,): (Option<StreamReadReply>,) = read.query_async(connection).await?;
        Ok(reply)
    }

    async fn connect(&self) -> RedisResult<RedisLink> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECTION_TIMEOUT))
            .set_response_timeout(Some(BLOCK + RESPONSE_MARGIN));
        self.queues.server().connect(&config).await
    }
}

async fn bounded(work: impl Future<Output = Result<(), RedisError>>) -> Result<(), String> {
    match timeout(PATIENCE, work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err(format!("Redis did not answer within {PATIENCE:?}")),
    }
}
