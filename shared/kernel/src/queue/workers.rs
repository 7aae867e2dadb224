//! The current readers of the queues, and the entries of each.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;
use redis::aio::ConnectionManager;

use super::stats::ALIVE;
use super::{GROUP, Queue, QueueKeys};

/// Readers of a queue that are listed.
const READERS: usize = 100;
/// Entries of a reader that are listed: those that it has held for longest.
const HELD: usize = 5;

/// KEYS: the stream. ARGV: the group, the age in milliseconds up to which a reader is alive, how many readers, how many
/// entries of each. Returns, for each reader: its name, its idle time, how many entries it holds, and the ids of the first.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local found = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
local readers = {}
if found.err then return readers end
for _, flat in ipairs(found) do
  local consumer = {}
  for i = 1, #flat, 2 do consumer[flat[i]] = flat[i + 1] end
  if consumer.idle <= tonumber(ARGV[2]) and #readers < tonumber(ARGV[3]) then
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

/// The processes behind readers, by name.
#[must_use]
pub fn grouped(mut readers: Vec<Reader>) -> Vec<Worker> {
    readers.sort_by(|a, b| (a.queue, &a.name).cmp(&(b.queue, &b.name)));
    let mut workers = BTreeMap::<String, Vec<Reader>>::new();
    for reader in readers {
        let process = reader.name.rsplit_once('-').map_or(reader.name.as_str(), |(process, _)| process);
        workers.entry(process.to_owned()).or_default().push(reader);
    }
    workers.into_iter().map(|(name, readers)| Worker { name, readers }).collect()
}

pub(super) async fn read(
    queue: Queue,
    keys: &QueueKeys,
    connection: &mut ConnectionManager,
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
}
