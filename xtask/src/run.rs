//! Programs that are run to their end, and the signals that end this one.
//!
//! Each program has a process group of its own, and a signal to this process is passed on to that group. So the caller's
//! process group makes no difference, nor does it whether a terminal or another program sends the signal. What was
//! started is removed by destructors on the way out.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use longshore_stack::process::{Signal, signal_group, wait_unreaped};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::tail;

/// How long a program may take to end after a signal: chaos removes what it started.
const PATIENCE: Duration = Duration::from_mins(1);

/// The interval of checking that, and other states.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The programs that are running, and the signal that ended this one.
#[derive(Debug)]
struct Now {
    groups: Vec<u32>,
    stopped: Option<Signal>,
}

static NOW: Mutex<Now> = Mutex::new(Now { groups: Vec::new(), stopped: None });

fn now() -> MutexGuard<'static, Now> {
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of everything that a signal has ended.
#[derive(Debug)]
struct Stopped(Signal);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by {}", self.0)
    }
}

impl std::error::Error for Stopped {}

/// The exit status for an error, if a signal caused it.
pub(crate) fn stopped_by(error: &anyhow::Error) -> Option<u8> {
    let Stopped(signal) = error.downcast_ref()?;
    u8::try_from(128 + *signal as i32).ok()
}

/// Fails once a signal has arrived.
pub(crate) fn check() -> anyhow::Result<()> {
    now().stopped.map_or(Ok(()), |signal| Err(Stopped(signal).into()))
}

/// Waits for a signal.
pub(crate) fn wait() -> anyhow::Result<()> {
    loop {
        check()?;
        thread::park();
    }
}

/// Receives signals from now on; the main thread calls it. Programs that are started do not inherit this: signals are
/// handled, not blocked.
pub(crate) fn listen() -> anyhow::Result<()> {
    let ignored = ignored();
    // Those that are ignored stay so, as `nohup` asks for.
    let heard = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(heard).context("signals")?;
    let main = thread::current();
    thread::spawn(move || {
        // A second signal would leave things half removed, so only the first one counts.
        let first = signals.forever().next();
        let Some(Ok(signal)) = first.map(Signal::try_from) else { return };
        let all = |now: &Now, signal| now.groups.iter().for_each(|group| drop(signal_group(*group, signal)));
        {
            let mut now = now();
            now.stopped = Some(signal);
            // Their ids are still in use: they are removed from here before they are released.
            all(&now, signal);
        }
        main.unpark();
        // Nothing new is started from now on.
        thread::sleep(PATIENCE);
        all(&now(), Signal::SIGKILL);
    });
    Ok(())
}

/// The signals that this process was started to ignore, as bits.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// A command that does not know the caller's servers.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_remove("DATABASE_URL").env_remove("REDIS_URL");
    command
}

/// Runs a program to its end.
pub(crate) fn status(command: &mut Command) -> anyhow::Result<ExitStatus> {
    let mut now = now();
    if let Some(signal) = now.stopped {
        return Err(Stopped(signal).into());
    }
    command.stdin(Stdio::null()).process_group(0);
    let (mut child, output) = tail::spawn(command).with_context(|| name(command))?;
    let group = child.id();
    now.groups.push(group);
    drop(now);
    wait_unreaped(group);
    let ended = {
        let mut now = self::now();
        now.groups.retain(|running| *running != group);
        child.wait()?
    };
    if let Some(output) = output {
        output.finish();
    }
    check()?;
    Ok(ended)
}

/// Runs a program, which must succeed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let ended = status(command)?;
    if !ended.success() {
        bail!("{} failed ({ended})", name(command));
    }
    Ok(())
}

/// Runs a program without output; returns whether it succeeded, which it does not if it is missing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|ended| ended.success())
}

/// Becomes another program; returns only if that fails.
pub(crate) fn replace(command: &mut Command) -> anyhow::Result<()> {
    Err(command.exec()).with_context(|| name(command))
}

/// The local time in the format of `date`.
pub(crate) fn time(format: &str) -> String {
    let time = Command::new("date").arg(format!("+{format}")).output().map(|time| time.stdout);
    String::from_utf8_lossy(&time.unwrap_or_default()).trim().to_owned()
}

fn name(command: &Command) -> String {
    command.get_program().display().to_string()
}

/// The heading of a step.
pub(crate) fn step(what: &str) {
    println!("\n==> {what}");
}
