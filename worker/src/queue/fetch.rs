//! Reads the stream: one blocking read after another, on its own connection.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use longshore_kernel::queue::{CONNECTION_TIMEOUT, GROUP};
use longshore_kernel::redis_server::RedisLink;
use longshore_kernel::retry::Backoff;
use redis::{AsyncConnectionConfig, RedisResult, cmd};
use tokio::time::sleep;
use tracing::warn;

use super::consumer::{Consumer, FETCH};
use super::entry::{ClaimedEntries, Entry, is_group_gone};
use super::take_over;

/// How much longer than [`Config::block`](super::Config::block) a read may take before its connection is
/// closed.
const RESPONSE_MARGIN: Duration = Duration::from_secs(3);

/// With a backlog, a worker whose slots free up one by one waits this long, so that one round trip brings
/// several entries.
const GATHER: Duration = Duration::from_micros(500);

/// While suspects wait for their turn, a read waits no longer than this for new entries.
const SUSPECTS_WAIT: Duration = Duration::from_millis(100);

/// Fetches as many entries as may start, until stopping; then gives back those that have not started.
pub(super) async fn fetch(consumer: Arc<Consumer>) {
    let mut reader = Reader { consumer: &consumer, connection: None, looked: None };
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    let mut backlog = false;
    while let Some(mut free) = consumer.free_slots().await {
        if backlog && free < consumer.control.concurrency().min(consumer.config.read_at_most) / 4 {
            sleep(GATHER).await;
            free = consumer.free_slots().await.unwrap_or(free);
        }
        match reader.read(free).await {
            Ok(entries) => {
                consumer.succeeded(FETCH);
                backoff.reset();
                backlog = entries.len() >= free;
                if !entries.is_empty() {
                    consumer.accept(entries);
                }
            }
            Err(error) if is_group_gone(&error) && reader.join_group().await.is_ok() => {
                warn!("the consumer group was missing; creating it again");
            }
            Err(error) => {
                consumer.failed(&error, FETCH);
                reader.connection = None;
                tokio::select! {
                    () = sleep(backoff.next_delay()) => {}
                    () = consumer.stopping.cancelled() => {}
                }
            }
        }
    }
    consumer.give_back_waiting();
}

struct Reader<'a> {
    consumer: &'a Arc<Consumer>,
    connection: Option<Connected>,
    /// When the last look for abandoned entries left none waiting.
    looked: Option<Instant>,
}

#[derive(Clone)]
struct Connected {
    connection: RedisLink,
    /// The id for `CLIENT UNBLOCK`.
    client_id: i64,
}

impl Reader<'_> {
    /// Reads up to `free` entries: those lost with a former connection, else abandoned ones, else new ones.
    /// It clears their markers, so that ids that become due from now on are queued again.
    async fn read(&mut self, free: usize) -> RedisResult<Vec<Entry>> {
        let consumer = self.consumer;
        let config = &consumer.config;
        let mut block = config.block;
        let mut entries = Vec::new();
        let Connected { mut connection, client_id } = if let Some(connected) = &self.connection {
            connected.clone()
        } else {
            let mut connected = connect(consumer).await?;
            entries = take_over::lost(consumer, &mut connected.connection, free).await?;
            self.connection.insert(connected).clone()
        };
        if entries.is_empty() && self.looked.is_none_or(|at| at.elapsed() >= config.claim_every) {
            let abandoned = take_over::abandoned(consumer, &mut connection, free).await?;
            entries = abandoned.entries;
            if abandoned.more {
                block = block.min(SUSPECTS_WAIT);
            } else {
                self.looked = Some(Instant::now());
            }
        }
        if entries.is_empty() {
            consumer.blocked.store(client_id, SeqCst);
            let new = read_new(consumer, &mut connection, free, block).await;
            consumer.blocked.store(0, SeqCst);
            entries = new?;
        }
        if !entries.is_empty() {
            consumer.keys.clear_markers(entries.iter().map(Entry::text)).exec_async(&mut connection).await?;
        }
        Ok(entries)
    }

    async fn join_group(&mut self) -> RedisResult<()> {
        match &mut self.connection {
            Some(connected) => join_group(self.consumer, &mut connected.connection).await,
            None => Ok(()), // connecting joins it
        }
    }
}

async fn connect(consumer: &Consumer) -> RedisResult<Connected> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTION_TIMEOUT))
        .set_response_timeout(Some(consumer.config.block + RESPONSE_MARGIN));
    let mut connection = consumer.queues.server().connect(&config).await?;
    join_group(consumer, &mut connection).await?;
    let client_id = cmd("CLIENT").arg("ID").query_async(&mut connection).await?;
    Ok(Connected { connection, client_id })
}

async fn join_group(consumer: &Consumer, connection: &mut RedisLink) -> RedisResult<()> {
    // From 0, not $: entries added before the group existed must be delivered.
    let mut create = cmd("XGROUP");
    create.arg("CREATE").arg(consumer.keys.stream()).arg(GROUP).arg("0").arg("MKSTREAM");
    match create.exec_async(connection).await {
        Err(error) if error.code() != Some("BUSYGROUP") => return Err(error),
        _ => {}
    }
    // Before Redis 7.2, a waiting read does not create the consumer, and operators would not see this worker
    // until an entry arrives.
    let mut join = cmd("XGROUP");
    join.arg("CREATECONSUMER").arg(consumer.keys.stream()).arg(GROUP).arg(&consumer.name);
    join.exec_async(connection).await
}

async fn read_new(
    consumer: &Consumer,
    connection: &mut RedisLink,
    free: usize,
    block: Duration,
) -> RedisResult<Vec<Entry>> {
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg(GROUP).arg(&consumer.name).arg("COUNT").arg(free);
    // 0 would block for ever.
    read.arg("BLOCK").arg(u64::try_from(block.as_millis()).unwrap_or(u64::MAX).max(1));
    read.arg("STREAMS").arg(consumer.keys.stream()).arg(">");
    let reply: Option<Vec<(String, ClaimedEntries)>> = read.query_async(connection).await?;
    let found = reply.into_iter().flatten().flat_map(|(_, found)| found);
    let board = consumer.board();
    // A re-created group delivers from the start, so even a read for new entries may return held ones.
    let unseen = found.filter(|(key, _)| !board.holds(key));
    Ok(unseen.filter_map(|(key, fields)| Some(Entry::new(key, fields?, 1))).collect())
}
