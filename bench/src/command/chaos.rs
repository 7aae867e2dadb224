//! Chaos runs.

use std::fmt::Display;
use std::path::PathBuf;

use crate::chaos::cluster::{self, Hosts, Length, Setup};
use crate::chaos::{self, Effort, table};
use crate::measure;
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use longshore_kernel::ids;
use serde::Serialize;
use tokio::process::Command;
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
    /// Break a cluster: Postgres under Patroni and Redis under Sentinel on machines of their own, one fault of each kind. It needs root.
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "short", conflicts_with_all = ["minutes", "table"])]
    cluster: Option<Length>,
    /// How processes of a cluster find the primary of Postgres.
    #[arg(long, requires = "cluster", value_enum, default_value_t = Hosts::Half)]
    hosts: Hosts,
    /// Folder for the logs of all servers and processes of a cluster.
    #[arg(long, requires = "cluster")]
    logs: Option<PathBuf>,
    /// Whether this process is inside namespaces of its own.
    #[arg(long, hide = true, requires = "cluster")]
    inside: bool,
    /// File for the report, as JSON.
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl Chaos {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        unless_stopped(self.run_one()).await
    }

    async fn run_one(&self) -> anyhow::Result<()> {
        match self {
            Self { cluster: Some(_), inside: false, .. } => enter_namespaces().await,
            Self { cluster: Some(length), .. } => self.cluster(*length).await,
            Self { table: true, .. } => self.table().await,
            _ => self.all().await,
        }
    }

    async fn cluster(&self, length: Length) -> anyhow::Result<()> {
        let setup = Setup {
            seed: self.seed.unwrap_or_else(a_seed),
            length,
            hosts: self.hosts,
            logs: self.logs.clone(),
        };
        let report = cluster::run(&setup, |line| println!("{line}")).await?;
        self.conclude(&report, report.holds(), setup.seed)
    }

    async fn all(&self) -> anyhow::Result<()> {
        let seed = self.seed.unwrap_or_else(a_seed);
        let effort = self.minutes.map_or(Effort::SHORT, Effort::minutes);
        let report = chaos::run(seed, effort, |line| println!("{line}")).await?;
        self.conclude(&report, report.holds(), seed)
    }

    fn conclude(&self, report: &(impl Display + Serialize), holds: bool, seed: u64) -> anyhow::Result<()> {
        println!("\n{report}");
        self.keep(report)?;
        ensure!(holds, "seed {seed}: not everything was kept that was promised");
        Ok(())
    }

    /// Writes a report as JSON, if wanted.
    fn keep(&self, report: &impl Serialize) -> anyhow::Result<()> {
        if let Some(path) = &self.keep {
            std::fs::write(path, serde_json::to_vec_pretty(report)?)?;
            println!("\nkept in {}", path.display());
        }
        Ok(())
    }

    async fn table(&self) -> anyhow::Result<()> {
        println!("{}", measure::HEAD);
        let rows = table::all(self.divisor.into(), &self.only, |row| println!("{row}")).await?;
        self.keep(&rows)?;
        let short = rows.iter().filter(|row| !row.ok).count();
        if short > 0 {
            bail!("{short} of {} figures fall short", rows.len());
        }
        Ok(())
    }
}

/// A seed that is short enough to type.
pub(super) fn a_seed() -> u64 {
    u64::from(ids::random_id().as_fields().0)
}

/// A run, unless a signal ends it. Dropping the run ends and unmounts everything that it started.
pub(super) async fn unless_stopped<T>(run: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    tokio::select! {
        ran = Box::pin(run) => ran,
        _ = terminated.recv() => bail!("terminated"),
        _ = interrupted.recv() => bail!("interrupted"),
    }
}

/// Runs this command inside namespaces of its own, for its network, its disks and its processes. When it ends, or this process does,
/// the kernel ends and removes all that is in there.
async fn enter_namespaces() -> anyhow::Result<()> {
    let unshare = ["--net", "--mount", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let tried = Command::new("unshare").args(unshare).arg("true").output().await.context("unshare")?;
    let why = String::from_utf8_lossy(&tried.stderr);
    ensure!(tried.status.success(), "a cluster needs namespaces of its own, so root: {}", why.trim());
    let mut inside = Command::new("setpriv");
    inside.args(["--pdeathsig", "KILL", "unshare"]).args(unshare);
    // what is killed leaves children, which need someone to wait for them
    inside
        .args(["tini", "--"])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--inside");
    // the folder of the run is a disk of its own
    inside.env("TMPDIR", cluster::FOLDER).kill_on_drop(true);
    let ended = inside.status().await?;
    ensure!(ended.success(), "the run of a cluster failed");
    Ok(())
}
