//! The verdict on the figures of a queue, in one word.

use super::Shown;

/// How long something may wait for a worker that is there before that is worth a word, in seconds.
const SLOW_AFTER: f64 = 10.0;

/// How a queue is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Redis, which carries it, cannot be reached. What becomes due waits in Postgres.
    Away,
    /// Redis answers, but refuses writes. What becomes due waits in Postgres.
    Refused,
    /// A backlog, and no worker.
    Unattended,
    /// No worker, and nothing to do.
    Deserted,
    /// Paused by an operator.
    Paused,
    /// A backlog that is being worked off.
    Working,
    /// A backlog, and workers that take nothing of it.
    Waiting,
    /// A backlog that cannot start yet: it waits for an earlier job, a partner, or its next attempt.
    NotDue,
    /// Nothing to do.
    Idle,
}

impl Verdict {
    /// As programs read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Away | Self::Refused => "redis_down",
            Self::Unattended | Self::Deserted => "no_worker",
            Self::Paused => "paused",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::NotDue => "not_due",
            Self::Idle => "idle",
        }
    }

    /// Every word.
    pub const WORDS: [&'static str; 7] =
        ["idle", "working", "waiting", "not_due", "paused", "no_worker", "redis_down"];
}

impl Shown {
    /// Waiting and running work, on the queue or recorded, whichever is more.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        let recorded = [self.recorded.open, Some(self.recorded.running), self.recorded.due];
        let recorded = recorded.into_iter().flatten().max().unwrap_or(0);
        self.depth.unwrap_or(0).max(recorded.unsigned_abs())
    }

    /// How it is doing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let busy = self.in_flight.unwrap_or(0) > 0 || self.recorded.running > 0;
        let slow = |age: Option<f64>| age.is_some_and(|age| age > SLOW_AFTER);
        if !self.reachable {
            Verdict::Away
        } else if !self.writable {
            Verdict::Refused
        } else if self.workers == Some(0) {
            if self.backlog() > 0 { Verdict::Unattended } else { Verdict::Deserted }
        } else if self.wish.paused {
            Verdict::Paused
        } else if busy {
            Verdict::Working
        } else if slow(self.oldest_seconds) || slow(self.recorded.oldest_seconds) {
            Verdict::Waiting
        } else if self.depth.unwrap_or(0) > 0 || self.recorded.due.unwrap_or(0) > 0 {
            // it has only just come
            Verdict::Working
        } else if self.recorded.open.unwrap_or(0) > 0 {
            Verdict::NotDue
        } else {
            Verdict::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Recorded;
    use super::*;
    use longshore_kernel::queue::Queue;
    use longshore_kernel::queue::control::Wish;

    fn queue() -> Shown {
        let wish =
            Wish { queue: Queue::Chunk, paused: false, resumes_at: None, overdue: false, concurrency: None };
        let recorded = Recorded { open: Some(0), running: 0, due: Some(0), oldest_seconds: None };
        Shown {
            wish,
            pause: None,
            reachable: true,
            writable: true,
            depth: Some(0),
            in_flight: Some(0),
            oldest_seconds: None,
            workers: Some(1),
            recorded,
        }
    }

    fn due(due: i64, seconds: f64) -> Recorded {
        Recorded { open: Some(due), running: 0, due: Some(due), oldest_seconds: Some(seconds) }
    }

    #[test]
    fn a_backlog_without_a_worker_is_distinguished_from_one_in_progress() {
        let backlog = Shown { depth: Some(900), oldest_seconds: Some(40.0), ..queue() };
        let paused = Wish { paused: true, ..backlog.wish };
        assert_eq!(Shown { workers: Some(0), ..backlog.clone() }.verdict(), Verdict::Unattended);
        assert_eq!(Shown { in_flight: Some(4), ..backlog.clone() }.verdict(), Verdict::Working);
        assert_eq!(Shown { wish: paused, ..backlog.clone() }.verdict(), Verdict::Paused);
        assert_eq!(backlog.verdict(), Verdict::Waiting);
        // what Redis lost is still recorded
        let lost = Shown { workers: Some(0), recorded: due(3, 1.0), ..queue() };
        assert_eq!((lost.verdict(), lost.backlog()), (Verdict::Unattended, 3));
    }

    #[test]
    fn recorded_due_work_is_not_idle_even_if_redis_has_no_entry() {
        let lost = |seconds| Shown { recorded: due(521, seconds), ..queue() };
        assert_eq!(lost(60.0).verdict(), Verdict::Waiting);
        assert_eq!(lost(0.5).verdict(), Verdict::Working);
        let full = Shown { writable: false, ..lost(0.5) };
        assert_eq!((full.verdict(), full.backlog()), (Verdict::Refused, 521));
        assert_eq!(Shown { writable: false, ..queue() }.verdict(), Verdict::Refused);
        let behind_another = Recorded { open: Some(649), running: 0, due: Some(0), oldest_seconds: None };
        assert_eq!(Shown { recorded: behind_another, ..queue() }.verdict(), Verdict::NotDue);
    }

    #[test]
    fn webhooks_that_are_all_held_wait_for_their_destinations_and_not_for_workers() {
        let wish = Wish { queue: Queue::Lane, ..queue().wish };
        let recorded = Recorded { open: Some(1), running: 0, due: Some(0), oldest_seconds: None };
        let held = Shown { wish, recorded, ..queue() };
        assert_eq!(held.verdict(), Verdict::NotDue);
        let sentence = held.sentence();
        assert!(sentence.contains("its destination, which fails or asked for a pause"), "{sentence}");
    }

    #[test]
    fn no_work_is_idle_and_a_missing_worker_is_reported_even_then() {
        assert_eq!(queue().verdict(), Verdict::Idle);
        assert_eq!(Shown { workers: Some(0), ..queue() }.verdict(), Verdict::Deserted);
        let away = Shown { reachable: false, depth: None, in_flight: None, workers: None, ..queue() };
        assert_eq!(away.verdict(), Verdict::Away);
    }
}
