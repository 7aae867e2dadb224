//! The measurements, as a table and as JSON, and the comparison of two results.

use std::path::PathBuf;

use crate::measure;
use crate::measure::Effort;
use crate::measure::compare::{Comparison, Kept};
use anyhow::bail;
use clap::Args;
use clap::builder::PossibleValuesParser;
use longshore_testkit::stack::StackSettings;

#[derive(Args, Debug)]
pub(super) struct Bench {
    /// Fewer runs with a tenth of the size; takes about a minute.
    #[arg(long)]
    quick: bool,
    /// Run only the measurement with this name. Can be repeated.
    #[arg(long, value_parser = PossibleValuesParser::new(measure::NAMES))]
    only: Vec<String>,
    /// File for the figures, as JSON.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// The measured commit, for that file.
    #[arg(long, default_value = "unknown")]
    commit: String,
    #[command(flatten)]
    stack: StackSettings,
}

impl Bench {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        if cfg!(debug_assertions) {
            bail!("a debug build is not worth measuring; ./dev bench builds another");
        }
        let effort = if self.quick { Effort::QUICK } else { Effort::FULL };
        if self.quick {
            println!("quick: one run of a tenth of the size, to be compared with its like only\n");
        }
        println!("{}", measure::HEAD);
        let rows = measure::all(&self.stack, effort, &self.only, |row| println!("{row}")).await?;
        let kept = Kept { commit: self.commit, quick: self.quick, rows };
        if let Some(path) = &self.keep {
            kept.write(path)?;
            println!("\nkept in {}", path.display());
        }
        let short: Vec<_> = kept.rows.iter().filter(|row| !row.ok).collect();
        if short.is_empty() {
            println!("\nall {} figures meet their goals", kept.rows.len());
            return Ok(());
        }
        println!("\n{} of {} figures fall short:\n{}", short.len(), kept.rows.len(), measure::HEAD);
        for row in &short {
            println!("{row}");
        }
        bail!("{} figures fall short", short.len());
    }
}

#[derive(Args, Debug)]
pub(super) struct Compare {
    /// The earlier figures, as `bench` kept them.
    before: PathBuf,
    /// The later ones.
    after: PathBuf,
}

impl Compare {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        println!("{}", Comparison(&Kept::read(&self.before)?, &Kept::read(&self.after)?));
        Ok(())
    }
}
