//! Child processes with a log, which end with their owner.

use longshore_stack::process::Signal;
pub(crate) use longshore_stack::process::{Kept, Process, end_of};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn killing_a_process_that_does_not_exist_is_an_error() {
        assert!(kill(u32::MAX).await.is_err());
    }
}
