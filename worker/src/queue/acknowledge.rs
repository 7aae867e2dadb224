//! Writes the outcomes of entries to Redis in batches.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use longshore_kernel::queue::{GROUP, marker_life_ms};
use longshore_kernel::retry::Backoff;
use redis::{RedisResult, Script, pipe};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use super::consumer::{Consumer, Report};
use super::entry::{DeadReason, Outcome, unless_group_gone};

/// The name of this step in the log of failures.
const ACKNOWLEDGE: &str = "acknowledge";

/// Outcomes per round trip.
const BATCH: usize = 1000;

/// How often a closing consumer checks whether it has handed everything back.
const CLOSING_LOOK: Duration = Duration::from_millis(5);

/// Approximate length of the dead stream.
const DEAD_KEPT: usize = 10_000;

/// Replaces an entry at once by a copy that keeps its count of earlier deliveries, and points the marker to
/// the copy. If the marker names another entry, the id was queued again meanwhile, and no copy is needed.
///
/// The copy comes first: if Redis refuses it, the script has changed nothing and is repeated.
///
/// KEYS: the stream, then a marker for each entry. ARGV: the group, the lifetime of markers in milliseconds,
/// then key, id and deliveries of each entry.
static GIVE_BACK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
for i = 2, #KEYS do
  local key, id, deliveries = unpack(ARGV, 3 * i - 3, 3 * i - 1)
  if #redis.call('XPENDING', KEYS[1], ARGV[1], key, key, 1) == 1 then
    local again = redis.call('GET', KEYS[i])
    local stands = again and #redis.call('XRANGE', KEYS[1], again, again) == 1
    if not stands and #redis.call('XRANGE', KEYS[1], key, key) == 1 then
      again = redis.call('XADD', KEYS[1], '*', 'd', id, 'n', deliveries)
      redis.call('SET', KEYS[i], again, 'PX', ARGV[2])
    end
    redis.call('XACK', KEYS[1], ARGV[1], key)
    redis.call('XDEL', KEYS[1], key)
  end
end",
    )
});

/// Moves an entry to the dead stream, once.
///
/// KEYS: the stream, the dead stream. ARGV: the group, how many dead entries to keep, key, id, reason, deliveries.
static PUT_ASIDE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[3]) == 1 then
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'd', ARGV[4], 'why', ARGV[5], 'n', ARGV[6], 'key', ARGV[3])
  redis.call('XDEL', KEYS[1], ARGV[3])
end",
    )
});

/// Writes outcomes as they come, until the consumer is closed and drained.
pub(super) async fn acknowledge(consumer: Arc<Consumer>, mut inbox: UnboundedReceiver<Report>) {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        if batch.is_empty() {
            // Read first: outcomes reported before the consumer was drained are in the inbox by then.
            let drained = consumer.is_drained();
            tokio::select! {
                biased;
                _ = inbox.recv_many(&mut batch, BATCH) => {}
                () = closing_look(&consumer) => if drained { return },
            }
            continue;
        }
        match write(&consumer, &batch).await {
            Ok(()) => {
                consumer.succeeded(ACKNOWLEDGE);
                backoff.reset();
                consumer.board().release(batch.iter().map(|(key, _)| key));
                batch.clear();
            }
            Err(error) => {
                consumer.failed(&error, ACKNOWLEDGE);
                // Closing does not interrupt this: the grace period bounds it.
                sleep(backoff.next_delay()).await;
            }
        }
    }
}

async fn closing_look(consumer: &Consumer) {
    consumer.closing.cancelled().await;
    sleep(CLOSING_LOOK).await;
}

/// Writes a batch. Every part can be repeated, because an error does not show which parts arrived.
async fn write(consumer: &Consumer, batch: &[Report]) -> RedisResult<()> {
    let mut done = Vec::new();
    let mut back = Vec::new();
    let mut later = Vec::new();
    let mut dead = Vec::new();
    for (key, outcome) in batch {
        match outcome {
            Outcome::Done => done.push(key),
            Outcome::GiveBack => back.push(key),
            Outcome::Later(wait) => later.push((key, *wait)),
            Outcome::Dead(reason) => dead.push((key, *reason)),
        }
    }
    end(consumer, &done).await?;
    give_back(consumer, &back).await?;
    put_off(consumer, &later).await?;
    for (key, reason) in &dead {
        put_aside(consumer, key, *reason).await?;
    }
    let counters = consumer.control.counters();
    Consumer::count(&counters.acknowledged, done.len());
    Consumer::count(&counters.given_back, back.len());
    Consumer::count(&counters.dead, dead.len());
    Ok(())
}

async fn end(consumer: &Consumer, done: &[&String]) -> RedisResult<()> {
    if done.is_empty() {
        return Ok(());
    }
    let stream = consumer.keys.stream();
    let mut pipe = pipe();
    // The order matters if only the first command runs: an entry deleted but still pending is cleaned up by
    // the next claim; one acknowledged but not deleted would stay for ever.
    pipe.cmd("XDEL").arg(stream).arg(done).ignore();
    pipe.cmd("XACK").arg(stream).arg(GROUP).arg(done).ignore();
    pipe.exec_async(&mut consumer.connection()).await
}

async fn give_back(consumer: &Consumer, back: &[&String]) -> RedisResult<()> {
    for keys in back.chunks(BATCH / 2) {
        let mut call = GIVE_BACK.key(consumer.keys.stream());
        call.arg(GROUP).arg(marker_life_ms());
        {
            let board = consumer.board();
            for key in keys {
                if let Some(held) = board.get(key) {
                    let marker = consumer.keys.marker(&String::from_utf8_lossy(&held.id));
                    let before = held.deliveries.saturating_sub(1);
                    call.key(marker).arg(key).arg(&held.id).arg(before);
                }
            }
        }
        call.invoke_async::<()>(&mut consumer.connection()).await?;
    }
    Ok(())
}

async fn put_off(consumer: &Consumer, later: &[(&String, Duration)]) -> RedisResult<()> {
    if later.is_empty() {
        return Ok(());
    }
    let mut pipe = pipe();
    for (key, wait) in later {
        // Its idle time reaches the visibility when the wait is over. The handler returned, so the entry is
        // no suspect.
        let idle = consumer.config.visibility.saturating_sub(*wait);
        pipe.cmd("XCLAIM").arg(consumer.keys.stream()).arg(GROUP).arg(&consumer.name).arg(0).arg(key);
        pipe.arg("IDLE").arg(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
        pipe.arg("RETRYCOUNT").arg(0).arg("JUSTID").ignore();
    }
    unless_group_gone(pipe.exec_async(&mut consumer.connection()).await)
}

async fn put_aside(consumer: &Consumer, key: &String, reason: DeadReason) -> RedisResult<()> {
    let Some(held) = consumer.board().get(key).cloned() else { return Ok(()) };
    let mut call = PUT_ASIDE.key(consumer.keys.stream());
    call.key(consumer.keys.dead()).arg(GROUP).arg(DEAD_KEPT).arg(key);
    call.arg(held.id).arg(reason.to_string()).arg(held.deliveries);
    call.invoke_async::<()>(&mut consumer.connection()).await
}
