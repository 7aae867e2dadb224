//! Rate limits: one rate, counted in Redis, so that it applies across all processes.
//!
//! The generic cell rate algorithm: a bucket is one number, the moment at which it would be full again, and one script
//! reads and moves it by Redis's own clock. A full bucket needs no key, so keys expire.
//!
//! **An outage of Redis never fails a request** (`docs/reference/errors.md#status-codes`), nor lifts the limit: if Redis does
//! not answer in time, the process counts itself, at the same rate, in local buckets ([`local`]). A Redis whose connection
//! fails is not asked for [`PAUSE`], so that a stalled one does not delay each request.

mod local;

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{AsyncConnectionConfig, Script};
use uuid::Uuid;

use self::local::Buckets;
use crate::queue::{CONNECTION_TIMEOUT, Queues};
use crate::redis_server::RedisConnection;

/// How long a Redis that has just failed to answer is not asked.
pub const PAUSE: Duration = Duration::from_secs(1);

/// How long an abandoned answer is still expected on the connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

const MICROSECONDS: u64 = 1_000_000;

/// KEYS: the bucket. ARGV: microseconds that one request takes to come back, and how many fit into a full bucket.
/// Returns whether a token was taken, how many are left, and in how many microseconds the bucket is full and has a token again.
///
/// Numbers are written by `%.0f`: as Lua writes them itself, a moment in microseconds would lose its last digits.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local room = interval * burst
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
-- a clock that was set back must not lock anybody out
full = math.min(full, now + room)
if full + interval - now > room then
  return {0, 0, full - now, full + interval - now - room}
end
full = full + interval
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', string.format('%.0f', math.ceil((full - now) / 1000)))
return {1, math.floor((room - (full - now)) / interval), full - now, 0}",
    )
});

/// A rate: so many a second on average, so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u32,
    burst: u32,
}

impl Rate {
    /// `None` where there is nothing to limit.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Option<Self> {
        (per_second > 0 && burst > 0).then_some(Self { per_second, burst })
    }

    /// How many fit at once.
    #[must_use]
    pub fn burst(self) -> u32 {
        self.burst
    }

    /// In how many seconds an empty bucket is full again, rounded up.
    #[must_use]
    pub fn window_seconds(self) -> u32 {
        self.burst.div_ceil(self.per_second)
    }

    fn interval(self) -> u64 {
        (MICROSECONDS / u64::from(self.per_second)).max(1)
    }
}

/// The state of a bucket after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Whether one was taken from it.
    pub allowed: bool,
    /// How many are left.
    pub remaining: u64,
    /// When it is full again.
    pub full_in: Duration,
    /// When there is one to take again; zero where one was taken.
    pub retry_in: Duration,
    /// The process counted itself: Redis did not answer in time.
    pub is_local: bool,
}

/// Counts; cheap to clone.
#[derive(Clone)]
pub struct RateLimiter {
    connection: RedisConnection,
    prefix: Arc<str>,
    rate: Rate,
    patience: Duration,
    paused_until: Arc<Mutex<Option<Instant>>>,
    buckets: Arc<Mutex<Buckets>>,
}

impl RateLimiter {
    /// Counts on the Redis of the queues, over a separate connection; must be called within a tokio runtime.
    /// `patience` is how long Redis may take.
    #[must_use]
    pub fn new(queues: &Queues, rate: Rate, patience: Duration) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECTION_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT.max(patience)));
        let connection = queues.server().shared(config);
        let buckets = Arc::new(Mutex::new(Buckets::new(rate)));
        Self {
            connection,
            prefix: queues.prefix().into(),
            rate,
            patience,
            paused_until: Arc::default(),
            buckets,
        }
    }

    /// The rate that holds.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes one token from a bucket.
    pub async fn take(&self, who: Uuid) -> Allowance {
        match self.ask(who).await {
            Some(standing) => standing,
            None => self.buckets.lock().unwrap_or_else(PoisonError::into_inner).take(who, Instant::now()),
        }
    }

    /// What Redis says; `None` where it does not in time.
    async fn ask(&self, who: Uuid) -> Option<Allowance> {
        if self.is_paused() {
            return None;
        }
        let (key, rate) = (format!("{}rate:{who}", self.prefix), self.rate);
        let mut connection = self.connection.clone();
        let mut asked = Box::pin(async move {
            let mut call = TAKE.key(key);
            call.arg(rate.interval()).arg(rate.burst);
            call.invoke_async::<(u8, u64, u64, u64)>(&mut connection).await
        });
        match tokio::time::timeout(self.patience, &mut asked).await {
            Ok(Ok((allowed, remaining, full_in, retry_in))) => {
                self.resume();
                Some(Allowance {
                    allowed: allowed == 1,
                    remaining,
                    full_in: Duration::from_micros(full_in),
                    retry_in: Duration::from_micros(retry_in),
                    is_local: false,
                })
            }
            Ok(Err(error)) => {
                self.pause(&error);
                None
            }
            Err(_) => {
                // one late answer says nothing of the next; that none comes at all does
                let limiter = self.clone();
                tokio::spawn(async move {
                    if let Err(error) = asked.await {
                        limiter.pause(&error);
                    }
                });
                None
            }
        }
    }

    fn is_paused(&self) -> bool {
        let paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        paused.is_some_and(|until| Instant::now() < until)
    }

    fn pause(&self, why: &redis::RedisError) {
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        // one line for the whole time
        if paused.is_none() {
            tracing::warn!(error = %why, "Redis does not count requests; each process counts its own");
        }
        *paused = Some(Instant::now() + PAUSE);
    }

    fn resume(&self) {
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        // an answer that was on its way when the next call failed ends no pause
        if paused.is_some_and(|until| until <= Instant::now()) {
            *paused = None;
            tracing::info!("Redis counts requests again");
        }
    }
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter").field("rate", &self.rate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_0_is_no_limit() {
        assert_eq!(Rate::new(0, 500), None);
        assert_eq!(Rate::new(100, 0), None);
        assert!(Rate::new(1, 1).is_some());
    }

    #[test]
    fn a_window_is_the_time_in_which_a_bucket_fills() {
        let window = |rate, burst| Rate::new(rate, burst).map(Rate::window_seconds);
        assert_eq!(window(100, 500), Some(5));
        assert_eq!(window(100, 501), Some(6));
        assert_eq!(window(100, 1), Some(1));
    }
}
