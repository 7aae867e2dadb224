//! `dist`: the programs for release, and Debian packages of them. Nothing of the place or the time goes into them: the same
//! commit, toolchain and C compiler give the same bytes, wherever the checkout and the registry are.
//!
//! Beside them are the chart of Helm, the list of what each program is made of ([`list_parts`]), the licences of what others wrote
//! ([`notices`]), the checksums of all files, and the operator's signature of these.

pub(crate) mod debian;
pub(crate) mod notices;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::place::{Place, checksums, setting};
use crate::run::{self, step};
use crate::tools;

/// The programs, each with its package.
const PROGRAMS: [(&str, &str); 3] = [
    ("longshore", "longshore-cli"),
    ("longshore-api", "longshore-api"),
    ("longshore-worker", "longshore-worker"),
];

/// The tool that lists what a program is made of.
const CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// The file with the licences of what others wrote.
const NOTICES: &str = "THIRD-PARTY";

/// The checksums of the files.
const SUMS: &str = "SHA256SUMS";

pub(crate) fn dist(place: &Place) -> anyhow::Result<()> {
    step("Building (for release; it takes minutes)");
    let home = tools::cargo_home()?;
    let time = time(place);
    let folders = [(&place.root, "."), (&place.target, "target"), (&home, "cargo")];
    let mapped = |option: &str| {
        folders.map(|(folder, name)| format!("{option}={}={name}", folder.display())).join(" ")
    };
    let mut build = place.cargo(&["build", "--locked", "--profile", "dist"]);
    build.env("SOURCE_DATE_EPOCH", &time);
    build.env("RUSTFLAGS", mapped("--remap-path-prefix"));
    // what is C in the dependencies
    build.env("CFLAGS", mapped("-ffile-prefix-map"));
    run::run(build.args(PROGRAMS.iter().flat_map(|(_, package)| ["-p", package])))?;

    let out = place.dev.join("dist");
    // All that is there is summed up and signed. A running program can be replaced, not written to.
    _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out)?;
    for (program, _) in PROGRAMS {
        fs::copy(place.program("dist", program), out.join(program))?;
    }
    let compiler = place.command("rustc").arg("--version").output().map(|compiler| compiler.stdout);
    let compiler = String::from_utf8_lossy(&compiler.unwrap_or_default()).trim().to_owned();
    step(&format!("Built from {} with {compiler}", place.commit()));
    let notices = notices::text(place)?;
    if debian::can_be_made()? {
        debian::make(place, "dist", &time, &notices, &out)?;
    } else {
        eprintln!("\n!!! SKIPPED: the Debian packages: dpkg-dev cannot be installed");
    }
    list_parts(place, &time, &out)?;
    fs::write(out.join(NOTICES), notices)?;
    pack_chart(place, &time, &out)?;
    sum_up(&out)?;
    sign(place, &out)
}

/// Writes what each program is made of: an SBOM in the format of CycloneDX. The tool writes them into the folders of all packages.
fn list_parts(place: &Place, time: &str, out: &Path) -> anyhow::Result<()> {
    let (name, version) = CYCLONEDX;
    let path = tools::cargo_tool(name, version)?;
    let mut list = place.cargo(&["cyclonedx", "--format", "json", "--spec-version", "1.5", "--quiet"]);
    list.env("PATH", path);
    // without a time and a number of their own, the same commit gives the same lists
    list.env("SOURCE_DATE_EPOCH", time);
    run::run(&mut list)?;
    let here = format!("file://{}", place.root.display());
    let packages = place.command("git").args(["ls-files", "*Cargo.toml"]).output().context("git")?;
    for manifest in String::from_utf8_lossy(&packages.stdout).lines() {
        let folder = place.root.join(manifest).parent().context("a package")?.to_owned();
        for file in fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()? {
            let file_name = file.file_name().to_string_lossy().into_owned();
            let Some(package) = file_name.strip_suffix(".cdx.json") else { continue };
            if let Some((program, _)) = PROGRAMS.iter().find(|(_, of)| *of == package) {
                let list = fs::read_to_string(file.path())?.replace(&here, "file://");
                fs::write(out.join(format!("{program}.cdx.json")), list)?;
            }
            fs::remove_file(file.path())?;
        }
    }
    Ok(())
}

/// Packs the chart as `helm package` does, but with nothing of this machine. Its rules are links to those of Prometheus.
fn pack_chart(place: &Place, time: &str, out: &Path) -> anyhow::Result<()> {
    let chart = out.join(format!("longshore-{}.tar", env!("CARGO_PKG_VERSION")));
    let mut tar = run::command("tar");
    tar.args([
        "--sort=name",
        "--dereference",
        "--format=gnu",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=u=rwX,go=rX",
    ]);
    tar.arg(format!("--mtime=@{time}")).arg("--transform=s,^helm,longshore,").arg("-C");
    run::run(tar.arg(place.root.join("deploy")).arg("-cf").arg(&chart).arg("helm"))?;
    run::run(run::command("gzip").arg("-9n").arg(&chart))?;
    Ok(fs::rename(chart.with_extension("tar.gz"), chart.with_extension("tgz"))?)
}

/// Writes and shows the checksums of all files.
fn sum_up(out: &Path) -> anyhow::Result<()> {
    let (files, sums) = checksums("sha256sum", out, |_| true)?;
    for file in files {
        println!("{} bytes  {file}", fs::metadata(out.join(&file))?.len());
    }
    print!("{}", String::from_utf8_lossy(&sums));
    Ok(fs::write(out.join(SUMS), sums)?)
}

/// Signs the checksums with the operator's key. The comment that it covers has no time.
fn sign(place: &Place, out: &Path) -> anyhow::Result<()> {
    let Some(key) = setting("LONGSHORE_MINISIGN_KEY") else {
        println!("{SUMS} is not signed: LONGSHORE_MINISIGN_KEY names no key of minisign");
        return Ok(());
    };
    ensure!(tools::ensure(&["minisign"], &["minisign"])?, "Debian's package minisign cannot be installed");
    let mut sign = run::command("minisign");
    sign.args(["-S", "-s", &key, "-t", &format!("Longshore {}", place.commit()), "-m", SUMS]);
    // it may ask for the password of the key
    let signed = sign.current_dir(out).status().context("minisign")?;
    ensure!(signed.success(), "minisign: {signed}");
    Ok(())
}

/// The time of the commit, in seconds since 1970.
pub(crate) fn time(place: &Place) -> String {
    let time = place.command("git").args(["log", "-1", "--format=%ct"]).output().map(|time| time.stdout);
    let time = String::from_utf8_lossy(&time.unwrap_or_default()).trim().to_owned();
    if time.is_empty() { "0".to_owned() } else { time }
}
