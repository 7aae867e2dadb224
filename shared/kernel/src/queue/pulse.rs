//! The pulse of the database that Redis remembers ([`pulse`](crate::pulse)).

use std::sync::LazyLock;

use redis::Script;

use super::QueueKeys;
use crate::pulse::Pulse;
use crate::redis_server::RedisConnection;

/// KEYS: the memory. ARGV: epoch and number of a pulse and its whole text, which is empty if there is none.
static REMEMBER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local kept = redis.call('HMGET', KEYS[1], 'epoch', 'number', 'pulse')
if ARGV[3] == '' then return kept[3] end
local epoch, number = tonumber(kept[1] or -1), tonumber(kept[2] or -1)
local new_epoch, new_number = tonumber(ARGV[1]), tonumber(ARGV[2])
if new_epoch > epoch or (new_epoch == epoch and new_number > number) then
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'number', ARGV[2], 'pulse', ARGV[3])
  return ARGV[3]
end
return kept[3]",
    )
});

/// Lets Redis remember a pulse, and returns the highest that it remembers.
pub(super) async fn remember(
    keys: &QueueKeys,
    connection: &mut RedisConnection,
    known: Option<Pulse>,
) -> redis::RedisResult<Option<Pulse>> {
    let mut call = REMEMBER.key(keys.pulse());
    match known.and_then(|pulse| Some((pulse, serde_json::to_string(&pulse).ok()?))) {
        Some((pulse, text)) => call.arg(pulse.epoch).arg(pulse.number).arg(text),
        None => call.arg(0).arg(0).arg(""),
    };
    let kept: Option<String> = call.invoke_async(connection).await?;
    Ok(kept.and_then(|text| serde_json::from_str(&text).ok()))
}
