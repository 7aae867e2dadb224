//! What the figures of a queue come to, in one word.

use super::control::Shown;

/// How long something may wait for a worker that is there before that is worth a word, in seconds.
const SLOW_AFTER: f64 = 10.0;

/// How a queue is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Redis, which carries it, cannot be reached. What becomes due waits in Postgres.
    Away,
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
    /// Nothing to do.
    Idle,
}

impl Shown {
    /// What waits or runs, as far as anybody knows: on the queue, or recorded.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        let recorded = self.recorded.open.unwrap_or(0).max(self.recorded.running);
        self.depth.unwrap_or(0).max(recorded.unsigned_abs())
    }

    /// How it is doing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let busy = self.in_flight.unwrap_or(0) > 0 || self.recorded.running > 0;
        if !self.reachable {
            Verdict::Away
        } else if self.workers == Some(0) {
            if self.backlog() > 0 { Verdict::Unattended } else { Verdict::Deserted }
        } else if self.paused {
            Verdict::Paused
        } else if busy {
            Verdict::Working
        } else if self.oldest_seconds.is_some_and(|age| age > SLOW_AFTER) {
            Verdict::Waiting
        } else {
            Verdict::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::Recorded;
    use super::*;

    fn queue() -> Shown {
        Shown {
            name: "chunk",
            paused: false,
            concurrency: None,
            reachable: true,
            depth: Some(0),
            in_flight: Some(0),
            oldest_seconds: None,
            workers: Some(1),
            recorded: Recorded { open: Some(0), running: 0 },
        }
    }

    #[test]
    fn a_backlog_without_a_worker_is_told_from_one_that_is_worked_off() {
        let backlog = Shown { depth: Some(900), oldest_seconds: Some(40.0), ..queue() };
        assert_eq!(Shown { workers: Some(0), ..backlog.clone() }.verdict(), Verdict::Unattended);
        assert_eq!(Shown { in_flight: Some(4), ..backlog.clone() }.verdict(), Verdict::Working);
        assert_eq!(Shown { paused: true, ..backlog.clone() }.verdict(), Verdict::Paused);
        assert_eq!(backlog.verdict(), Verdict::Waiting);
        // what Redis lost is still recorded
        let lost = Shown { workers: Some(0), recorded: Recorded { open: Some(3), running: 0 }, ..queue() };
        assert_eq!((lost.verdict(), lost.backlog()), (Verdict::Unattended, 3));
    }

    #[test]
    fn nothing_to_do_is_idle_and_no_worker_is_told_even_then() {
        assert_eq!(queue().verdict(), Verdict::Idle);
        assert_eq!(Shown { workers: Some(0), ..queue() }.verdict(), Verdict::Deserted);
        let away = Shown { reachable: false, depth: None, in_flight: None, workers: None, ..queue() };
        assert_eq!(away.verdict(), Verdict::Away);
    }
}
