//! CPU time and resident memory of api and worker without load.

use std::time::{Duration, Instant};

use longshore_testkit::stack::Stack;

use super::process::{busy, forget_peak, peak};
use super::{Effort, Reach, Row, median};

/// By then, the effects of start-up are over.
const SETTLE: Duration = Duration::from_secs(3);

/// The length of a run.
const LOOK: Duration = Duration::from_secs(10);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let pids = [stack.api_pid()?, stack.worker_pid()?];
    let look = LOOK / u32::try_from(effort.divisor.min(2))?;
    tokio::time::sleep(SETTLE).await;
    pids.into_iter().try_for_each(forget_peak)?;
    let mut figures = Vec::new();
    for _ in 0..effort.runs {
        let (before, started) = (busy(&pids)?, Instant::now());
        tokio::time::sleep(look).await;
        let busy = busy(&pids)?.saturating_sub(before);
        figures.push(100.0 * busy.as_secs_f64() / started.elapsed().as_secs_f64());
    }
    let mut rows =
        vec![Row::absolute("idle: api + worker", median(figures), "% of a core", Reach::AtMost(0.5))];
    for (name, pid) in ["api", "worker"].into_iter().zip(pids) {
        rows.push(Row::absolute(format!("idle: memory of the {name}"), peak(pid)?, "MiB", Reach::Anywhere));
    }
    Ok(rows)
}
