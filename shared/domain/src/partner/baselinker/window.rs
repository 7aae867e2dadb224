//! The limit: a number of requests per token in any window of time, over all workers and e-shops.
//!
//! A **slot** is the right to one request. It is taken before the request and stays taken until a whole window has passed
//! since the request *ended*: the partner counts a request at some time between the two, so no window of the partner ever
//! has more requests than there are slots, regardless of their duration. The slots of a dead worker stay taken for the
//! maximum duration of a request and one window.
//!
//! The slots of a token are one sorted set in Redis, with the times when they are free again as scores, by the clock of
//! Redis; taking and ending a slot are one script each.
//!
//! **Closed when in doubt.** Next to the slots is the time since when this very Redis has been counting: it is
//! missing after a flush, and does not match after a restart (from a snapshot that may lack the last seconds) or a
//! failover. Then no slot is given until every request that may have been sent before is out of every window. While Redis
//! is unavailable, no slot is given either: a missing request is only late, but one too many blocks the token of a whole
//! company.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::Script;

use super::TokenHash;
use longshore_kernel::ids::random_id;
use longshore_kernel::queue::Queues;

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// When to ask again while Redis is away.
const AWAY: Duration = Duration::from_secs(1);

/// The documented limit: 100 requests a minute.
pub const DOCUMENTED: Limit =
    Limit { requests: 100, window: Duration::from_mins(1), longest_request: Duration::from_secs(30) };

/// KEYS: the slots; since when this Redis counts. ARGV: how many slots there are; the window and the longest request, in
/// microseconds; a name for the slot. Returns whether a slot was taken, and otherwise in how many microseconds to ask again.
///
/// Numbers are written by `%.0f`: as Lua writes them itself, a moment in microseconds would lose its last digits.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local slots, window, longest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = now + longest + window
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or 'unknown'
local counts = redis.call('HMGET', KEYS[2], 'run', 'open')
local open = tonumber(counts[2] or '0')
-- another Redis than the one that counted, or one whose clock was set back
if counts[1] ~= run or open > full then
  open = full
  redis.call('HSET', KEYS[2], 'run', run, 'open', string.format('%.0f', open))
end
if open > now then return {0, open - now} end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
-- a clock that was set back must not keep a slot for longer than it can be needed
for _, late in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', full), '+inf')) do
  redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', full), late)
end
if redis.call('ZCARD', KEYS[1]) < slots then
  redis.call('ZADD', KEYS[1], string.format('%.0f', full), ARGV[4])
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((longest + window) / 1000) + 1000))
  return {1, 0}
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local wait = window
if first[2] then wait = math.min(tonumber(first[2]) - now, window) end
return {0, math.max(wait, 1)}",
    )
});

/// KEYS: the slots. ARGV: the name of one whose request has ended; the window, in microseconds.
static END: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local time = redis.call('TIME')
local free = time[1] * 1000000 + time[2] + tonumber(ARGV[2])
return redis.call('ZADD', KEYS[1], 'XX', 'LT', string.format('%.0f', free), ARGV[1])",
    )
});

/// How often one may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Requests in any stretch …
    pub requests: u32,
    /// … of this length.
    pub window: Duration,
    /// The longest that a request may last, from its slot to its last byte.
    pub longest_request: Duration,
}

/// Hands out slots; cheap to clone.
#[derive(Clone, Debug)]
pub struct Window {
    queues: Queues,
    limit: Limit,
}

/// What became of asking for a slot.
#[derive(Debug)]
pub enum Taken {
    /// Send the request.
    Slot(Slot),
    /// No slot is free, or the count is unknown; ask again after this time.
    Wait(Duration),
}

/// The right to one request.
#[derive(Debug)]
pub struct Slot {
    window: Window,
    key: String,
    name: String,
    /// By then the request must have ended.
    pub until: Instant,
}

impl Window {
    /// Slots in the Redis of the queues.
    #[must_use]
    pub fn new(queues: &Queues, limit: Limit) -> Self {
        Self { queues: queues.clone(), limit }
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Takes a slot of a token, leaving `spare` of them to those whose requests cannot wait.
    pub async fn take(&self, token: TokenHash, spare: u32) -> Taken {
        let name = random_id().to_string();
        let key = self.slots(&token.to_string());
        let until = Instant::now() + self.limit.longest_request;
        match self.ask(&key, self.limit.requests.saturating_sub(spare), &name).await {
            Some((1, _)) => Taken::Slot(Slot { window: self.clone(), key, name, until }),
            Some((_, wait)) => Taken::Wait(Duration::from_micros(wait)),
            None => Taken::Wait(AWAY),
        }
    }

    /// Has Redis begin to count, if it does not already: so that the first request after a start waits no longer than it
    /// must.
    pub async fn open(&self) {
        let _ = self.ask(&self.slots("none"), 0, "").await;
    }

    async fn ask(&self, slots: &str, count: u32, name: &str) -> Option<(u8, u64)> {
        let mut call = TAKE.key(slots);
        call.key(self.since()).arg(count).arg(micros(self.limit.window));
        call.arg(micros(self.limit.longest_request)).arg(name);
        let mut connection = self.queues.connection();
        match tokio::time::timeout(PATIENCE, call.invoke_async::<(u8, u64)>(&mut connection)).await {
            Ok(Ok(read)) => Some(read),
            Ok(Err(error)) => {
                tracing::warn!(%error, "BaseLinker is not called: Redis cannot count the requests");
                None
            }
            Err(_) => {
                tracing::warn!("BaseLinker is not called: Redis does not answer");
                None
            }
        }
    }

    /// One hash tag for all: every script has the second key too.
    fn tag(&self) -> String {
        format!("{{{}baselinker}}", self.queues.prefix())
    }

    fn slots(&self, token: &str) -> String {
        format!("{}:slots:{token}", self.tag())
    }

    /// The key that says since when this Redis counts.
    #[must_use]
    pub fn since(&self) -> String {
        format!("{}:since", self.tag())
    }
}

impl Slot {
    /// The request has ended, whichever way: the slot is free again a window from now.
    pub async fn end(self) {
        let mut call = END.key(&self.key);
        call.arg(&self.name).arg(micros(self.window.limit.window));
        let mut connection = self.window.queues.connection();
        let ended = tokio::time::timeout(PATIENCE, call.invoke_async::<i64>(&mut connection)).await;
        if !matches!(ended, Ok(Ok(_))) {
            tracing::debug!("a request slot was not released and will expire: Redis does not answer");
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
