//! The measurements, as a table and as JSON.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use longshore_bench::measure;
use longshore_bench::measure::Effort;
use longshore_bench::stack::{Stack, StackSettings};
use serde_json::json;

#[derive(Args, Debug)]
pub(super) struct Bench {
    /// Fewer and shorter runs: a minute in all.
    #[arg(long)]
    quick: bool,
    /// File to keep the figures in, as JSON.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// What was measured, for that file: a commit.
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
        let stack = Stack::start(&self.stack).await?;
        println!("{}", measure::HEAD);
        let rows = measure::all(&stack, effort, |row| println!("{row}")).await?;
        if let Some(path) = &self.keep {
            let kept = json!({ "commit": self.commit, "quick": self.quick, "rows": rows });
            std::fs::write(path, serde_json::to_vec_pretty(&kept)?)
                .with_context(|| path.display().to_string())?;
            println!("\nkept in {}", path.display());
        }
        let short = rows.iter().filter(|row| !row.ok).count();
        if short > 0 {
            bail!("{short} of {} figures fall short", rows.len());
        }
        Ok(())
    }
}
