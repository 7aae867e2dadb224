//! `demo`, `bench` and `chaos`: commands of `longshore-demo` and `longshore-bench`, built and given what they need.

use std::fs;

use crate::command::up::need_running;
use crate::place::{DEV, Place};
use crate::run::{self, step, time};
use crate::scratch::{Folder, Scratch};

/// The program.
const BENCH: &str = "longshore-bench";

/// The profile of measurements: as optimised as Cargo makes it by default.
const RELEASE: &str = "release";

/// The name of a file by the time of its run.
fn dated(folder: &std::path::Path) -> anyhow::Result<std::path::PathBuf> {
    fs::create_dir_all(folder)?;
    Ok(folder.join(format!("{}.json", time("%Y-%m-%dT%H-%M-%S"))))
}

pub(crate) fn demo(place: &Place, further: &[&str]) -> anyhow::Result<()> {
    need_running(place)?;
    run::run(&mut place.build(DEV))?;
    let mut demo = run::command(place.program(DEV, "longshore-demo"));
    demo.arg("demo").arg("--env-file").arg(place.dev.join("env"));
    run::run(demo.arg("--worker-pid-file").arg(place.dev.join("worker.pid")).args(further))
}

pub(crate) fn bench(place: &Place, further: &[&str]) -> anyhow::Result<()> {
    step("Building (release)");
    run::run(&mut place.build(RELEASE))?;
    let mut bench = run::command(place.program(RELEASE, BENCH));
    if let ["--compare", files @ ..] = further {
        return run::run(bench.arg("compare").args(files));
    }
    // Postgres with its defaults, durable: otherwise a figure is worth nothing.
    let scratch = Scratch::start(&place.data()?, &[("max_connections", "200")])?;
    bench.env("DATABASE_URL", &scratch.database_url);
    if let ["--explain", further @ ..] = further {
        return run::run(bench.arg("explain").args(further));
    }
    bench
        .arg("bench")
        .arg("--keep")
        .arg(dated(&place.dev.join("bench"))?)
        .args(["--commit", &place.commit()]);
    run::run(bench.args(further))
}

pub(crate) fn chaos(place: &Place, further: &[&str]) -> anyhow::Result<()> {
    // The table measures.
    let profile = if further.contains(&"--table") { RELEASE } else { DEV };
    step(&format!("Building ({profile}; the first time takes minutes)"));
    run::run(&mut place.build(profile))?;
    run_chaos(place, profile, further)
}

/// Runs chaos with the programs of a profile. It has its own Postgres and Redis, which it can kill, in a folder that the
/// user that runs Postgres can reach.
pub(crate) fn run_chaos(place: &Place, profile: &str, further: &[&str]) -> anyhow::Result<()> {
    let folder = Folder::create(&place.data()?)?;
    let mut chaos = run::command(place.program(profile, BENCH));
    chaos.env("TMPDIR", folder.path()).arg("chaos").arg("--keep").arg(dated(&place.dev.join("chaos"))?);
    run::run(chaos.args(further))
}
