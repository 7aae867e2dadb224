//! Child processes with a log, and processes known by a pid file.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::errno::Errno;
pub use nix::sys::signal::Signal;
use nix::sys::signal::{kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// Bytes of a log shown in errors.
const SHOWN: usize = 4_000;

/// The interval of checking whether a process has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long the kernel may take to end a killed process.
const KILLED: Duration = Duration::from_secs(5);

/// How long a process may take to become another program; it has no command line meanwhile.
const BECOMING: Duration = Duration::from_millis(200);

/// The pause before another attempt to start a program that could not be started.
const NOT_STARTED: Duration = Duration::from_secs(1);

/// A child process; dropping it kills it.
#[derive(Debug)]
pub struct Process {
    /// `None` once it is detached.
    child: Option<Child>,
    pid: u32,
    /// The file with its output.
    pub log: PathBuf,
}

impl Process {
    /// Starts a process without input, which appends its output to a file.
    ///
    /// # Errors
    /// When the program cannot be started, or the file cannot be opened.
    pub fn start(command: Command, log: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let log = log.into();
        let child = spawn(command, &log)?;
        Ok(Self { pid: child.id(), child: Some(child), log })
    }

    /// Its process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        alive(self.pid).then_some(self.pid)
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Lets it run on when this is dropped.
    pub fn detach(mut self) {
        self.child = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// What follows the life of a process that is restarted.
pub trait Watch: Send + 'static {
    /// It was started.
    fn started(&mut self, _pid: u32) {}

    /// It ended, or could not be started again. Returns the pause before the next start.
    fn ended(&mut self, _how: &dyn Display, _lived: Duration) -> Duration {
        Duration::ZERO
    }
}

/// Restarts at once, and reports nothing.
impl Watch for () {}

/// A child process that is restarted whenever it ends; dropping this kills it.
#[derive(Debug)]
pub struct Kept {
    state: Arc<State>,
    keeper: Option<JoinHandle<()>>,
    log: PathBuf,
}

#[derive(Debug, Default)]
struct State {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    /// The running process. The holder of the lock may signal it: its id is not in use again.
    pid: Option<u32>,
    stopping: bool,
}

impl State {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `done`, for this long at most.
    fn wait(&self, patience: Duration, done: impl Fn(&Now) -> bool) {
        let waited = self.changed.wait_timeout_while(self.now(), patience, |now| !done(now));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Kept {
    /// Starts a process, and starts it again at once whenever it ends.
    ///
    /// # Errors
    /// When it cannot be started the first time.
    pub fn start(
        command: impl Fn() -> Command + Send + 'static,
        log: impl Into<PathBuf>,
    ) -> anyhow::Result<Self> {
        Self::start_watched(command, log, ())
    }

    /// The same with a watch, which also sets the pauses between starts.
    ///
    /// # Errors
    /// As [`Kept::start`].
    pub fn start_watched(
        command: impl Fn() -> Command + Send + 'static,
        log: impl Into<PathBuf>,
        mut watch: impl Watch,
    ) -> anyhow::Result<Self> {
        let (log, state) = (log.into(), Arc::new(State::default()));
        let first = spawn(command(), &log)?;
        state.now().pid = Some(first.id());
        watch.started(first.id());
        let keeper = thread::spawn({
            let (log, state) = (log.clone(), Arc::clone(&state));
            move || keep(first, &command, &log, &state, &mut watch)
        });
        Ok(Self { state, keeper: Some(keeper), log })
    }

    /// Its process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.state.now().pid
    }

    /// The file with its output.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Ends it with SIGTERM, and with SIGKILL if it takes longer than this.
    pub fn end(self, patience: Duration) {
        self.stop(Signal::SIGTERM);
        self.state.wait(patience, |now| now.pid.is_none());
    }

    fn stop(&self, by: Signal) {
        let mut now = self.state.now();
        now.stopping = true;
        if let Some(pid) = now.pid {
            _ = signal(pid, by);
        }
        drop(now);
        self.state.changed.notify_all();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stop(Signal::SIGKILL);
        if let Some(keeper) = self.keeper.take() {
            _ = keeper.join();
        }
    }
}

fn keep(mut child: Child, command: &impl Fn() -> Command, log: &Path, state: &State, watch: &mut impl Watch) {
    loop {
        let started = Instant::now();
        wait_unreaped(child.id());
        let mut now = state.now();
        let ended = child.wait();
        now.pid = None;
        let stopping = now.stopping;
        drop(now);
        state.changed.notify_all();
        if stopping {
            return;
        }
        let mut pause = match ended {
            Ok(status) => watch.ended(&status, started.elapsed()),
            Err(error) => watch.ended(&error, started.elapsed()),
        };
        child = loop {
            state.wait(pause, |now| now.stopping);
            let mut now = state.now();
            if now.stopping {
                return;
            }
            match spawn(command(), log) {
                Ok(next) => {
                    now.pid = Some(next.id());
                    drop(now);
                    watch.started(next.id());
                    break next;
                }
                Err(error) => {
                    drop(now);
                    pause = watch.ended(&format_args!("{error:#}"), Duration::ZERO).max(NOT_STARTED);
                }
            }
        };
    }
}

fn spawn(mut command: Command, log: &Path) -> anyhow::Result<Child> {
    let output = OpenOptions::new().create(true).append(true).open(log);
    let output = output.with_context(|| log.display().to_string())?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let program = command.get_program().to_owned();
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

/// Waits until a child has ended, and leaves its status to be asked for. Until then its id cannot be in use again.
pub fn wait_unreaped(child: u32) {
    let Ok(pid) = checked(child) else { return };
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
}

/// Sends a signal to a process.
///
/// # Errors
/// When there is no such process, or it belongs to another user.
pub fn signal(pid: u32, signal: Signal) -> anyhow::Result<()> {
    kill(checked(pid)?, signal).with_context(|| format!("{signal} to process {pid}"))
}

/// Sends a signal to all processes of a group.
///
/// # Errors
/// When there is no such group, or it belongs to another user.
pub fn signal_group(group: u32, signal: Signal) -> anyhow::Result<()> {
    killpg(checked(group)?, signal).with_context(|| format!("{signal} to process group {group}"))
}

/// 0 and negative numbers are groups, and 1 is the system's.
fn checked(pid: u32) -> anyhow::Result<Pid> {
    match i32::try_from(pid) {
        Ok(pid @ 2..) => Ok(Pid::from_raw(pid)),
        _ => bail!("{pid} is no process id"),
    }
}

/// Whether a process runs. Its command line does not show that: it is empty for a moment whenever a process becomes
/// another program.
#[must_use]
pub fn alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // Behind the name in parentheses, which may contain anything; Z and X have ended.
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// The command line of a process; empty if there is none.
#[must_use]
pub fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// The process id in the first line of a pid file, if that process runs and its command line contains the word: ids are
/// used again.
#[must_use]
pub fn pid_in(file: &Path, word: &str) -> Option<u32> {
    let text = fs::read_to_string(file).ok()?;
    let pid = text.lines().next()?.trim().parse().ok()?;
    let until = Instant::now() + BECOMING;
    loop {
        let line = command_line(pid);
        if !line.is_empty() || !alive(pid) || Instant::now() >= until {
            return (alive(pid) && line.contains(word)).then_some(pid);
        }
        thread::yield_now();
    }
}

/// Waits until a process has ended, for this long at most; returns whether it has.
#[must_use]
pub fn gone(pid: u32, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while alive(pid) {
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(LOOK_AGAIN);
    }
    true
}

/// Ends a process, first with the given signal, then with SIGKILL; returns whether the first one was enough.
#[expect(clippy::must_use_candidate, reason = "it has ended either way")]
pub fn end(pid: u32, by: Signal, patience: Duration) -> bool {
    if signal(pid, by).is_err() || gone(pid, patience) {
        return true;
    }
    _ = signal(pid, Signal::SIGKILL);
    _ = gone(pid, KILLED);
    false
}

/// The end of a log, for an error.
#[must_use]
pub fn end_of(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN)..]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// A folder of one test, removed with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("longshore-stack-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Sends the id of each started process.
    struct Seen(Sender<u32>, Duration);

    impl Watch for Seen {
        fn started(&mut self, pid: u32) {
            self.0.send(pid).unwrap();
        }

        fn ended(&mut self, _how: &dyn Display, _lived: Duration) -> Duration {
            self.1
        }
    }

    fn seen(pause: Duration) -> (Seen, Receiver<u32>) {
        let (tell, hear) = channel();
        (Seen(tell, pause), hear)
    }

    #[test]
    fn a_process_that_was_just_started_is_alive_and_one_that_has_ended_is_not() {
        for round in 0..100 {
            // becomes another program while it is looked at
            let mut child = shell("exec sleep 600").spawn().unwrap();
            let pid = child.id();
            for look in 0..20 {
                assert!(alive(pid), "start {round}, look {look}");
            }
            child.kill().unwrap();
            // ended although nothing has asked for its status
            assert!(gone(pid, LONG), "start {round}");
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_killed_process_is_started_again_until_its_keeper_is_dropped() {
        let folder = Folder::new("kept");
        let (watch, started) = seen(Duration::ZERO);
        let kept = Kept::start_watched(sleeper, folder.0.join("log"), watch).unwrap();
        let first = started.recv_timeout(LONG).unwrap();
        assert_eq!(kept.pid(), Some(first));

        signal(first, Signal::SIGKILL).unwrap();
        let second = started.recv_timeout(LONG).unwrap();
        assert_ne!(first, second);
        assert!(gone(first, LONG));

        drop(kept);
        assert!(!alive(second));
    }

    #[test]
    fn a_keeper_ends_during_a_pause() {
        let folder = Folder::new("pause");
        let (watch, started) = seen(Duration::from_hours(1));
        let kept = Kept::start_watched(|| shell("exit 3"), folder.0.join("log"), watch).unwrap();
        let pid = started.recv_timeout(LONG).unwrap();
        assert!(gone(pid, LONG));

        kept.end(LONG);
        assert!(started.try_recv().is_err(), "it was started again");
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed_in_time() {
        let folder = Folder::new("ignores");
        let (watch, started) = seen(Duration::ZERO);
        let ignores = || shell("trap '' TERM; echo ready; while :; do sleep 600; done");
        let kept = Kept::start_watched(ignores, folder.0.join("log"), watch).unwrap();
        let pid = started.recv_timeout(LONG).unwrap();
        while end_of(kept.log()).is_empty() {
            thread::sleep(LOOK_AGAIN);
        }

        kept.end(Duration::from_millis(100));
        assert!(!alive(pid));
    }

    #[test]
    fn a_dropped_process_is_gone_and_its_log_remains() {
        let folder = Folder::new("dropped");
        let process = Process::start(shell("echo started; exec sleep 600"), folder.0.join("log")).unwrap();
        let pid = process.pid().unwrap();
        while end_of(&process.log).is_empty() {
            thread::sleep(LOOK_AGAIN);
        }

        drop(process);

        assert!(!alive(pid));
        assert_eq!(end_of(&folder.0.join("log")), "started\n");
    }

    #[test]
    fn a_pid_file_counts_only_with_the_right_program() {
        let folder = Folder::new("pid");
        let process = Process::start(sleeper(), folder.0.join("log")).unwrap();
        let (pid, file) = (process.pid().unwrap(), folder.0.join("pid"));
        fs::write(&file, format!("{pid}\nmore\n")).unwrap();

        assert_eq!(pid_in(&file, "sleep"), Some(pid));
        assert_eq!(pid_in(&file, "redis-server"), None);
        drop(process);
        assert_eq!(pid_in(&file, "sleep"), None);
        assert_eq!(pid_in(&folder.0.join("none"), "sleep"), None);
    }

    #[test]
    fn only_ids_of_single_processes_are_signalled() {
        for pid in [0, 1, u32::MAX] {
            assert!(signal(pid, Signal::SIGCONT).is_err(), "{pid}");
        }
    }
}
