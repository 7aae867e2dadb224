//! Child processes with a log, which end with their owner.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use longshore_stack::process::Signal;
pub use longshore_stack::process::{Kept, Process, end_of};

/// How long a process may take to be ready.
const READY: Duration = Duration::from_secs(30);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Kills a process with SIGKILL.
///
/// # Errors
/// When there is no such process, or it belongs to another user.
pub async fn kill(pid: u32) -> anyhow::Result<()> {
    signal("KILL", &[pid]).await
}

/// Sends a signal, named without `SIG`, to processes.
///
/// # Errors
/// When there is no such process, or it belongs to another user.
pub async fn signal(name: &str, pids: &[u32]) -> anyhow::Result<()> {
    let signal: Signal = format!("SIG{name}").parse()?;
    // all of them, also if one is not there
    let sent: Vec<_> = pids.iter().map(|pid| longshore_stack::process::signal(*pid, signal)).collect();
    sent.into_iter().collect()
}

/// Waits until `asked` returns true.
///
/// # Errors
/// When it does not within half a minute; the error contains the end of the log.
pub async fn ready<F: Future<Output = bool>>(log: &Path, asked: impl Fn() -> F) -> anyhow::Result<()> {
    let until = Instant::now() + READY;
    while !asked().await {
        if Instant::now() >= until {
            bail!("not ready after {READY:?}; its log ends:\n{}", end_of(log));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn killing_a_process_that_does_not_exist_is_an_error() {
        assert!(kill(u32::MAX).await.is_err());
    }
}
