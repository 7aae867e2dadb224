//! What a process takes, as its kernel counts it.

use std::time::Duration;

use anyhow::Context as _;

/// The time that all threads of some processes have spent on a processor, as the scheduler counts it.
pub(super) fn busy(pids: &[u32]) -> anyhow::Result<Duration> {
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

/// Forgets the most memory that a process has had so far.
pub(crate) fn forget_peak(pid: u32) -> anyhow::Result<()> {
    let file = format!("/proc/{pid}/clear_refs");
    // 5: "reset the peak resident set size" (man 5 proc)
    std::fs::write(&file, "5").with_context(|| file.clone())
}

/// The most memory that a process has had resident, in MiB.
pub(crate) fn peak(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("there is no VmHWM")?;
    let kibibytes: u32 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(f64::from(kibibytes) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
