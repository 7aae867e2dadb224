//! The write side of the queues: puts the ids of due work on Redis Streams for free workers.
//!
//! **Postgres is the record.** An entry carries an id, and nothing that is not in Postgres, so an empty Redis loses
//! nothing: the dispatcher finds in Postgres what is due and puts it on its queue again. An entry may reach a worker
//! twice; the claim in Postgres decides who does the work.
//!
//! - [`Queue`]: the queues there are. One more is one more variant, its name, and a worker registered for it.
//! - [`Queues`]: puts ids on a queue, at most once each while they wait: a *marker* key names the entry that holds the id.
//!   The read side (`worker::queue`) removes the marker before the handler reads Postgres, so work that becomes due from
//!   then on is queued again.
//! - [`Hint`]: the id of a lane, with the contents of a delivery if a worker holds the lane.
//! - [`control`]: an operator's settings of a queue, stored in Postgres; [`RedisHealth`]: whether Redis can be used.
//! - [`QueueKeys`]: all keys of a queue, under one hash tag, which Redis Cluster keeps in one slot.
//!
//! A marker counts only while its entry is on the stream: where the stream was deleted, trimmed or replaced, the next
//! `put` of the id adds it again. It lives [`MARKER_TTL`] at most; when an entry waits longer, its id can be on the
//! queue twice, which costs one look at Postgres.

mod beat;
pub mod control;
mod hand_over;
mod keys;
mod notice;
mod probe;
mod pulse;
mod stats;
mod workers;

pub use beat::{BEATS_EVERY, Beat, memory_in_use};
pub use hand_over::HAND_OVER_CAPACITY;
pub use keys::{Queue, QueueKeys};
pub use notice::{Hint, NOTICE_BYTES, NOTICES_WAITING, Notice};
pub use probe::{Memory, RedisHealth, RedisState};
pub use stats::QueueStats;
pub use workers::{Reader, Worker, grouped, process_of};

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{AsyncConnectionConfig, Script};

use crate::config::RedisSettings;
use crate::crypto::Vault;
use crate::outage::Outage;
use crate::pulse::Pulse;
use crate::redis_server::{InvalidUrl, RedisConnection, RedisServer};
use hand_over::HandOver;
use notice::{HINTS, PUT_HINTS, STREAM_LIVES, Sealed};

/// The consumer group of every queue's stream. Readers share the work by being members of it.
pub const GROUP: &str = "workers";

/// How long a marker may outlive its entry.
pub const MARKER_TTL: Duration = Duration::from_mins(10);

/// The field of an entry that holds the id.
pub const ID_FIELD: &str = "d";

/// Ids a round trip. One script call blocks Redis for about a millisecond.
const BATCH: usize = 500;

/// How long a connection attempt may take.
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// How long Redis may take to answer a command that does not block.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// KEYS: the stream, then a marker for each id. ARGV: the marker's life in milliseconds, then the ids.
///
/// The entry comes first: Redis undoes nothing when a script fails, and an entry without a marker costs a look, while a marker
/// without an entry would keep its id off the queue.
static PUT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local added = 0
for i = 2, #KEYS do
  local entry = redis.call('GET', KEYS[i])
  local found = entry and redis.call('XRANGE', KEYS[1], entry, entry)[1]
  -- a stream that was lost begins again, and may give the same entry to another id
  if not found or found[2][2] ~= ARGV[i] then
    entry = redis.call('XADD', KEYS[1], '*', 'd', ARGV[i])
    redis.call('SET', KEYS[i], entry, 'PX', ARGV[1])
    added = added + 1
  end
end
return added",
    )
});

/// What can go wrong on the way to a queue. None of it loses work: the dispatcher finds in Postgres what is due.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Redis did not answer in the time the caller gave. What was asked may have happened; asking again is safe.
    #[error("the queue did not answer within {0:?}")]
    Timeout(Duration),
    /// It is not said where Redis is.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// Redis refused, or could not be reached.
    #[error("the queue failed")]
    Redis(#[from] redis::RedisError),
    /// Braces in the prefix would end the hash tag early and spread a queue's keys over slots.
    #[error("a key prefix must not contain braces: {0:?}")]
    Prefix(String),
}

/// The write side, cheap to clone. Connects when first used, and again whenever the connection is lost.
#[derive(Clone)]
pub struct Queues {
    writer: Arc<Writer>,
    hand_over: HandOver,
}

