//! What api and worker cost while nothing is asked of them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::{Effort, Reach, Row, median};
use crate::stack::Stack;

/// What start-up leaves behind is over by then.
const SETTLE: Duration = Duration::from_secs(3);

/// How long a run looks.
const LOOK: Duration = Duration::from_secs(10);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let pids = stack.pids();
    ensure!(pids.len() == 2, "api and worker are to run");
    tokio::time::sleep(SETTLE).await;
    let mut figures = Vec::new();
    for _ in 0..effort.runs {
        let (before, started) = (busy(&pids)?, Instant::now());
        tokio::time::sleep(LOOK).await;
        let busy = busy(&pids)?.saturating_sub(before);
        figures.push(100.0 * busy.as_secs_f64() / started.elapsed().as_secs_f64());
    }
    Ok(vec![Row::absolute("idle: api + worker", median(figures), "% of a core", Reach::AtMost(0.5))])
}

/// The time that all threads of some processes have spent on a processor, as the scheduler counts it.
fn busy(pids: &[u32]) -> anyhow::Result<Duration> {
    let mut nanoseconds = 0;
    for pid in pids {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end while we look.
            let Ok(schedule) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            let spent = schedule.split(' ').next().context("schedstat is empty")?;
            nanoseconds += spent.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}
