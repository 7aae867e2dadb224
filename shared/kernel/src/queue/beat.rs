//! What a worker says of itself every few seconds: its version, since when it works, and its memory. Redis keeps the last word of a
//! worker for some minutes after its death: an operator sees how much memory it used then.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::QueueKeys;
use crate::redis_server::RedisConnection;

/// How often a worker says it.
pub const BEATS_EVERY: Duration = Duration::from_secs(5);
/// How long the last word is kept.
const KEPT: Duration = Duration::from_mins(15);

/// What a worker said last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Its version.
    pub version: String,
    /// Since when it works.
    pub since: DateTime<Utc>,
    /// When it said so.
    pub at: DateTime<Utc>,
    /// Bytes of memory that it uses; absent where the system does not say it.
    pub memory: Option<u64>,
}

impl Beat {
    /// That of this process.
    #[must_use]
    pub fn of_this_process(since: DateTime<Utc>, at: DateTime<Utc>) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), since, at, memory: memory_in_use() }
    }
}

/// Bytes of memory that this process uses; absent where the system does not say it.
#[must_use]
pub fn memory_in_use() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// The resident memory in `/proc/<process>/status`, which has it in kilobytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

pub(super) async fn write(
    keys: &QueueKeys,
    connection: &mut RedisConnection,
    worker: &str,
    beat: &Beat,
) -> redis::RedisResult<()> {
    let text = serde_json::to_string(beat).unwrap_or_default();
    redis::cmd("SET")
        .arg(keys.worker(worker))
        .arg(text)
        .arg("EX")
        .arg(KEPT.as_secs())
        .exec_async(connection)
        .await
}

/// What these workers said last; `None` for an unknown one.
pub(super) async fn read(
    keys: &QueueKeys,
    connection: &mut RedisConnection,
    workers: &[&str],
) -> redis::RedisResult<Vec<Option<Beat>>> {
    if workers.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = redis::cmd("MGET");
    for worker in workers {
        call.arg(keys.worker(worker));
    }
    let found: Vec<Option<String>> = call.query_async(connection).await?;
    Ok(found.into_iter().map(|text| serde_json::from_str(&text?).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_read_in_bytes() {
        assert_eq!(resident("Name:\tlongshore\nVmRSS:\t   32768 kB\nThreads:\t4\n"), Some(33_554_432));
        for odd in ["", "VmRSS:\tmuch kB", "VmRSS: 12", "VmRSS: 18446744073709551615 kB"] {
            assert_eq!(resident(odd), None, "{odd}");
        }
    }
}