/// What both the callers and the background task of [`Queues::hand_over`] write with.
struct Writer {
    server: RedisServer,
    prefix: String,
    connection: RedisConnection,
    outage: Outage<(Queue, &'static str)>,
    /// Ids that could not be put, by queue.
    failed: [AtomicU64; Queue::ALL.len()],
}

impl Queues {
    /// Prepares the write side; must be called within a tokio runtime. `prefix` opens every key, so that several
    /// installations may share a Redis.
    ///
    /// # Errors
    /// [`QueueError::Prefix`]; never because Redis is away.
    pub fn new(server: impl Into<RedisServer>, prefix: &str) -> Result<Self, QueueError> {
        if prefix.contains(['{', '}']) {
            return Err(QueueError::Prefix(prefix.to_owned()));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECTION_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_pipeline_buffer_size(1024);
        let server = server.into();
        let connection = server.shared(config);
        let writer = Arc::new(Writer {
            server,
            prefix: prefix.to_owned(),
            connection,
            outage: Outage::default(),
            failed: Default::default(),
        });
        Ok(Self { hand_over: HandOver::start(Arc::clone(&writer)), writer })
    }

    /// By the settings.
    pub fn open(settings: &RedisSettings) -> Result<Self, QueueError> {
        Self::new(RedisServer::parse(&settings.redis_url)?, &settings.queue_prefix)
    }

    /// Whether Redis takes a write within the limit, and how full it is.
    pub async fn probe(&self, limit: Duration) -> RedisHealth {
        probe::probe(&self.keys(Queue::Chunk), &self.writer.connection, limit).await
    }

    /// How many ids this process could not put on a queue since it started. The dispatcher put them on later, or will.
    #[must_use]
    pub fn failed(&self, queue: Queue) -> u64 {
        self.writer.failed[queue as usize].load(Relaxed)
    }

    /// Where it is, for a connection of one's own (a blocking read).
    #[must_use]
    pub fn server(&self) -> &RedisServer {
        &self.writer.server
    }

    /// The shared connection, for commands that do not block.
    #[must_use]
    pub fn connection(&self) -> RedisConnection {
        self.writer.connection.clone()
    }

    /// Whether Redis is away, as all readers of this process see it: which queue, and what was asked of it.
    #[must_use]
    pub fn outage(&self) -> &Outage<(Queue, &'static str)> {
        &self.writer.outage
    }

    /// What every key starts with (inside the hash tag).
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.writer.prefix
    }

    /// The key names of a queue.
    #[must_use]
    pub fn keys(&self, queue: Queue) -> QueueKeys {
        self.writer.keys(queue)
    }

    /// Puts ids on a queue unless they are on it already, and says how many were added. Safe to repeat.
    ///
    /// # Errors
    /// [`QueueError::Timeout`] after `limit`, [`QueueError::Redis`]; some of the ids may be on the queue then.
    pub async fn put(&self, queue: Queue, ids: &[String], limit: Duration) -> Result<usize, QueueError> {
        self.writer.put_within(queue, ids, limit).await
    }

    /// Hands ids over after the commit that made them due: never waits, never fails. They are gathered and put on
    /// the queue in the background, tried once within a second; what does not arrive is left to the dispatcher.
    pub fn hand_over(&self, queue: Queue, ids: impl IntoIterator<Item = String>) {
        self.hand_over.send(queue, ids);
    }

    /// The same for hints of lanes, whose contents are sealed.
    pub fn hand_over_hints(&self, vault: &Vault, hints: impl IntoIterator<Item = Hint>) {
        self.hand_over.send_hints(vault, hints);
    }

    /// The state of a queue.
    ///
    /// # Errors
    /// [`QueueError::Redis`].
    pub async fn stats(&self, queue: Queue) -> Result<QueueStats, QueueError> {
        Ok(stats::read(&self.keys(queue), &mut self.connection()).await?)
    }

    /// Says what this worker is at; `worker` is the name of its process.
    ///
    /// # Errors
    /// [`QueueError::Redis`].
    pub async fn beat(&self, worker: &str, beat: &Beat) -> Result<(), QueueError> {
        Ok(beat::write(&self.keys(Queue::Upkeep), &mut self.connection(), worker, beat).await?)
    }

    /// What workers said of themselves last, by the names of their processes.
    ///
    /// # Errors
    /// [`QueueError::Redis`].
    pub async fn beats(&self, workers: &[&str]) -> Result<Vec<Option<Beat>>, QueueError> {
        Ok(beat::read(&self.keys(Queue::Upkeep), &mut self.connection(), workers).await?)
    }

