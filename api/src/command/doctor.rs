//! `longshore-api doctor`: what is wrong with an installation, and what to do about it.

use std::io::{ErrorKind, Write as _, stdout};

use clap::Args;
use longshore_kernel::clock::Clock;
use longshore_operate::doctor::{self, Finding, Patient, Verdict};
use serde_json::json;

use super::Exit;

#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    patient: Patient,
}

impl Doctor {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let findings = doctor::examine(&self.patient, &Clock::system()).await;
        let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok);
        let text = if self.json {
            json!({"verdict": worst, "findings": findings}).to_string()
        } else {
            findings.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        match writeln!(stdout(), "{text}") {
            // a reader that wants no more, such as `head`, hides no fault
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written?,
        }
        Ok(if worst == Verdict::Fail { Exit::Failed } else { Exit::Done })
    }
}

fn line(finding: &Finding) -> String {
    let Finding { check, verdict, found, remedy } = finding;
    let line = format!("{:<5} {check:<21} {found}", verdict.as_str());
    match remedy {
        Some(remedy) => format!("{line}; {remedy}"),
        None => line,
    }
}
