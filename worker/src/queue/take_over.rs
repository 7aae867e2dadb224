//! Takes over entries whose owner went silent, and entries that were lost on their way to this process.
//!
//! A task that kills its process takes its neighbours with it, and afterwards all of them look alike. So an
//! entry that was delivered twice without a result is a *suspect*, and a process runs one suspect at a time:
//! only the culprit collects further deliveries. `XAUTOCLAIM` is no alternative: it returns no delivery
//! counts, and raises all of them.

use std::collections::{BTreeMap, HashMap};

use longshore_kernel::queue::GROUP;
use longshore_kernel::redis_server::RedisLink;
use redis::{RedisResult, cmd, pipe};
use tracing::info;

use super::board::SUSPECT_AFTER;
use super::consumer::Consumer;
use super::entry::{ClaimedEntries, Entry};

/// How far beyond the free slots to look for entries that only need to be put aside.
const LOOK_BEYOND: usize = 100;

/// A row of `XPENDING`: key, consumer, idle milliseconds, deliveries.
type Pending = (String, String, u64, u64);

/// The result of a take-over.
pub(super) struct Abandoned {
    pub(super) entries: Vec<Entry>,
    /// Other abandoned entries wait for their turn.
    pub(super) more: bool,
}

/// Takes over entries that were not kept alive for the visibility.
pub(super) async fn abandoned(
    consumer: &Consumer,
    connection: &mut RedisLink,
    free: usize,
) -> RedisResult<Abandoned> {
    let idle_ms = u64::try_from(consumer.config.visibility.as_millis()).unwrap_or(u64::MAX);
    let mut list = cmd("XPENDING");
    list.arg(consumer.keys.stream())
        .arg(GROUP)
        .arg("IDLE")
        .arg(idle_ms)
        .arg("-")
        .arg("+")
        .arg(free + LOOK_BEYOND);
    let pending: Vec<Pending> = list.query_async(connection).await?;
    let (chosen, more) = choose(consumer, pending, free);
    if chosen.is_empty() {
        return Ok(Abandoned { entries: Vec::new(), more });
    }
    // The idle time is checked again: of two workers that saw the same list, only one gets an entry.
    let mut claim = cmd("XCLAIM");
    claim.arg(consumer.keys.stream()).arg(GROUP).arg(&consumer.name).arg(idle_ms);
    claim.arg(chosen.keys().collect::<Vec<_>>());
    let found: ClaimedEntries = claim.query_async(connection).await?;
    let entries: Vec<_> = found
        .into_iter()
        .filter_map(|(key, fields)| {
            let deliveries = chosen.get(&key).copied().unwrap_or(1);
            Some(Entry::new(key, fields?, deliveries))
        })
        .collect();
    if !entries.is_empty() {
        Consumer::count(&consumer.control.counters().taken_over, entries.len());
        info!(queue.taken_over = entries.len(), "took over abandoned entries");
    }
    Ok(Abandoned { entries, more })
}

/// Which abandoned entries to take, with their new number of deliveries, and whether others must wait.
fn choose(consumer: &Consumer, pending: Vec<Pending>, mut free: usize) -> (HashMap<String, u64>, bool) {
    let board = consumer.board();
    let mut suspect = board.holds_suspect();
    let mut more = pending.len() >= free + LOOK_BEYOND;
    let mut chosen = HashMap::new();
    for (key, _, _, deliveries) in pending {
        if board.holds(&key) {
            continue;
        }
        // An entry with too many deliveries is only put aside, which needs no slot.
        if deliveries < consumer.config.max_deliveries {
            let is_suspect = deliveries >= SUSPECT_AFTER;
            if free == 0 || (is_suspect && suspect) {
                more = true;
                continue;
            }
            suspect |= is_suspect;
            free -= 1;
        }
        chosen.insert(key, deliveries + 1);
    }
    (chosen, more)
}

/// Finds entries that are pending for this consumer although it never received them: their delivery was cut
/// off with a former connection. They were never started, so the claim keeps their number of deliveries.
pub(super) async fn lost(
    consumer: &Consumer,
    connection: &mut RedisLink,
    free: usize,
) -> RedisResult<Vec<Entry>> {
    let held = consumer.board().held_keys().len();
    let mut list = cmd("XPENDING");
    list.arg(consumer.keys.stream()).arg(GROUP).arg("-").arg("+").arg(held + free).arg(&consumer.name);
    let pending: Vec<Pending> = list.query_async(connection).await?;
    let mut by_deliveries = BTreeMap::<u64, Vec<String>>::new();
    {
        let board = consumer.board();
        // Without deliveries: its handler put it off, and its idle time shows when it is due.
        let unseen = pending.into_iter().filter(|(key, _, _, count)| *count > 0 && !board.holds(key));
        for (key, _, _, count) in unseen.take(free) {
            by_deliveries.entry(count).or_default().push(key);
        }
    }
    let mut claims = pipe();
    for (count, keys) in &by_deliveries {
        claims.cmd("XCLAIM").arg(consumer.keys.stream()).arg(GROUP).arg(&consumer.name).arg(0);
        claims.arg(keys).arg("RETRYCOUNT").arg(count);
    }
    if by_deliveries.is_empty() {
        return Ok(Vec::new());
    }
    let found: Vec<ClaimedEntries> = claims.query_async(connection).await?;
    let counted = by_deliveries.keys().zip(found);
    let entries =
        counted.flat_map(|(count, found)| found.into_iter().map(|(key, fields)| (*count, key, fields)));
    Ok(entries.filter_map(|(count, key, fields)| Some(Entry::new(key, fields?, count))).collect())
}
