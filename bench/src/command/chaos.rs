//! The service, broken on purpose.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use longshore_bench::chaos::{self, Effort};
use longshore_shared::platform::ids;

#[derive(Args, Debug)]
pub(super) struct Chaos {
    /// What is broken when follows from it; a random one unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// For how many minutes things are broken; without it, for little more than one, and never long.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: Option<u64>,
    /// File to keep the report in, as JSON.
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl Chaos {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        // short enough to be typed
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
}
