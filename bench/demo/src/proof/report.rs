//! The result of a proof.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::api::{ItemError, Progress};
use crate::catalogue::Expected;

/// One bulk change of all products.
#[derive(Debug, Clone)]
pub struct Phase {
    /// What it was.
    pub name: &'static str,
    /// The number of products changed, which is the number of expected webhooks.
    pub changes: u64,
    /// The time from the request to the end of its job.
    pub executed: Duration,
    /// The time from the request to its last webhook.
    pub delivered: Duration,
}

/// The result of a proof; printed as a summary for people.
#[derive(Debug, Clone)]
pub struct Report {
    /// The expected result of the sync.
    pub expected: Expected,
    /// The actual result.
    pub synced: Progress,
    /// The refused rows.
    pub refused: Vec<ItemError>,
    /// Products in the organisation afterwards.
    pub products: usize,
    /// The changes, in order.
    pub phases: Vec<Phase>,
    /// The changes of the second phase delivered when the worker was killed.
    pub told_at_kill: u64,
    /// The changes of the third phase delivered when Redis was emptied for the second time.
    pub told_at_flush: u64,
    /// Requests to the e-shop.
    pub webhooks: u64,
    /// Changes that were never delivered.
    pub lost: u64,
    /// Webhook ids in addition to one per change.
    pub invented: u64,
    /// Requests that repeated a change with its id.
    pub duplicates: u64,
    /// Requests with an invalid signature.
    pub unsigned: u64,
    /// Requests about anything else.
    pub foreign: u64,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            expected: Expected { taken: 0, refused: 0 },
            synced: Progress { total: 0, done: 0, changed: 0, unchanged: 0, failed: 0, withheld: 0 },
            refused: Vec::new(),
            products: 0,
            phases: Vec::new(),
            told_at_kill: 0,
            told_at_flush: 0,
            webhooks: 0,
            lost: 0,
            invented: 0,
            duplicates: 0,
            unsigned: 0,
            foreign: 0,
        }
    }
}

impl Report {
    /// The violations of the guarantee; empty if it holds.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let Expected { taken, refused } = self.expected;
        let each_change = |phase: &Phase| phase.changes == taken;
        let facts = [
            (
                self.synced.changed == taken && self.products as u64 == taken,
                format!("{taken} products were to come in, {} did", self.products),
            ),
            (
                self.synced.failed == refused && self.refused.len() as u64 == refused,
                format!(
                    "{refused} rows were to be refused: {} were, {} are listed",
                    self.synced.failed,
                    self.refused.len()
                ),
            ),
            (
                self.refused.iter().all(|error| !error.code.is_empty() && !error.message.is_empty()),
                "a row was refused without a reason".to_owned(),
            ),
            (self.phases.iter().all(each_change), "a bulk switch did not change every product".to_owned()),
            (self.told_at_kill < taken || taken < 2, "the worker was killed too late".to_owned()),
            (self.told_at_flush < taken || taken < 2, "Redis was emptied too late".to_owned()),
            (self.lost == 0, format!("{} changes were never delivered", self.lost)),
            (self.invented == 0, format!("{} webhook ids stand for no change", self.invented)),
            (self.unsigned == 0, format!("{} webhooks had no valid signature", self.unsigned)),
            (self.foreign == 0, format!("{} webhooks reported something else", self.foreign)),
        ];
        facts.into_iter().filter(|(holds, _)| !holds).map(|(_, fault)| fault).collect()
    }

    /// The number of refused rows for each reason.
    fn reasons(&self) -> BTreeMap<String, usize> {
        let mut reasons = BTreeMap::new();
        for error in &self.refused {
            *reasons.entry(format!("{} ({})", error.message, error.code)).or_default() += 1;
        }
        reasons
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.expected.taken + self.expected.refused;
        writeln!(f, "catalogue     {rows} rows: {} in, {} refused", self.synced.changed, self.synced.failed)?;
        for (reason, rows) in self.reasons() {
            writeln!(f, "                {rows:>6} × {reason}")?;
        }
        for phase in &self.phases {
            writeln!(
                f,
                "{:<13} {} products: job {:.2} s, last webhook {:.2} s",
                phase.name,
                phase.changes,
                phase.executed.as_secs_f64(),
                phase.delivered.as_secs_f64()
            )?;
        }
        writeln!(f, "broken        worker killed when {} of its webhooks had come,", self.told_at_kill)?;
        writeln!(f, "              Redis emptied at 0 and at {}", self.told_at_flush)?;
        let changes: u64 = self.phases.iter().map(|phase| phase.changes).sum();
        writeln!(
            f,
            "webhooks      {} came for {changes} changes: {} lost, {} delivered again, {} with a bad signature",
            self.webhooks, self.lost, self.duplicates, self.unsigned
        )?;
        let faults = self.faults();
        if faults.is_empty() {
            return write!(f, "proof         holds: each change delivered, each signature valid, none lost");
        }
        write!(f, "proof         FAILS")?;
        faults.iter().try_for_each(|fault| write!(f, "\n              {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Report {
        let phase = |name| Phase { name, changes: 2, executed: Duration::ZERO, delivered: Duration::ZERO };
        Report {
            expected: Expected { taken: 2, refused: 0 },
            synced: Progress { total: 2, done: 2, changed: 2, unchanged: 0, failed: 0, withheld: 0 },
            products: 2,
            phases: ["synced in", "switched off", "switched on"].map(phase).into(),
            webhooks: 7,
            duplicates: 1,
            ..Report::default()
        }
    }

    #[test]
    fn a_repeated_delivery_is_no_fault() {
        assert_eq!(good().faults(), Vec::<String>::new());
    }

    #[test]
    fn each_way_to_break_the_promise_is_a_fault() {
        let bad = [
            Report { lost: 1, ..good() },
            Report { invented: 1, ..good() },
            Report { unsigned: 1, ..good() },
            Report { foreign: 1, ..good() },
            Report { products: 1, ..good() },
            Report { told_at_kill: 2, ..good() },
            Report { expected: Expected { taken: 2, refused: 1 }, ..good() },
        ];
        for report in bad {
            assert_eq!(report.faults().len(), 1, "{report}");
        }
    }
}
