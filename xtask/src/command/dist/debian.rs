//! The Debian packages, by cargo-deb from built programs: the same programs give the same bytes. `package.metadata.deb` of their
//! crates says what is in them, and `deploy/debian` has their scripts. What is made here is what is no file of the checkout:
//! manual pages, completions, units with the paths of packages, the licences of what others wrote, and the changelogs that Debian
//! demands.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::NOTICES;
use crate::place::{DEV, Place};
use crate::run;
use crate::tools;

const CARGO_DEB: (&str, &str) = ("cargo-deb", "3.8.0");

/// The packages, each with its crate, and with its programs, which print manual pages; the first one prints completions, too.
pub(crate) const PACKAGES: [(&str, &str, &[&str]); 2] = [
    ("longshore", "longshore-cli", &["longshore"]),
    ("longshore-server", "longshore-api", &["longshore-api", "longshore-worker"]),
];

const MAINTAINER: &str = "The Longshore authors <longshore@packages.invalid>";

/// Whether they can be made here: what the programs depend on is read from the packages of a Debian system.
pub(crate) fn can_be_made() -> anyhow::Result<bool> {
    tools::ensure(&["dpkg-shlibdeps"], &["dpkg-dev"])
}

/// Makes the packages of the programs of a profile in a folder, as of a time (seconds since 1970), instead of those that are
/// there, with the licences of what others wrote; returns their files.
pub(crate) fn make(
    place: &Place,
    profile: &str,
    time: &str,
    notices: &str,
    out: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    for before in packages_in(out)? {
        fs::remove_file(before)?;
    }
    let made = place.program(profile, "packaging");
    _ = fs::remove_dir_all(&made);
    units(place, &made.join("units"))?;
    let kept = made.join(NOTICES);
    fs::write(&kept, notices)?;
    run::run(run::command("gzip").arg("-9n").arg(&kept))?;
    for (package, of, programs) in PACKAGES {
        let folder = made.join(package);
        for program in programs {
            manual(&place.program(profile, program), &folder)?;
        }
        completions(&place.program(profile, programs[0]), &folder)?;
        fs::write(folder.join("changelog"), changelog(package, time)?)?;
        compress(&folder)?;
        pack(place, profile, time, of, out)?;
    }
    packages_in(out)
}

fn packages_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "deb"));
    files.sort();
    Ok(files)
}

/// The units with the paths of a package; an administrator installs below `/usr/local`.
fn units(place: &Place, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(place.root.join("deploy/systemd"))? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "service") {
            let unit = fs::read_to_string(&file)?.replace("/usr/local/", "/usr/");
            fs::write(folder.join(file.file_name().context("a unit")?), unit)?;
        }
    }
    Ok(())
}

/// The manual pages of a program.
fn manual(program: &Path, folder: &Path) -> anyhow::Result<()> {
    run::run(run::command(program).args(["man", "--folder"]).arg(folder.join("man")))
}

/// The completions of a program, a file for each shell.
fn completions(program: &Path, folder: &Path) -> anyhow::Result<()> {
    for shell in ["bash", "zsh", "fish"] {
        let printed = run::command(program).args(["completions", shell]).output()?;
        ensure!(printed.status.success(), "{}: {}", program.display(), printed.status);
        fs::write(folder.join(shell), printed.stdout)?;
    }
    Ok(())
}

/// What Debian demands beside the changelog of the service.
fn changelog(package: &str, time: &str) -> anyhow::Result<String> {
    let date = run::command("date").args(["-u", "-R", "-d", &format!("@{time}")]).output()?.stdout;
    let (version, date) = (env!("CARGO_PKG_VERSION"), String::from_utf8(date)?);
    Ok(format!(
        "{package} ({version}-1) unstable; urgency=medium\n\n  * The changes are in changelog.gz.\n\n -- {MAINTAINER}  {date}"
    ))
}

/// Compresses pages and changelog as Debian demands, without their names and times.
fn compress(folder: &Path) -> anyhow::Result<()> {
    let pages = fs::read_dir(folder.join("man"))?.map(|page| page.map(|page| page.path()));
    let pages = pages.collect::<Result<Vec<_>, _>>()?;
    run::run(run::command("gzip").arg("-9n").args(pages).arg(folder.join("changelog")))
}

/// Packs what is there, without building a program. Those of a release are not changed.
fn pack(place: &Place, profile: &str, time: &str, of: &str, out: &Path) -> anyhow::Result<()> {
    let (name, version) = CARGO_DEB;
    let mut deb = place.cargo(&["deb", "--locked", "--no-build", "--profile", profile]);
    // most of a program of the tests is its symbols, which would be packed for minutes
    deb.args(if profile == DEV { ["--strip", "--fast"].as_slice() } else { &["--no-strip"] });
    deb.args(["--package", of, "--maintainer", MAINTAINER, "--output"]).arg(out);
    // xz packs differently from version to version
    deb.args(["--compress-type", "gz", "--compress-system"]);
    deb.env("SOURCE_DATE_EPOCH", time).env("PATH", tools::cargo_tool(name, version)?);
    run::run(&mut deb)
}
