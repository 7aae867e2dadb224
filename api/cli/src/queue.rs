//! `longshore queue`: queues of workers.

use std::io::{Write as _, stderr};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use longshore_client::{Call, Queue};

use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::{Exit, output, table};

/// What can be done with queues.
#[derive(Debug, Subcommand)]
pub(super) enum QueueCommand {
    /// List queues: their states, and the work that waits.
    List(List),
    /// Pause a queue: workers start no more of its work.
    Pause(Pause),
    /// Resume a queue.
    Resume(One),
}

#[derive(Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct One {
    /// Name of the queue: `chunk` has jobs, `partner` has calls of partners, `lane` has deliveries, `handover` has systems of warehouses, `upkeep` has housekeeping.
    #[arg(value_parser = PossibleValuesParser::new(Queue::NAMES))]
    name: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Pause {
    #[command(flatten)]
    one: One,
    /// Why, for the audit and for those who find the queue paused; up to 200 characters.
    #[arg(long)]
    reason: Option<String>,
}

impl QueueCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Pause(pause) => {
                let Pause { one, reason } = pause;
                let call = one.remote.client()?.pause_queue(&one.name, reason.as_deref());
                one.report(call).await
            }
            Self::Resume(one) => {
                let call = one.remote.client()?.resume_queue(&one.name);
                one.report(call).await
            }
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let answer = remote::json(&self.remote.client()?.queues().answer().await?)?;
        if self.remote.json {
            output::json(&answer)?;
            return Ok(Exit::Done);
        }
        if answer["redis"] == "down" {
            writeln!(stderr(), "Redis is down: {}", table::cell(&answer, "redisReason"))?;
        }
        let paths = [
            "name",
            "state",
            "paused",
            "recorded.open",
            "recorded.running",
            "recorded.due",
            "recorded.oldestDueSeconds",
            "workers",
            "concurrency",
            "resumesAt",
            "pause.by",
            "pause.reason",
        ];
        let heads = [
            "queue",
            "state",
            "paused",
            "open",
            "running",
            "due",
            "oldest due (s)",
            "workers",
            "concurrency",
            "resumes",
            "paused by",
            "reason",
        ];
        table::write(&mut stdout(), &heads, &table::rows(&answer["queues"], &paths))?;
        Ok(Exit::Done)
    }
}

impl One {
    async fn report(self, call: Call<Queue>) -> anyhow::Result<Exit> {
        let answer = call.answer().await?;
        if self.remote.json {
            output::json(&remote::json(&answer)?)?;
            return Ok(Exit::Done);
        }
        let queue: Queue = answer.read()?;
        let until =
            queue.resumes_at.map_or_else(String::new, |at| format!(" until {}", at.format("%F %T UTC")));
        let state = if queue.paused { "paused" } else { "resumed" };
        writeln!(stdout(), "queue {} is {state}{until}", table::shown(&queue.name))?;
        Ok(Exit::Done)
    }
}
