//! The last lines that a check printed, for the summary: the end of a long log shows why a check failed. A program that prints
//! nothing for too long hangs: it is ended, and tests that hang are named.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _, pipe, stdout};
use std::mem;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use longshore_stack::process::{Signal, signal_group};

/// How many lines are kept.
const LINES: usize = 60;

/// Of these, how many at most say why tests failed.
const REASONS: usize = 40;

/// Lines of a failed test that are kept, with its name.
const OF_A_TEST: usize = 8;

/// How long output may arrive after its program has ended: what that left running may hold the pipe open for ever.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a program may print nothing. The largest of our crates compiles in minutes.
const SILENCE: Duration = Duration::from_mins(15);

/// What libtest says once of a test that takes long.
const IS_SLOW: &str = " has been running for over 60 seconds";

/// A line.
struct Kept {
    text: String,
    /// Whether it says why a test failed.
    is_reason: bool,
}

/// The output of a check.
#[derive(Clone)]
struct Output {
    /// What each line begins with where it is printed, if others print at the same time.
    name: Option<Arc<str>>,
    last: Arc<Mutex<VecDeque<Kept>>>,
}

impl Output {
    fn last(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// The output of the check that this thread runs.
    static OUTPUT: RefCell<Option<Output>> = const { RefCell::new(None) };
}

/// Keeps the last lines of what this thread runs from now on. A name is printed before each line.
pub(crate) fn begin(name: Option<&str>) {
    OUTPUT.set(Some(Output { name: name.map(Arc::from), last: Arc::default() }));
}

/// The last lines since [`begin`].
pub(crate) fn end() -> Vec<String> {
    let Some(output) = OUTPUT.take() else { return Vec::new() };
    mem::take(&mut *output.last()).into_iter().map(|line| line.text).collect()
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
    let Some(output) = OUTPUT.with_borrow(Clone::clone) else { return Ok((command.spawn()?, None)) };
    let (reader, writer) = pipe().context("a pipe for the output")?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn();
    // Otherwise the command would keep the pipe open.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let child = child?;
    let group = child.id();
    let (ended, wait) = mpsc::channel();
    let (printed, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            _ = printed.send(mem::take(&mut line));
        }
    });
    thread::spawn(move || {
        // not if the program has ended: what it left running may be silent, and its group may be another's
        if let Some(hanging) = pass_on(&lines, &output, SILENCE)
            && ended.send(()).is_ok()
        {
            let said = format!("ended, since it printed nothing for {SILENCE:?}{hanging}\n");
            show(&output, said.as_bytes(), true);
            _ = signal_group(group, Signal::SIGKILL);
        }
    });
    Ok((child, Some(Through(wait))))
}

/// Passes lines on until the program ends. If it prints nothing for so long, returns which tests are still running.
fn pass_on(lines: &mpsc::Receiver<Vec<u8>>, output: &Output, silence: Duration) -> Option<String> {
    let mut of_failed = 0;
    let mut slow: Vec<String> = Vec::new();
    loop {
        let line = match lines.recv_timeout(silence) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Some(slow.iter().flat_map(|test| [", ", test.as_str(), " is running"]).collect());
            }
        };
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.starts_with("---- ") && text.ends_with(" stdout ----") {
            of_failed = OF_A_TEST;
        }
        if let Some(test) = text.strip_suffix(IS_SLOW) {
            slow.push(test.to_owned());
        } else if let Some((test, _)) = text.split_once(" ... ") {
            slow.retain(|running| running != test);
        }
        show(output, &line, text.ends_with("... FAILED") || of_failed > 0);
        of_failed = of_failed.saturating_sub(1);
    }
}

/// Prints a line, and keeps it.
fn show(output: &Output, line: &[u8], is_reason: bool) {
    // The program must not wait for a reader that has gone.
    _ = match &output.name {
        Some(name) => stdout().write_all(&[name.as_bytes(), b" | ", line].concat()),
        None => stdout().write_all(line),
    };
    let text = String::from_utf8_lossy(line).trim_end().to_owned();
    keep(&mut output.last(), Kept { text, is_reason });
}

/// Keeps a line; what many lines may follow stays: the names of failed tests, and why they failed.
fn keep(last: &mut VecDeque<Kept>, line: Kept) {
    if last.len() == LINES {
        let reasons = last.iter().filter(|line| line.is_reason).count();
        let oldest = last.iter().position(|line| !line.is_reason || reasons > REASONS).unwrap_or(0);
        last.remove(oldest);
    }
    last.push_back(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_why_tests_failed() {
        let mut last = VecDeque::new();
        for number in 0..500 {
            keep(&mut last, Kept { text: number.to_string(), is_reason: number < 100 });
        }
        let kept: Vec<&str> = last.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(kept.len(), LINES);
        assert_eq!(kept[..REASONS].first(), Some(&"60"));
        assert_eq!(kept[REASONS - 1..=REASONS], ["99", "480"]);
        assert_eq!(kept.last(), Some(&"499"));
    }

    #[test]
    fn a_test_that_hangs_is_named() {
        let output = Output { name: None, last: Arc::default() };
        let (printed, lines) = mpsc::channel();
        for line in ["test a", "test b"] {
            printed.send(format!("{line}{IS_SLOW}\n").into_bytes()).unwrap();
        }
        printed.send(b"test a ... ok\n".to_vec()).unwrap();
        let hanging = pass_on(&lines, &output, Duration::from_millis(1));
        assert_eq!(hanging.as_deref(), Some(", test b is running"));
        assert_eq!(output.last().len(), 3);
        drop(printed);
        assert_eq!(pass_on(&lines, &output, Duration::MAX), None);
    }
}