    /// Lets Redis remember a pulse of the database, and returns the highest that it remembers.
    ///
    /// # Errors
    /// [`QueueError::Redis`].
    pub async fn remember(&self, known: Option<Pulse>) -> Result<Option<Pulse>, QueueError> {
        Ok(pulse::remember(&self.keys(Queue::Upkeep), &mut self.connection(), known).await?)
    }

    /// The readers of a queue, those that are alive first, and the entries of each. One whose process died is among them until
    /// others have taken over what it held, and some minutes longer.
    ///
    /// # Errors
    /// [`QueueError::Redis`].
    pub async fn readers(&self, queue: Queue) -> Result<Vec<Reader>, QueueError> {
        Ok(workers::read(queue, &self.keys(queue), &mut self.connection()).await?)
    }

    /// How many entries of a queue were put aside because they could not be worked on.
    ///
    /// # Errors
    /// [`QueueError::Redis`].
    pub async fn put_aside(&self, queue: Queue) -> Result<u64, QueueError> {
        let mut connection = self.connection();
        Ok(redis::cmd("XLEN").arg(self.keys(queue).dead()).query_async(&mut connection).await?)
    }

    /// Forgets that ids are on a queue: their work starts now, and later due work must be queued again. The read side does
    /// this itself for what it fetches.
    ///
    /// # Errors
    /// [`QueueError::Redis`]; the markers expire after [`MARKER_TTL`].
    pub async fn taken(&self, queue: Queue, ids: &[String]) -> Result<(), QueueError> {
        let keys = self.keys(queue);
        for ids in ids.chunks(BATCH) {
            keys.clear_markers(ids).exec_async(&mut self.connection()).await?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the client: its address may hold a password.
        f.debug_struct("Queues").field("prefix", &self.prefix()).finish_non_exhaustive()
    }
}

impl Writer {
    fn keys(&self, queue: Queue) -> QueueKeys {
        QueueKeys::new(&self.prefix, queue)
    }

    async fn put_within(&self, queue: Queue, ids: &[String], limit: Duration) -> Result<usize, QueueError> {
        let put = tokio::time::timeout(limit, self.put(queue, ids)).await;
        self.counted(queue, ids.len(), put.unwrap_or(Err(QueueError::Timeout(limit))))
    }

    async fn put_hints_within(&self, hints: &[Sealed], limit: Duration) -> Result<usize, QueueError> {
        let put = tokio::time::timeout(limit, self.put_hints(hints)).await;
        self.counted(Queue::Lane, hints.len(), put.unwrap_or(Err(QueueError::Timeout(limit))))
    }

    fn counted<T>(&self, queue: Queue, count: usize, put: Result<T, QueueError>) -> Result<T, QueueError> {
        if put.is_err() {
            self.failed[queue as usize].fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Relaxed);
        }
        put
    }

    async fn put_hints(&self, hints: &[Sealed]) -> Result<usize, QueueError> {
        let keys = self.keys(Queue::Lane);
        let mut connection = self.connection.clone();
        let mut added = 0;
        for hints in hints.chunks(HINTS) {
            let mut call = PUT_HINTS.key(keys.stream());
            call.arg(marker_life_ms()).arg(NOTICES_WAITING);
            call.arg(u64::try_from(STREAM_LIVES.as_millis()).unwrap_or(u64::MAX)).arg(keys.of_holder(""));
            for hint in hints {
                let id = hint.lane.to_string();
                call.key(keys.holder(&id)).key(keys.marker(&id));
                call.arg(id).arg(hint.notice.as_deref().unwrap_or_default());
            }
            added += call.invoke_async::<usize>(&mut connection).await?;
        }
        Ok(added)
    }

    async fn put(&self, queue: Queue, ids: &[String]) -> Result<usize, QueueError> {
        let keys = self.keys(queue);
        let mut connection = self.connection.clone();
        let mut added = 0;
        for ids in ids.chunks(BATCH) {
            let mut call = PUT.key(keys.stream());
            call.arg(marker_life_ms());
            for id in ids {
                call.key(keys.marker(id)).arg(id);
            }
            added += call.invoke_async::<usize>(&mut connection).await?;
        }
        Ok(added)
    }
}

/// [`MARKER_TTL`] as Redis takes it.
#[must_use]
pub fn marker_life_ms() -> u64 {
    u64::try_from(MARKER_TTL.as_millis()).unwrap_or(u64::MAX)
}
