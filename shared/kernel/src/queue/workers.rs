//! The readers of the queues, also those that died lately, and the entries of each.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::stats::ALIVE;
use super::{GROUP, Queue, QueueKeys};
use crate::redis_server::RedisConnection;

/// Readers of a queue that are listed.
const READERS: usize = 100;
/// Entries of a reader that are listed: those that it has held for longest.
const HELD: usize = 5;

/// KEYS: the stream. ARGV: the group, the age in milliseconds up to which a reader is alive, how many readers, how many
/// entries of each. Returns, for each reader, the living first: its name, its idle time, how many entries it holds, and the ids of
/// the first.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local found = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
local readers = {}
if found.err then return readers end
for _, wants_alive in ipairs({true, false}) do
  for _, flat in ipairs(found) do
    local consumer = {}
    for i = 1, #flat, 2 do consumer[flat[i]] = flat[i + 1] end
    if (consumer.idle <= tonumber(ARGV[2])) == wants_alive and #readers < tonumber(ARGV[3]) then
      local held = {}
      if consumer.pending > 0 then
        local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[4], consumer.name)
        for _, entry in ipairs(pending) do
          local kept = redis.call('XRANGE', KEYS[1], entry[1], entry[1])[1]
          if kept then held[#held + 1] = kept[2][2] end
        end
      end
      readers[#readers + 1] = {consumer.name, consumer.idle, consumer.pending, held}
    end
  end
end
return readers",
    )
});

/// One reader of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Which queue.
    pub queue: Queue,
    /// Its name: `<host>-<process id>-<start>`.
    pub name: String,
    /// How long ago it was heard of.
    pub silent: Duration,
    /// Entries that it holds.
    pub holds: u64,
    /// The ids of some of them, those it has held for longest first.
    pub first: Vec<String>,
}

/// A process that works: its readers, one a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// `<host>-<process id>`.
    pub name: String,
    /// Its readers, in the order of the queues.
    pub readers: Vec<Reader>,
}

impl Worker {
    /// How long ago any of its readers was heard of.
    #[must_use]
    pub fn silent(&self) -> Duration {
        self.readers.iter().map(|reader| reader.silent).min().unwrap_or_default()
    }

    /// Whether it died, or cannot reach Redis.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.silent() > ALIVE
    }
}

/// The name of the process in that of one of its readers.
#[must_use]
pub fn process_of(reader: &str) -> &str {
    reader.rsplit_once('-').map_or(reader, |(process, _)| process)
}

/// The processes behind readers, by name.
#[must_use]
pub fn grouped(mut readers: Vec<Reader>) -> Vec<Worker> {
    readers.sort_by(|a, b| (a.queue, &a.name).cmp(&(b.queue, &b.name)));
    let mut workers = BTreeMap::<String, Vec<Reader>>::new();
    for reader in readers {
        workers.entry(process_of(&reader.name).to_owned()).or_default().push(reader);
    }
    workers.into_iter().map(|(name, readers)| Worker { name, readers }).collect()
}

pub(super) async fn read(
    queue: Queue,
    keys: &QueueKeys,
    connection: &mut RedisConnection,
) -> redis::RedisResult<Vec<Reader>> {
    let alive = u64::try_from(ALIVE.as_millis()).unwrap_or(u64::MAX);
    let mut call = READ.key(keys.stream());
    call.arg(GROUP).arg(alive).arg(READERS).arg(HELD);
    let found: Vec<(String, u64, u64, Vec<String>)> = call.invoke_async(connection).await?;
    Ok(found
        .into_iter()
        .map(|(name, silent, holds, first)| Reader {
            queue,
            name,
            silent: Duration::from_millis(silent),
            holds,
            first,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_one_process_are_one_worker() {
        let reader = |queue, name: &str| Reader {
            queue,
            name: name.to_owned(),
            silent: Duration::ZERO,
            holds: 0,
            first: Vec::new(),
        };
        let workers = grouped(vec![
            reader(Queue::Lane, "box-7-00ff"),
            reader(Queue::Chunk, "box-7-00aa"),
            reader(Queue::Chunk, "my-box-8-00bb"),
        ]);
        let shown: Vec<_> = workers.iter().map(|w| (w.name.as_str(), w.readers.len())).collect();
        assert_eq!(shown, [("box-7", 2), ("my-box-8", 1)]);
        assert_eq!(workers[0].readers[0].queue, Queue::Chunk);
    }

    #[test]
    fn a_worker_is_gone_when_none_of_its_readers_was_heard_of_lately() {
        let reader = |queue, seconds| Reader {
            queue,
            name: "box-7-00ff".to_owned(),
            silent: Duration::from_secs(seconds),
            holds: 2,
            first: Vec::new(),
        };
        let worker = |seconds: [u64; 2]| {
            let readers = vec![reader(Queue::Lane, seconds[0]), reader(Queue::Chunk, seconds[1])];
            grouped(readers).remove(0)
        };
        let (one, none) = (worker([40, 1]), worker([40, 25]));
        assert_eq!((one.silent(), one.is_gone()), (Duration::from_secs(1), false));
        assert_eq!((none.silent(), none.is_gone()), (Duration::from_secs(25), true));
    }
}
