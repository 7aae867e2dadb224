//! An upgrade and its roll-back under load.

use std::path::PathBuf;

use crate::chaos::report::Check;
use crate::chaos::upgrade::{self, Versions};
use anyhow::ensure;
use clap::Args;

use super::chaos::{a_seed, unless_stopped};

#[derive(Args, Debug)]
pub(super) struct Upgrade {
    /// Folder with the programs of the version before.
    #[arg(long)]
    old: PathBuf,
    /// Folder with the programs of the version after.
    #[arg(long)]
    new: PathBuf,
    /// Dump of a database of the version before.
    #[arg(long)]
    dump: Option<PathBuf>,
    /// Seed of the load. The default is random.
    #[arg(long)]
    seed: Option<u64>,
}

impl Upgrade {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let versions = Versions { old: &self.old.canonicalize()?, new: &self.new.canonicalize()? };
        let seed = self.seed.unwrap_or_else(a_seed);
        println!("seed {seed}");
        let run = upgrade::run(versions, self.dump.as_deref(), seed, |line| println!("{line}"));
        let checks = unless_stopped(run).await?;
        ensure!(checks.iter().all(Check::holds), "seed {seed}: not everything was kept that was promised");
        println!("upgrade and roll-back hold");
        Ok(())
    }
}
