//! The state of a queue, read at once.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::{GROUP, QueueKeys};
use crate::redis_server::RedisConnection;

/// A consumer that was heard of within this time counts; each reports several times in it.
pub(super) const ALIVE: Duration = Duration::from_secs(15);

/// KEYS: the stream. ARGV: the group, the age in milliseconds up to which a consumer is alive.
static STATS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local function records(what, ...)
  local found, list = redis.pcall('XINFO', what, KEYS[1], ...), {}
  if found.err then return list end
  for _, flat in ipairs(found) do
    local record = {}
    for i = 1, #flat, 2 do record[flat[i]] = flat[i + 1] end
    list[#list + 1] = record
  end
  return list
end
local pending, consumers, age = 0, 0, -1
for _, group in ipairs(records('GROUPS')) do
  if group.name == ARGV[1] then pending = group.pending end
end
for _, consumer in ipairs(records('CONSUMERS', ARGV[1])) do
  if consumer.idle <= tonumber(ARGV[2]) then consumers = consumers + 1 end
end
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
if first then
  local now = redis.call('TIME')
  age = math.max(0, now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(first[1]:match('^%d+')))
end
return {redis.call('XLEN', KEYS[1]), pending, consumers, age}",
    )
});

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Entries on the queue: waiting, running, and finished but not yet acknowledged.
    pub depth: u64,
    /// Those of them that a worker holds.
    pub pending: u64,
    /// Worker processes that read the queue, paused ones included.
    pub consumers: u64,
    /// How long ago the oldest entry was put on; `None` for an empty queue.
    pub oldest: Option<Duration>,
}

impl QueueStats {
    /// Entries that no worker holds.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.depth.saturating_sub(self.pending)
    }
}

pub(super) async fn read(
    keys: &QueueKeys,
    connection: &mut RedisConnection,
) -> redis::RedisResult<QueueStats> {
    let alive = u64::try_from(ALIVE.as_millis()).unwrap_or(u64::MAX);
    let (depth, pending, consumers, age): (u64, u64, u64, i64) =
        STATS.key(keys.stream()).arg(GROUP).arg(alive).invoke_async(connection).await?;
    let oldest = u64::try_from(age).ok().map(Duration::from_millis);
    Ok(QueueStats { depth, pending, consumers, oldest })
}
