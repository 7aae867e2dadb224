//! The periodic tasks of a consumer: it keeps its entries alive, shows that it is alive itself, removes
//! consumers that are gone for good, and checks for a stop or a pause.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use longshore_kernel::queue::GROUP;
use redis::{RedisResult, Script, cmd, pipe};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::consumer::Consumer;
use super::entry::unless_group_gone;

/// The name of this step in the log of failures.
const KEEP_ALIVE: &str = "keep alive";

/// How often to check for a stop: apalis does not notify its backend.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Entries per claim.
const BATCH: usize = 500;

/// Reading one's own pending entries from here returns nothing, but resets the idle time of the consumer.
const END_OF_STREAM: &str = "18446744073709551614-0";

/// Removes consumers that hold nothing and were silent, in one atomic step: removing a consumer discards the
/// entries that it has just received.
///
/// KEYS: the stream. ARGV: the group, the minimum silence in milliseconds, and optionally the only consumer
/// to remove.
static FORGET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if consumers.err then return 0 end
local removed = 0
for _, flat in ipairs(consumers) do
  local consumer = {}
  for i = 1, #flat, 2 do consumer[flat[i]] = flat[i + 1] end
  if consumer.pending == 0 and consumer.idle >= tonumber(ARGV[2]) and (not ARGV[3] or consumer.name == ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
    removed = removed + 1
  end
end
return removed",
    )
});

/// Runs until it is dropped, which happens when nothing is held any more.
pub(super) async fn keep_alive(consumer: Arc<Consumer>, is_shutting_down: impl Fn() -> bool) {
    let mut alive = every(consumer.config.visibility / 3);
    let mut sweep = every(consumer.config.forget_consumer / 5);
    let mut look = every(LOOK_EVERY);
    let mut wishes = consumer.control.wishes();
    loop {
        tokio::select! {
            _ = alive.tick() => match claim_held(&consumer).await {
                // this runs every second, so its success also clears failures of the other steps
                Ok(()) => consumer.succeeded(KEEP_ALIVE),
                failed => attempt(&consumer, failed),
            },
            _ = sweep.tick() => attempt(&consumer, forget_silent(&consumer).await),
            _ = look.tick() => {
                if is_shutting_down() {
                    consumer.stop();
                }
            }
            // Cannot fail: the consumer holds the sender.
            _ = wishes.changed() => consumer.wish_changed(),
        }
        if consumer.stopping.is_cancelled() || consumer.control.is_paused() {
            attempt(&consumer, unblock(&consumer).await);
        }
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period.max(Duration::from_millis(1)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

fn attempt(consumer: &Consumer, result: RedisResult<()>) {
    if let Err(error) = result {
        consumer.failed(&error, KEEP_ALIVE);
    }
}

async fn claim_held(consumer: &Consumer) -> RedisResult<()> {
    let held = consumer.board().held_keys();
    let stream = consumer.keys.stream();
    let mut pipe = pipe();
    for keys in held.chunks(BATCH) {
        pipe.cmd("XCLAIM").arg(stream).arg(GROUP).arg(&consumer.name).arg(0);
        pipe.arg(keys).arg("IDLE").arg(0).arg("JUSTID").ignore();
    }
    pipe.cmd("XREADGROUP").arg("GROUP").arg(GROUP).arg(&consumer.name).arg("COUNT").arg(1);
    pipe.arg("STREAMS").arg(stream).arg(END_OF_STREAM).ignore();
    unless_group_gone(pipe.exec_async(&mut consumer.connection()).await)
}

async fn forget_silent(consumer: &Consumer) -> RedisResult<()> {
    let idle = u64::try_from(consumer.config.forget_consumer.as_millis()).unwrap_or(u64::MAX);
    let mut call = FORGET.key(consumer.keys.stream());
    call.arg(GROUP).arg(idle).invoke_async::<()>(&mut consumer.connection()).await
}

/// Leaves the group, unless entries are still pending for this consumer: others must take those over first.
pub(super) async fn forget_self(consumer: &Consumer) -> RedisResult<()> {
    let mut call = FORGET.key(consumer.keys.stream());
    call.arg(GROUP).arg(0).arg(&consumer.name).invoke_async::<()>(&mut consumer.connection()).await
}

/// Ends the blocked read. It is repeated with every tick, since one sent before the read reaches Redis does
/// nothing.
async fn unblock(consumer: &Consumer) -> RedisResult<()> {
    match consumer.blocked.load(SeqCst) {
        0 => Ok(()),
        id => cmd("CLIENT").arg("UNBLOCK").arg(id).exec_async(&mut consumer.connection()).await,
    }
}
