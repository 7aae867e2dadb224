//! Chaos runs.

use std::path::PathBuf;

use crate::chaos::{self, Effort, table};
use crate::measure;
use anyhow::bail;
use clap::Args;
use clap::builder::PossibleValuesParser;
use longshore_kernel::ids;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args, Debug)]
pub(super) struct Chaos {
    /// Seed of the order of faults. The default is random.
    #[arg(long)]
    seed: Option<u64>,
    /// Minutes of faults. The default is a little more than one, with short faults.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: Option<u64>,
    /// Break one dependency at a time and measure the cost.
    #[arg(long, conflicts_with_all = ["seed", "minutes"])]
    table: bool,
    /// Run only the row of the table with this name. Can be repeated.
    #[arg(long, requires = "table", value_parser = PossibleValuesParser::new(table::NAMES))]
    only: Vec<String>,
    /// Divisor of the sizes of the table.
    #[arg(long, requires = "table", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    divisor: u16,
    /// File for the report, as JSON.
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl Chaos {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        // dropping the run ends and unmounts everything that it started
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        tokio::select! {
            ran = Box::pin(async { if self.table { self.table().await } else { self.all().await } }) => ran,
            _ = terminated.recv() => bail!("terminated"),
            _ = interrupted.recv() => bail!("interrupted"),
        }
    }

    async fn all(&self) -> anyhow::Result<()> {
        // short enough to type
        let seed = self.seed.unwrap_or_else(|| u64::from(ids::random_id().as_fields().0));
        let effort = self.minutes.map_or(Effort::SHORT, Effort::minutes);
        let report = chaos::run(seed, effort, |line| println!("{line}")).await?;
        println!("\n{report}");
        if let Some(path) = &self.keep {
            report.write(path)?;
            println!("\nkept in {}", path.display());
        }
        if !report.holds() {
            bail!("seed {seed}: not everything was kept that was promised");
        }
        Ok(())
    }

    async fn table(&self) -> anyhow::Result<()> {
        println!("{}", measure::HEAD);
        let rows = table::all(self.divisor.into(), &self.only, |row| println!("{row}")).await?;
        if let Some(path) = &self.keep {
            std::fs::write(path, serde_json::to_vec_pretty(&rows)?)?;
            println!("\nkept in {}", path.display());
        }
        let short = rows.iter().filter(|row| !row.ok).count();
        if short > 0 {
            bail!("{short} of {} figures fall short", rows.len());
        }
        Ok(())
    }
}
