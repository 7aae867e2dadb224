//! The report of a run of a cluster.

use std::fmt;

use serde::Serialize;

use crate::chaos::report::{Check, Played};

/// A fault, and what it cost. All times are in seconds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// From the beginning of the faults.
    pub at: f64,
    /// What it was.
    pub fault: String,
    /// Its kind.
    pub kind: &'static str,
    /// Until its cause was removed.
    pub lasted: f64,
    /// Writes that were answered with success in its time, and are not there.
    pub lost: u64,
    /// Writes in its time that are there twice.
    pub twice: u64,
    /// The longest time in which no Postgres could be written.
    pub postgres: f64,
    /// The longest time without a write that the service answered with success, at the worst process that was not cut off.
    pub writes: f64,
    /// The same of reads.
    pub reads: f64,
    /// The longest time in which a destination without faults accepted no delivery.
    pub deliveries: f64,
    /// From the end of a cut until each process that was cut off had written again.
    pub rejoined: Option<f64>,
}

/// The report, printed for people and stored as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterReport {
    /// The seed of the run.
    pub seed: u64,
    /// What kind of run it was.
    pub run: &'static str,
    /// How long it took, with the start of all servers and the checks.
    pub took: f64,
    /// How long starting took.
    pub started_after: f64,
    /// How long faults were injected.
    pub seconds: f64,
    /// The time from the last fault until all work was done.
    pub quiet_after: f64,
    /// The faults, in order.
    pub faults: Vec<Row>,
    /// What was asked and answered meanwhile.
    #[serde(flatten)]
    pub played: Played,
    /// The invariants.
    pub checks: Vec<Check>,
}

impl ClusterReport {
    /// Whether all invariants hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }
}

impl fmt::Display for ClusterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, run, took, started_after, seconds, quiet_after, .. } = self;
        writeln!(f, "seed        {seed}, {run}")?;
        writeln!(
            f,
            "took        {took:.0} s: started after {started_after:.0} s, {} faults in {seconds:.0} s, quiet {quiet_after:.1} s after the last",
            self.faults.len()
        )?;
        writeln!(
            f,
            "\n   at  lasted  lost  twice  no Postgres  no write  no read  no delivery  rejoined  fault (times in seconds)"
        )?;
        for Row { at, fault, lasted, lost, twice, postgres, writes, reads, deliveries, rejoined, .. } in
            &self.faults
        {
            let rejoined = rejoined.map_or_else(|| "-".to_owned(), |after| format!("{after:.1}"));
            writeln!(
                f,
                "{at:>5.1}  {lasted:>6.1}  {lost:>4}  {twice:>5}  {postgres:>11.1}  {writes:>8.1}  {reads:>7.1}  {deliveries:>11.1}  {rejoined:>8}  {fault}"
            )?;
        }
        writeln!(f)?;
        write!(f, "{}", self.played)?;
        self.checks.iter().try_for_each(|check| write!(f, "{check}"))?;
        if self.holds() {
            write!(f, "cluster     holds")
        } else {
            write!(f, "cluster     FAILS; --seed {seed}")
        }
    }
}
