//! The last lines that a check printed, for the summary: the end of a long log shows why a check failed.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, PipeReader, Write as _, pipe, stdout};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

/// How many lines are kept.
const LINES: usize = 60;

/// How long output may arrive after its program has ended: what that left running may hold the pipe open for ever.
const PATIENCE: Duration = Duration::from_secs(1);

/// The last lines of the check that runs.
static LAST: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

fn last() -> MutexGuard<'static, Option<VecDeque<String>>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the last lines from now on.
pub(crate) fn begin() {
    *last() = Some(VecDeque::with_capacity(LINES));
}

/// The last lines since [`begin`].
pub(crate) fn end() -> Vec<String> {
    last().take().unwrap_or_default().into()
}

/// The output of a program, which passes through here.
pub(crate) struct Through(mpsc::Receiver<()>);

impl Through {
    /// Waits for the rest of the output.
    pub(crate) fn finish(self) {
        // An error is the end as well: the thread has dropped its side.
        _ = self.0.recv_timeout(PATIENCE);
    }
}

/// Starts a program, whose output passes through here if lines are kept.
pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<(Child, Option<Through>)> {
    if last().is_none() {
        return Ok((command.spawn()?, None));
    }
    let (reader, writer) = pipe().context("a pipe for the output")?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn();
    // Otherwise the command would keep the pipe open.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let child = child?;
    let (ended, wait) = mpsc::channel();
    thread::spawn(move || {
        pass_on(reader);
        drop(ended);
    });
    Ok((child, Some(Through(wait))))
}

fn pass_on(reader: PipeReader) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // The program must not wait for a reader that has gone.
        _ = stdout().write_all(&line);
        if let Some(last) = last().as_mut() {
            if last.len() == LINES {
                // The names of failed tests, which many lines may follow, stay.
                let oldest = last.iter().position(|line| !line.ends_with("... FAILED")).unwrap_or(0);
                last.remove(oldest);
            }
            last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        line.clear();
    }
}
