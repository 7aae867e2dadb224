//! The report of a run.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Pieces of evidence kept for each check.
const SHOWN: usize = 10;

/// One invariant.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// The invariant.
    pub name: String,
    /// How many items were checked.
    pub looked_at: u64,
    /// How many violate it.
    pub violations: u64,
    /// The first violations.
    pub evidence: Vec<String>,
}

impl Check {
    pub(crate) fn new(name: &str, looked_at: u64, mut found: Vec<String>) -> Self {
        let violations = found.len() as u64;
        found.truncate(SHOWN);
        Self { name: name.to_owned(), looked_at, violations, evidence: found }
    }

    /// Whether it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violations == 0
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds() { "ok" } else { "BROKEN" };
        writeln!(f, "{verdict:<11} {} ({} of {} break it)", self.name, self.violations, self.looked_at)?;
        self.evidence.iter().try_for_each(|evidence| writeln!(f, "              {evidence}"))
    }
}

/// An injected fault.
#[derive(Debug, Clone, Serialize)]
pub struct Injected {
    /// Seconds from the beginning of the run.
    pub at: f64,
    /// What it was.
    pub fault: String,
    /// Its kind.
    pub kind: String,
    /// How long it lasted, in seconds.
    pub lasted: f64,
    /// The time from its end until a working destination accepted a delivery, in seconds; `None` if none came
    /// any more, or if the fault does not affect deliveries.
    pub pause: Option<f64>,
}

/// What was asked and answered in a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Played {
    /// The number of answers by status, and of requests without one.
    pub answers: BTreeMap<String, u64>,
    /// The promises.
    pub promised: BTreeMap<&'static str, u64>,
    /// Changes for which events were due.
    pub changes: u64,
    /// Webhooks that subscribed to each.
    pub webhooks: u64,
    /// Deliveries that destinations accepted repeatedly.
    pub duplicates: BTreeMap<String, u64>,
    /// The answers to the neighbour that floods.
    pub neighbour: BTreeMap<String, u64>,
    /// The number of requests during the misbehaviour of each partner.
    pub partners: BTreeMap<String, u64>,
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "answers     {}", listed(&self.answers))?;
        writeln!(f, "neighbour   {}", listed(&self.neighbour))?;
        writeln!(f, "promised    {}", listed(&self.promised))?;
        writeln!(f, "webhooks    {} changes to {} webhooks", self.changes, self.webhooks)?;
        writeln!(f, "delivered again  {}", listed(&self.duplicates))?;
        writeln!(f, "partners    {}", listed(&self.partners))
    }
}

/// The report of a run, printed for people and stored as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// How long faults were injected, in seconds.
    pub seconds: f64,
    /// How the full disk was created.
    pub disk: &'static str,
    /// The faults, in order.
    pub faults: Vec<Injected>,
    /// What was asked and answered meanwhile.
    #[serde(flatten)]
    pub played: Played,
    /// The time from the last fault until all work was done, in seconds.
    pub quiet_after: f64,
    /// The invariants.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether all invariants hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }
}

fn listed<K: fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    counts.iter().map(|(what, count)| format!("{count} × {what}")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed        {}", self.seed)?;
        writeln!(
            f,
            "broken      for {:.0} s, {} faults; quiet {:.1} s after the last",
            self.seconds,
            self.faults.len(),
            self.quiet_after
        )?;
        let mut kinds = BTreeMap::<&str, (u32, f64)>::new();
        for fault in &self.faults {
            let (count, longest) = kinds.entry(&fault.kind).or_default();
            *count += 1;
            *longest = longest.max(fault.pause.unwrap_or(0.0));
        }
        for (kind, (count, longest)) in kinds {
            write!(f, "              {count:>3} × {kind}")?;
            if longest > 0.0 {
                write!(f, " (longest silence after it {longest:.1} s)")?;
            }
            writeln!(f)?;
        }
        write!(f, "{}", self.played)?;
        writeln!(f, "disk        {}", self.disk)?;
        self.checks.iter().try_for_each(|check| write!(f, "{check}"))?;
        if self.holds() {
            write!(f, "chaos       holds")
        } else {
            write!(f, "chaos       FAILS; ./dev chaos --seed {} does the same again", self.seed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_holds_as_long_as_nothing_was_found_and_a_failing_one_names_its_seed() {
        let with = |found: Vec<String>| Report {
            seed: 4711,
            seconds: 60.0,
            disk: "its own",
            faults: Vec::new(),
            played: Played::default(),
            quiet_after: 0.0,
            checks: vec![Check::new("nothing is lost", 9, found)],
        };
        assert!(with(Vec::new()).holds());
        let failed = with(vec!["that was lost".to_owned()]);
        assert!(!failed.holds());
        assert!(failed.to_string().contains("that was lost"));
        assert!(failed.to_string().contains("--seed 4711"));
    }
}
