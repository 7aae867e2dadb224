//! The resources of a process, from the kernel.

use std::time::Duration;

use anyhow::Context as _;

/// Positions in `stat` after the name (man 5 proc): the parent, and the user and kernel time of ended
/// children.
const PARENT: usize = 1;
const CHILDREN_USER: usize = 13;

/// The unit of times in `stat`, on every Linux machine.
const TICK: Duration = Duration::from_millis(10);

/// The CPU time of all threads of several processes, from the scheduler.
pub(super) fn busy(pids: &[u32]) -> anyhow::Result<Duration> {
    let mut nanoseconds = 0;
    for pid in pids {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end during this loop.
            let Ok(schedule) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            let spent = schedule.split(' ').next().context("schedstat is empty")?;
            nanoseconds += spent.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// The CPU time of a process and its children, including ended ones.
pub(super) fn busy_with_children(pid: u32) -> anyhow::Result<Duration> {
    let mut spent = busy(&[pid])?;
    for ended in stat(pid)?.split(' ').skip(CHILDREN_USER).take(2) {
        spent += TICK * ended.parse()?;
    }
    for entry in std::fs::read_dir("/proc")? {
        let Some(child) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if parent(child).is_ok_and(|parent| parent == pid) {
            // a child that ends now is counted among the ended ones the next time
            spent += busy(&[child]).unwrap_or_default();
        }
    }
    Ok(spent)
}

/// The parent of a process.
pub(super) fn parent(pid: u32) -> anyhow::Result<u32> {
    Ok(stat(pid)?.split(' ').nth(PARENT).context("stat is too short")?.parse()?)
}

/// The contents of `stat` after the name, which may contain anything.
fn stat(pid: u32) -> anyhow::Result<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    Ok(stat.rsplit_once(") ").context("stat has no name")?.1.to_owned())
}

/// Resets the peak memory of a process.
///
/// # Errors
/// When there is no such process.
pub fn forget_peak(pid: u32) -> anyhow::Result<()> {
    let file = format!("/proc/{pid}/clear_refs");
    // 5: "reset the peak resident set size" (man 5 proc)
    std::fs::write(&file, "5").with_context(|| file.clone())
}

/// The peak resident memory of a process, in MiB.
///
/// # Errors
/// When there is no such process.
pub fn peak(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("there is no VmHWM")?;
    let kibibytes: u32 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(f64::from(kibibytes) / 1024.0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_count_while_they_run_and_when_they_have_ended() {
        let busy_child = "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done; echo; read -r go_on";
        let mut shell = Command::new("sh")
            .args(["-c", &format!("( {busy_child} ); echo; read -r go_on")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (pid, mut output) = (shell.id(), shell.stdout.take().unwrap());
        let mut wait_for_it = || output.read_exact(&mut [0]).unwrap();

        wait_for_it();
        let own = busy(&[pid]).unwrap();
        let while_it_runs = busy_with_children(pid).unwrap();
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        wait_for_it();
        let when_it_has_ended = busy_with_children(pid).unwrap();
        shell.wait().unwrap();

        assert!(while_it_runs > own + 3 * TICK, "{while_it_runs:?}, its own {own:?}");
        // both times are rounded to ticks
        assert!(
            when_it_has_ended + 2 * TICK > while_it_runs,
            "{when_it_has_ended:?}, then {while_it_runs:?}"
        );
    }

    #[test]
    fn the_parent_is_the_process_that_started_another() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let found = parent(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.unwrap(), std::process::id());
    }

    #[test]
    fn a_peak_is_remembered_until_it_is_forgotten() {
        let pid = std::process::id();
        let large = vec![1_u8; 64 << 20];
        assert!(large.iter().map(|&byte| u64::from(byte)).sum::<u64>() > 0);
        drop(large);
        let with = peak(pid).unwrap();
        forget_peak(pid).unwrap();
        assert!(peak(pid).unwrap() < with - 32.0);
    }
}
