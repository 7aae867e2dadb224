//! Instructions of Postgres, counted.

use std::path::PathBuf;

use crate::count;
use anyhow::bail;
use clap::Args;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;

#[derive(Args, Debug)]
pub(super) struct Count {
    /// An empty folder that the user who runs Postgres can reach.
    #[arg(long)]
    folder: PathBuf,
}

impl Count {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        // by one thread, changes that are made together are always served together
        let run =
            move || Builder::new_current_thread().enable_all().build()?.block_on(count::run(&self.folder));
        let counted = spawn_blocking(run).await??;
        for count in &counted {
            println!("{count}");
        }
        if !counted.iter().all(count::Count::is_ok) {
            bail!("a change takes more than it may");
        }
        Ok(())
    }
}
