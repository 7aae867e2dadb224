//! Whether Redis can carry the queues: tried by writing, since a Redis past its `maxmemory` (or a replica, or one that
//! cannot save) answers reads, but refuses every write.

use std::time::{Duration, Instant};

use redis::RedisError;
use serde_json::{Map, Value, json};

use super::QueueKeys;
use crate::cause::causes;
use crate::redis_server::RedisConnection;

/// How long the key of a probe lives. The next probe writes the same key, so that probing takes no room.
const KEY_LIVES: Duration = Duration::from_secs(10);

/// Redis is nearly full from this share of `maxmemory` on.
const NEARLY_FULL: f64 = 0.8;

/// How Redis took the last probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisState {
    /// It took a write.
    Up,
    /// It answers, but refuses writes.
    RefusesWrites,
    /// It did not answer in time, or cannot be reached.
    Unreachable,
}

impl RedisState {
    /// Why it cannot carry the queues, as programs read it.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Up => None,
            Self::RefusesWrites => Some("refuses_writes"),
            Self::Unreachable => Some("unreachable"),
        }
    }
}

/// What a Redis holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// `used_memory`, in bytes.
    pub used: u64,
    /// `maxmemory`, in bytes; nothing where there is no limit.
    pub max: Option<u64>,
}

impl Memory {
    /// Reads `INFO memory`.
    #[must_use]
    pub fn of(info: &str) -> Option<Self> {
        let bytes = |name: &str| -> Option<u64> {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim().parse().ok()
        };
        Some(Self { used: bytes("used_memory")?, max: bytes("maxmemory").filter(|max| *max > 0) })
    }

    /// Whether little is left before writes are refused.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.max.is_some_and(|max| float(self.used) >= float(max) * NEARLY_FULL)
    }

    /// `1.3 MB used`, `52.1 of 64.0 MB used`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let (used, unit) = scaled(self.used);
        let Some(max) = self.max else { return format!("{used} {unit} used") };
        let (max, unit_of_max) = scaled(max);
        if unit == unit_of_max {
            format!("{used} of {max} {unit} used")
        } else {
            format!("{used} {unit} of {max} {unit_of_max} used")
        }
    }
}

/// Bytes as Redis itself writes them: a MB is 1,024 kB.
fn scaled(bytes: u64) -> (String, &'static str) {
    let (mut number, mut unit) = (float(bytes) / 1_024.0, "kB");
    for larger in ["MB", "GB", "TB"] {
        if number < 1_000.0 {
            break;
        }
        (number, unit) = (number / 1_024.0, larger);
    }
    (format!("{number:.1}"), unit)
}

#[expect(clippy::cast_precision_loss, reason = "shown, and compared, to a few digits")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// How Redis is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisHealth {
    /// Whether it can carry the queues.
    pub state: RedisState,
    /// What it said when it refused, or why it was not reached; for operators.
    pub error: Option<String>,
    /// What it holds, where it says so.
    pub memory: Option<Memory>,
    /// How long the write took.
    pub took: Duration,
}

impl RedisHealth {
    /// Whether it can carry the queues.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state == RedisState::Up
    }

    /// Whether it answers, though it may refuse writes.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.state != RedisState::Unreachable
    }

    /// The members by which an answer says so: `redis`, `redisReason` and `redisMemory`.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        let memory = self.memory.map(|memory| json!({"usedBytes": memory.used, "maxBytes": memory.max}));
        let mut fields = Map::new();
        fields.insert("redis".to_owned(), if self.is_up() { "up" } else { "down" }.into());
        fields.insert("redisReason".to_owned(), self.state.reason().into());
        fields.insert("redisMemory".to_owned(), memory.into());
        fields
    }
}

pub(super) async fn probe(keys: &QueueKeys, connection: &RedisConnection, limit: Duration) -> RedisHealth {
    let started = Instant::now();
    let write = async {
        let mut connection = connection.clone();
        let mut set = redis::cmd("SET");
        set.arg(keys.probe()).arg(1).arg("EX").arg(KEY_LIVES.as_secs());
        let written = tokio::time::timeout(limit, set.exec_async(&mut connection)).await;
        (written, started.elapsed())
    };
    let info = async {
        let mut connection = connection.clone();
        let mut info = redis::cmd("INFO");
        info.arg("memory");
        tokio::time::timeout(limit, info.query_async::<String>(&mut connection)).await.ok()?.ok()
    };
    let ((written, took), info) = tokio::join!(write, info);
    let (state, error) = match written {
        Ok(Ok(())) => (RedisState::Up, None),
        Ok(Err(error)) => match refusal(&error) {
            Some(refusal) => (RedisState::RefusesWrites, Some(refusal)),
            None => (RedisState::Unreachable, Some(causes(&error).to_string())),
        },
        Err(_) => (RedisState::Unreachable, Some(format!("no answer within {limit:?}"))),
    };
    RedisHealth { state, error, memory: info.as_deref().and_then(Memory::of), took }
}

/// What Redis itself answered, as it wrote it: an error with a code, and no full stop.
fn refusal(error: &RedisError) -> Option<String> {
    let code = error.code()?;
    let detail = error.detail().unwrap_or("no reason given");
    Some(format!("{code} {}", detail.trim_end_matches('.').replace('\n', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_and_shown_in_the_units_of_redis() {
        let info = "# Memory\r\nused_memory:1363149\r\nused_memory_human:1.30M\r\nmaxmemory:0\r\nmaxmemory_human:0B\r\n";
        let memory = Memory::of(info).unwrap();
        assert_eq!(memory, Memory { used: 1_363_149, max: None });
        assert_eq!(memory.in_words(), "1.3 MB used");
        let of = |used, max| Memory { used, max: Some(max) }.in_words();
        assert_eq!(of(54_630_809, 64 << 20), "52.1 of 64.0 MB used");
        assert_eq!(of(2_048, 2 << 30), "2.0 kB of 2.0 GB used");
        assert_eq!(Memory::of("used_memory_human:1.30M\r\n"), None);
    }

    #[test]
    fn redis_is_nearly_full_from_four_fifths_on_and_never_without_a_limit() {
        let is = |used, max| Memory { used, max }.is_nearly_full();
        assert!(!is(799, Some(1_000)));
        assert!(is(800, Some(1_000)));
        assert!(is(1_200, Some(1_000)));
        assert!(!is(u64::MAX, None));
    }
}
