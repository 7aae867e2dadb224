//! Child processes with a log, which end with their owner.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a process may take to be ready.
const READY: Duration = Duration::from_secs(30);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Bytes of a log shown in errors.
const SHOWN: usize = 4_000;

/// A child process; dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The file with its output.
    pub log: PathBuf,
}

impl Process {
    /// Starts it; its output is appended to the log.
    ///
    /// # Errors
    /// When the program is missing, or the log cannot be opened.
    pub fn start(command: Command, log: PathBuf) -> anyhow::Result<Self> {
        let child = spawn(command, &log)?;
        Ok(Self { child, log })
    }

    /// Its process id, while it is running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// When the system cannot wait for it.
    pub async fn ended(&mut self) -> std::io::Result<()> {
        self.child.wait().await.map(drop)
    }
}

/// A child process that is restarted whenever it ends; dropping this kills it.
#[derive(Debug)]
pub struct Kept {
    pid: watch::Receiver<Option<u32>>,
    keeper: JoinHandle<()>,
    log: PathBuf,
}

impl Kept {
    /// Starts the process that `command` describes, now and whenever it ends.
    ///
    /// # Errors
    /// When it cannot be started the first time.
    pub fn start(command: impl Fn() -> Command + Send + 'static, log: PathBuf) -> anyhow::Result<Self> {
        let mut child = spawn(command(), &log)?;
        let (tell, pid) = watch::channel(child.id());
        let keeper = tokio::spawn({
            let log = log.clone();
            async move {
                loop {
                    let ended = child.wait().await;
                    tell.send_replace(None);
                    tracing::info!(?ended, "starting a process again");
                    match spawn(command(), &log) {
                        Ok(next) => child = next,
                        Err(error) => {
                            tracing::error!(%error, "a process could not be started again");
                            return;
                        }
                    }
                    tell.send_replace(child.id());
                }
            }
        });
        Ok(Self { pid, keeper, log })
    }

    /// Its process id, while it is running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        *self.pid.borrow()
    }

    /// The file with its output.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The task owns the child, which is killed when it is dropped.
        self.keeper.abort();
    }
}

fn spawn(mut command: Command, log: &Path) -> anyhow::Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let errors: File = log.try_clone()?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors).kill_on_drop(true);
    let program = command.as_std().get_program().to_owned();
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

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
    // The shell's built-in command, because not every machine has the program.
    let mut shell = Command::new("sh");
    shell.args(["-c", "name=$0; kill -\"$name\" \"$@\"", name]).args(pids.iter().map(ToString::to_string));
    let told = shell.output().await?;
    ensure!(told.status.success(), "kill -{name} {pids:?}: {}", String::from_utf8_lossy(&told.stderr));
    Ok(())
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

/// The end of a log, for an error.
#[must_use]
pub fn end_of(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN)..]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    /// Whether a process ends soon; a zombie counts as ended.
    async fn gone(pid: u32) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty()) {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }

    #[tokio::test]
    async fn a_killed_process_is_started_again_until_its_keeper_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::start(sleeper, folder.path().join("log")).unwrap();
        let first = kept.pid().unwrap();

        kill(first).await.unwrap();
        let second = *kept.pid.wait_for(|pid| pid.is_some_and(|pid| pid != first)).await.unwrap();
        assert!(gone(first).await);

        drop(kept);
        assert!(gone(second.unwrap()).await);
    }

    #[tokio::test]
    async fn a_dropped_process_is_gone_and_its_log_remains() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo started; exec sleep 600"]);
        let process = Process::start(command, folder.path().join("log")).unwrap();
        let pid = process.pid().unwrap();
        while end_of(&process.log).is_empty() {
            tokio::task::yield_now().await;
        }

        drop(process);

        assert!(gone(pid).await);
        assert_eq!(end_of(&folder.path().join("log")), "started\n");
    }

    #[tokio::test]
    async fn killing_a_process_that_does_not_exist_is_an_error() {
        assert!(kill(u32::MAX).await.is_err());
    }
}
