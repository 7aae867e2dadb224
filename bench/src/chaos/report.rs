//! What a run did, and what it found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

/// Pieces of evidence that are kept of each check.
const SHOWN: usize = 10;

/// One invariant.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What must hold.
    pub name: String,
    /// How many were looked at.
    pub looked_at: u64,
    /// How many break it.
    pub violations: u64,
    /// The first of these.
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

/// A fault as it was injected.
#[derive(Debug, Clone, Serialize)]
pub struct Injected {
    /// Seconds since the first could come.
    pub at: f64,
    /// What it was.
    pub fault: String,
    /// Its kind.
    pub kind: String,
    /// For how long it lasted, in seconds.
    pub lasted: f64,
    /// From its end until a destination that is well accepted something, in seconds; nothing where nothing came any more,
    /// or where the fault does not hold up deliveries.
    pub pause: Option<f64>,
}

/// What a run did, and what it found; printed for people, kept as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// From which all of it follows.
    pub seed: u64,
    /// For how long things were broken, in seconds.
    pub seconds: f64,
    /// How a full disk came about.
    pub disk: &'static str,
    /// The faults, in order.
    pub faults: Vec<Injected>,
    /// What was answered: how often each status, and how often nothing.
    pub answers: BTreeMap<String, u64>,
    /// What was promised.
    pub promised: BTreeMap<&'static str, u64>,
    /// Changes that were to be told.
    pub changes: u64,
    /// Webhooks that listened to each.
    pub webhooks: u64,
    /// What destinations accepted again that they had accepted before.
    pub duplicates: BTreeMap<String, u64>,
    /// What the requests of the neighbour that floods were answered.
    pub neighbour: BTreeMap<String, u64>,
    /// How many requests each partner misbehaved at.
    pub partners: BTreeMap<String, u64>,
    /// From the last fault until nothing was left to do, in seconds.
    pub quiet_after: f64,
    /// What must hold.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether all of it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }

    /// Keeps it as JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        Ok(std::fs::write(path, serde_json::to_vec_pretty(self)?)?)
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
        writeln!(f, "answers     {}", listed(&self.answers))?;
        writeln!(f, "neighbour   {}", listed(&self.neighbour))?;
        writeln!(f, "promised    {}", listed(&self.promised))?;
        writeln!(f, "webhooks    {} changes to {} webhooks", self.changes, self.webhooks)?;
        writeln!(f, "told again  {}", listed(&self.duplicates))?;
        writeln!(f, "partners    {}", listed(&self.partners))?;
        writeln!(f, "disk        {}", self.disk)?;
        for check in &self.checks {
            let verdict = if check.holds() { "ok" } else { "BROKEN" };
            writeln!(
                f,
                "{verdict:<11} {} ({} of {} break it)",
                check.name, check.violations, check.looked_at
            )?;
            for evidence in &check.evidence {
                writeln!(f, "              {evidence}")?;
            }
        }
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
            answers: BTreeMap::new(),
            neighbour: BTreeMap::new(),
            promised: BTreeMap::new(),
            changes: 0,
            webhooks: 0,
            duplicates: BTreeMap::new(),
            partners: BTreeMap::new(),
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
