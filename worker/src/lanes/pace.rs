//! The pace of a lane with a rate: when its next call may begin (`docs/reference/webhooks.md#rate`).

use std::time::Duration;

use longshore_domain::webhook::lane::Paid;
use tokio::time::Instant;

/// For how long a call may begin late, at most: a pause, and not more than this.
const LATE: Duration = Duration::from_secs(1);

/// The pace of a turn.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) rate: f64,
    /// No call begins before.
    next: Instant,
    /// Calls that are paid for, and when none of them may begin any more.
    left: u32,
    until: Instant,
}

impl Pace {
    pub(super) fn new(rate: f64) -> Self {
        let now = Instant::now();
        Self { rate, next: now, left: 0, until: now }
    }

    /// How many calls are paid for at once, where so many wait: those of a second, but no fewer than those of a quarter. The time
    /// of a payment would else be over when it is made.
    pub(super) fn calls(&self, waiting: usize) -> u32 {
        // a rate is at most 1,000
        let of = |seconds: f64| {
            (1..=1_000).take_while(|n| f64::from(*n) <= self.rate * seconds).last().unwrap_or(1)
        };
        u32::try_from(waiting).unwrap_or(u32::MAX).clamp(of(0.25), of(1.0))
    }

    fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.rate.recip())
    }

    /// When a call may begin; nothing if it has to be paid for.
    pub(super) fn next(&self) -> Option<Instant> {
        let next = self.next.max(Instant::now());
        (self.left > 0 && next <= self.until).then_some(self.next)
    }

    /// Whether a call may begin now.
    pub(super) fn is_due(&self) -> bool {
        self.next().is_some_and(|next| next <= Instant::now())
    }

    /// For how long no call may begin, whoever holds the lane.
    pub(super) fn rest(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// A call begins.
    pub(super) fn begin(&mut self) {
        self.left -= 1;
        self.next = Instant::now() + self.pause();
    }

    /// Calls were paid for by a statement that was `asked` for then, and has just answered.
    pub(super) fn paid(&mut self, asked: Instant, paid: Paid) {
        self.left = paid.calls;
        self.next = self.next.max(Instant::now() + paid.wait);
        self.until = asked + paid.wait + self.pause() * paid.calls.saturating_sub(1) + self.pause().min(LATE);
    }
}
