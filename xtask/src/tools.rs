//! Programs and packages that only some checks need: from the path, or installed once into a cache that checkouts share.

use std::env::{join_paths, split_paths, var_os};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use nix::unistd::geteuid;

use crate::place::{Place, setting, sha256};
use crate::run::{self, step};

/// The file of an installed program.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    split_paths(&var_os("PATH")?).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether all of these programs are installed.
pub(crate) fn have(programs: &[&str]) -> bool {
    programs.iter().all(|program| which(program).is_some())
}

/// The path for programs, with further folders at its end.
pub(crate) fn path_with(further: &[PathBuf]) -> anyhow::Result<OsString> {
    let path = var_os("PATH").unwrap_or_default();
    Ok(join_paths(split_paths(&path).chain(further.iter().cloned()))?)
}

/// A place in the cache that checkouts share.
pub(crate) fn cache(name: &str) -> anyhow::Result<PathBuf> {
    let cache = setting("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    Ok(cache.context("there is no home folder")?.join("longshore").join(name))
}

/// A folder of the cache that `install` fills, once.
fn installed(name: &str, install: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<PathBuf> {
    let folder = cache(name)?;
    if !folder.join("complete").exists() {
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        if let Err(error) = install(&folder) {
            _ = fs::remove_dir_all(&folder);
            return Err(error);
        }
        fs::write(folder.join("complete"), "")?;
    }
    Ok(folder)
}

/// The folder in which cargo keeps what it has fetched.
pub(crate) fn cargo_home() -> anyhow::Result<PathBuf> {
    let home = setting("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).context("CARGO_HOME")
}

/// The path on which a cargo subcommand is found.
pub(crate) fn cargo_tool(name: &str, version: &str) -> anyhow::Result<OsString> {
    if which(name).is_some() {
        return path_with(&[]);
    }
    let folder = cache(&format!("{name}-{version}"))?;
    if !folder.join("bin").join(name).exists() {
        // Without optimisation: it is built more often than it is slow. Not in the checkout, whose target folder and
        // settings are not for it.
        let mut install = run::command("cargo");
        install.args(["install", "--locked", "--debug", "--root"]).arg(&folder).current_dir("/");
        run::run(install.arg(format!("{name}@{version}")).env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    path_with(&[folder.join("bin")])
}

/// Installs packages of the system that only some checks need. Without output: those checks are skipped if this fails.
pub(crate) fn install_optional(packages: &[&str]) -> anyhow::Result<bool> {
    let apt = |arguments: &[&str]| {
        let mut apt = if geteuid().is_root() { run::command("env") } else { run::command("sudo") };
        if !geteuid().is_root() {
            // Never asks for a password.
            apt.args(["-n", "env"]);
        }
        apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"])
            .args(arguments);
        run::succeeds(&mut apt)
    };
    let installed = which("apt-get").is_some()
        && apt(&["update", "-q"])
        && apt(&[&["install", "-y", "-q", "--no-install-recommends"], packages].concat());
    run::check()?;
    Ok(installed)
}

/// Installs packages for programs that are missing; returns whether all are there then.
pub(crate) fn ensure(programs: &[&str], packages: &[&str]) -> anyhow::Result<bool> {
    Ok(have(programs) || (install_optional(packages)? && have(programs)))
}

fn pip(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    run::run(run::command("python3").args(["-m", "venv"]).arg(folder))?;
    let mut pip = run::command(folder.join("bin/pip"));
    run::run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(arguments))
}

/// The folder of the S3 service of the tests, unless it is on the path.
pub(crate) fn s3() -> anyhow::Result<Option<PathBuf>> {
    const VERSION: &str = "5.2.5";
    if which("moto_server").is_some() {
        return Ok(None);
    }
    let folder = installed(&format!("moto-{VERSION}"), |folder| {
        step(&format!("Installing the S3 service of the tests (moto {VERSION})"));
        pip(folder, &[&format!("moto[s3,server]=={VERSION}")])
    })?;
    Ok(Some(folder.join("bin")))
}

/// The Python of the checks in `api/tests/outside`, with their packages.
pub(crate) fn outside_python(place: &Place) -> anyhow::Result<PathBuf> {
    let wanted = place.root.join("api/tests/outside/requirements.txt");
    let digest = sha256(&fs::read(&wanted)?)?;
    let folder = installed(&format!("outside-{}", &digest[..12]), |folder| {
        let wanted = wanted.display().to_string();
        pip(folder, &["--timeout", "20", "--retries", "2", "-r", &wanted])
    })?;
    Ok(folder.join("bin/python"))
}

/// The folder with the npm packages of a check, by its folder in `api/tests/outside`.
pub(crate) fn npm(place: &Place, check: &str) -> anyhow::Result<PathBuf> {
    let wanted = place.root.join("api/tests/outside").join(check);
    let digest = sha256(&fs::read(wanted.join("package-lock.json"))?)?;
    installed(&format!("{check}-{}", &digest[..12]), |folder| {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(wanted.join(file), folder.join(file))?;
        }
        let mut npm = run::command("npm");
        run::run(npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(folder))
    })
}

/// The folder of a Debian of the release of this system, with what our packages depend on; to be copied.
pub(crate) fn debian() -> anyhow::Result<PathBuf> {
    let release = fs::read_to_string("/etc/os-release")?;
    let release = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let release = release.context("/etc/os-release names no release")?;
    let folder = installed(&format!("debian-{release}"), |folder| {
        step(&format!("Installing a small Debian ({release})"));
        let mut install = run::command("debootstrap");
        install.args(["--variant=minbase", "--include=ca-certificates,systemd", release]);
        run::run(install.arg(folder.join("root")))
    })?;
    Ok(folder.join("root"))
}

/// The folder of Prometheus and promtool, unless they are on the path.
pub(crate) fn prometheus() -> anyhow::Result<Option<PathBuf>> {
    unpacked("prometheus", &["promtool", "prometheus"])
}

/// The folder of Caddy, unless it is on the path.
pub(crate) fn caddy() -> anyhow::Result<Option<PathBuf>> {
    unpacked("caddy", &["caddy"])
}

/// The folder of the programs of Debian's package, unless they are on the path. Unpacked instead of installed, so that no service
/// of the system is started.
fn unpacked(package: &str, programs: &[&str]) -> anyhow::Result<Option<PathBuf>> {
    if have(programs) {
        return Ok(None);
    }
    let folder = installed(package, |folder| {
        step(&format!("Fetching {package}"));
        let mut download = run::command("apt-get");
        download.args(["download", "-q", package]).current_dir(folder);
        if run::run(&mut download).is_err() {
            run::check()?;
            // also fetches the lists of packages
            install_optional(&["ca-certificates"])?;
            run::run(&mut download)?;
        }
        for entry in fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()? {
            run::run(Command::new("dpkg-deb").arg("-x").arg(entry.path()).arg(folder))?;
            fs::remove_file(entry.path())?;
        }
        Ok(())
    })?;
    Ok(Some(folder.join("usr/bin")))
}

/// `PgBouncer` of Debian 13 and what it is linked to. They are unpacked beside the system, whatever its libraries are.
const PGBOUNCER: [&str; 14] = [
    "pgbouncer",
    "libaudit1",
    "libc6",
    "libcap-ng0",
    "libcap2",
    "libcares2",
    "libevent-2.1-7t64",
    "libgcc-s1",
    "libpam0g",
    "libselinux1",
    "libssl3t64",
    "libsystemd0",
    "libzstd1",
    "zlib1g",
];

/// The program `pgbouncer` of Debian 13: that of Debian 12 knows no prepared statements.
pub(crate) fn pgbouncer() -> anyhow::Result<PathBuf> {
    let folder = installed("pgbouncer-trixie", |folder| {
        step("Fetching PgBouncer");
        // the mirror of the system, with another release
        let sources = fs::read_to_string("/etc/apt/sources.list.d/debian.sources")?;
        let first = sources.split("\n\n").next().unwrap_or_default();
        let suites =
            |line: &str| if line.starts_with("Suites:") { "Suites: trixie".into() } else { line.to_owned() };
        let trixie: Vec<_> = first.lines().map(suites).collect();
        for made in ["apt/lists/partial", "apt/cache/archives/partial", "packages"] {
            fs::create_dir_all(folder.join(made))?;
        }
        let sources = folder.join("apt/trixie.sources");
        fs::write(&sources, trixie.join("\n") + "\n")?;
        fs::write(folder.join("apt/status"), "")?;
        let apt = || {
            let mut apt = run::command("apt-get");
            for (name, value) in [
                ("Dir::Etc::sourcelist", sources.clone()),
                ("Dir::Etc::sourceparts", "/dev/null".into()),
                ("Dir::State", folder.join("apt")),
                ("Dir::State::status", folder.join("apt/status")),
                ("Dir::Cache", folder.join("apt/cache")),
            ] {
                apt.arg("-o").arg(format!("{name}={}", value.display()));
            }
            apt.arg("-q").current_dir(folder.join("packages"));
            apt
        };
        run::run(apt().arg("update"))?;
        run::run(apt().arg("download").args(PGBOUNCER))?;
        let root = folder.join("root");
        for package in fs::read_dir(folder.join("packages"))? {
            run::run(Command::new("dpkg-deb").arg("-x").arg(package?.path()).arg(&root))?;
        }
        fs::remove_dir_all(folder.join("apt"))?;
        fs::remove_dir_all(folder.join("packages"))?;
        let libraries = root.join("usr/lib/x86_64-linux-gnu").display().to_string();
        let program = folder.join("pgbouncer");
        let run = format!(
            "#!/bin/sh\nexec {libraries}/ld-linux-x86-64.so.2 --library-path {libraries} {} \"$@\"\n",
            root.join("usr/sbin/pgbouncer").display()
        );
        fs::write(&program, run)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        run::run(run::command(&program).arg("--version"))
    })?;
    Ok(folder.join("pgbouncer"))
}
