//! The state of a queue in words.

use longshore_kernel::figure::{number, stamp};
use longshore_kernel::queue::Queue;

use super::queue::Pause;
use super::{Shown, Verdict};

impl Shown {
    /// A word for people.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.verdict() {
            Verdict::Away => "Redis away",
            Verdict::Refused => "Redis refuses writes",
            Verdict::Unattended | Verdict::Deserted => "no worker",
            Verdict::Paused => "paused",
            Verdict::Working => "working",
            Verdict::Waiting => "waiting",
            Verdict::NotDue => "not due",
            Verdict::Idle => "idle",
        }
    }

    /// A sentence about its state.
    #[must_use]
    pub fn sentence(&self) -> String {
        let backlog = self.backlog_in_words();
        let workers = self.workers.unwrap_or(0);
        let workers = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
        match self.verdict() {
            Verdict::Away => {
                "Redis cannot be reached. Due work waits in Postgres until Redis is back.".to_owned()
            }
            Verdict::Refused => {
                let waiting = match self.backlog() {
                    0 => "Due work waits in Postgres".to_owned(),
                    1 => "1 open item waits in Postgres".to_owned(),
                    _ => format!("{backlog} open items wait in Postgres"),
                };
                format!("{waiting} until Redis accepts writes again.")
            }
            Verdict::Unattended => {
                format!("{backlog} open, but no worker reads this queue. Start a worker.")
            }
            Verdict::Deserted => "No worker reads this queue. No work is waiting.".to_owned(),
            Verdict::Paused => self.pause_in_words(),
            Verdict::Working => format!("{backlog} open · {workers}"),
            Verdict::Waiting => {
                format!("{backlog} waiting, {workers} connected but not picking up work – check the log.")
            }
            Verdict::NotDue => {
                let what = match self.wish.queue {
                    Queue::Lane => "its destination, which fails or asked for a pause",
                    Queue::Handover => {
                        "the system of its warehouse, which fails, is paused or asked for a pause"
                    }
                    _ => "an earlier job, a partner or the next attempt",
                };
                format!("{backlog} open, none can start yet: each waits for {what}.")
            }
            Verdict::Idle => format!("Idle · {workers}"),
        }
    }

    /// A sentence about its pause and the end of that.
    #[must_use]
    pub fn pause_in_words(&self) -> String {
        let paused = match &self.pause {
            Some(Pause { by, at, reason: Some(reason), .. }) => {
                format!("Paused by {by} at {} (“{reason}”)", stamp(*at))
            }
            Some(Pause { by, at, .. }) => format!("Paused by {by} at {}", stamp(*at)),
            None => "Paused by an operator".to_owned(),
        };
        let Some(at) = self.wish.resumes_at else {
            return format!("{paused}: {} open, no new work starts.", self.backlog_in_words());
        };
        let what = if self.wish.queue == Queue::Upkeep {
            "retention, schedules and charts are stopped"
        } else {
            "no new work starts"
        };
        format!("{paused}: {what}. The queue resumes automatically at {}.", stamp(at))
    }

    fn backlog_in_words(&self) -> String {
        number(i64::try_from(self.backlog()).unwrap_or(i64::MAX))
    }
}
