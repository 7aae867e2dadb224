//! `dist`: the programs for release. Nothing of the place or the time goes into them: the same commit, toolchain and C
//! compiler give the same bytes, wherever the checkout and the registry are.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::place::{Place, setting};
use crate::run::{self, step};

/// The programs, each with its package.
const PROGRAMS: [(&str, &str); 3] = [
    ("longshore", "longshore-cli"),
    ("longshore-api", "longshore-api"),
    ("longshore-worker", "longshore-worker"),
];

pub(crate) fn dist(place: &Place) -> anyhow::Result<()> {
    step("Building (for release; it takes minutes)");
    let home = setting("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).context("CARGO_HOME")?;
    let time = place.command("git").args(["log", "-1", "--format=%ct"]).output().map(|time| time.stdout);
    let time = String::from_utf8_lossy(&time.unwrap_or_default()).trim().to_owned();
    let folders = [(&place.root, "."), (&place.target, "target"), (&home, "cargo")];
    let mapped = |option: &str| {
        folders.map(|(folder, name)| format!("{option}={}={name}", folder.display())).join(" ")
    };
    let mut build = place.cargo(&["build", "--locked", "--profile", "dist"]);
    build.env("SOURCE_DATE_EPOCH", if time.is_empty() { "0" } else { &time });
    build.env("RUSTFLAGS", mapped("--remap-path-prefix"));
    // what is C in the dependencies
    build.env("CFLAGS", mapped("-ffile-prefix-map"));
    run::run(build.args(PROGRAMS.iter().flat_map(|(_, package)| ["-p", package])))?;

    let out = place.dev.join("dist");
    fs::create_dir_all(&out)?;
    for (program, _) in PROGRAMS {
        // A running one can be replaced, not written to.
        _ = fs::remove_file(out.join(program));
        fs::copy(place.program("dist", program), out.join(program))?;
    }
    let compiler = place.command("rustc").arg("--version").output().map(|compiler| compiler.stdout);
    let compiler = String::from_utf8_lossy(&compiler.unwrap_or_default()).trim().to_owned();
    step(&format!("Built from {} with {compiler}", place.commit()));
    let sums = run::command("sha256sum")
        .args(PROGRAMS.map(|(program, _)| program))
        .current_dir(&out)
        .output()
        .context("sha256sum")?;
    for (program, _) in PROGRAMS {
        println!("{} bytes  {program}", fs::metadata(out.join(program))?.len());
    }
    print!("{}", String::from_utf8_lossy(&sums.stdout));
    let written = out.join("SHA256SUMS.new");
    fs::write(&written, &sums.stdout)?;
    Ok(fs::rename(written, out.join("SHA256SUMS"))?)
}
