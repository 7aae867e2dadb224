//! `fuzz`: runs the fuzz targets. Their corpus is in the checkout, and the tests replay it; what is found goes to
//! `.dev/fuzz`.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::place::Place;
use crate::run::{self, step};
use crate::tools::cargo_tool;

/// How long each target runs by default, in seconds.
const SECONDS: u32 = 60;

pub(crate) fn fuzz(place: &Place, given: &[&str]) -> anyhow::Result<()> {
    let nightly = run::succeeds(place.command("cargo").args(["+nightly", "--version"]));
    ensure!(nightly, "fuzzing needs a nightly toolchain: rustup toolchain install nightly");
    let known = targets(place)?;
    let (targets, seconds) = match given {
        [] => (known, SECONDS),
        [target] | [target, _] => {
            ensure!(known.iter().any(|known| known == target), "there is no target {target}");
            let seconds = given.get(1).map_or(Ok(SECONDS), |seconds| seconds.parse());
            (vec![(*target).to_owned()], seconds.context("fuzz takes a target and a number of seconds")?)
        }
        _ => anyhow::bail!("fuzz takes a target and a number of seconds"),
    };
    for target in targets {
        step(&format!("Fuzzing {target} for {seconds} s"));
        let found = place.dev.join("fuzz").join(&target);
        fs::create_dir_all(&found)?;
        let mut fuzz = place.cargo(&["+nightly", "fuzz", "run"]);
        fuzz.env("PATH", cargo_tool("cargo-fuzz", "0.13.2")?);
        // No sanitizer: there is no unsafe code of ours to check, and without one it tries twice as much.
        fuzz.args(["--sanitizer", "none", &target]).arg(found).arg(format!("fuzz/corpus/{target}"));
        let time = format!("-max_total_time={seconds}");
        run::run(fuzz.args(["--", &time, "-max_len=4096", "-timeout=10"]))?;
    }
    Ok(())
}

fn targets(place: &Place) -> anyhow::Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(place.root.join("fuzz/fuzz_targets"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        targets.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    targets.sort();
    Ok(targets)
}
