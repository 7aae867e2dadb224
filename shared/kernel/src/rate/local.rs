//! Buckets in the memory of the process, for the time without Redis.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{Allowance, Rate};

/// Buckets that are kept; past it, the full ones are forgotten.
const MOST: usize = 10_000;

/// When each bucket that is not full would be full again.
#[derive(Debug)]
pub(super) struct Buckets {
    rate: Rate,
    full_at: HashMap<Uuid, Instant>,
    /// avoids scanning this many again and again
    most: usize,
}

impl Buckets {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, full_at: HashMap::new(), most: MOST }
    }

    /// Takes one, by the algorithm of the script.
    pub(super) fn take(&mut self, who: Uuid, now: Instant) -> Allowance {
        if self.full_at.len() >= self.most {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.most = MOST.max(2 * self.full_at.len());
        }
        let interval = Duration::from_micros(self.rate.interval());
        let room = interval * self.rate.burst;
        let full_at = self.full_at.get(&who).copied().filter(|full_at| *full_at > now).unwrap_or(now);
        let after = full_at + interval - now;
        if after > room {
            let (full_in, retry_in) = (full_at - now, after.saturating_sub(room));
            return Allowance { allowed: false, remaining: 0, full_in, retry_in, is_local: true };
        }
        self.full_at.insert(who, now + after);
        let left = room.saturating_sub(after).as_micros() / interval.as_micros().max(1);
        let remaining = u64::try_from(left).unwrap_or(u64::MAX);
        Allowance { allowed: true, remaining, full_in: after, retry_in: Duration::ZERO, is_local: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut buckets = Buckets::new(Rate::new(10, 5).unwrap());
        let (who, start) = (Uuid::from_u128(1), Instant::now());
        let left: Vec<_> = (0..5).map(|_| buckets.take(who, start).remaining).collect();
        assert_eq!(left, [4, 3, 2, 1, 0]);
        let refused = buckets.take(who, start);
        assert!(!refused.allowed);
        assert_eq!(
            (refused.retry_in, refused.full_in),
            (Duration::from_millis(100), Duration::from_millis(500))
        );
        assert!(buckets.take(Uuid::from_u128(2), start).allowed, "each has its own");
        let allowed =
            (1..=1_000).filter(|ms| buckets.take(who, start + Duration::from_millis(*ms)).allowed).count();
        assert_eq!(allowed, 10);
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let mut buckets = Buckets::new(Rate::new(1_000, 5).unwrap());
        let start = Instant::now();
        for n in 0..25_000_u32 {
            let later = start + Duration::from_millis(n.into());
            assert!(buckets.take(Uuid::from_u128(n.into()), later).allowed);
            assert!(buckets.full_at.len() <= MOST);
        }
    }
}
