//! Folders, ports and settings of one checkout.

use std::fs::{self, DirBuilder};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use longshore_stack::postgres;
use nix::unistd::geteuid;

use crate::run;

/// The profile of the programs that `up`, `demo`, `chaos` and `test` run; `Cargo.toml` says what it is.
pub(crate) const DEV: &str = "dev";

/// The ports of `up`.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) postgres: u16,
    pub(crate) redis: u16,
    pub(crate) api: u16,
    pub(crate) worker: u16,
}

/// A checkout, and the settings of the caller.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    /// `.dev`, for everything that is written.
    pub(crate) dev: PathBuf,
    pub(crate) logs: PathBuf,
    /// Cargo's folder for programs.
    pub(crate) target: PathBuf,
    pub(crate) ports: Ports,
    /// Servers of the caller, for `up` only: no build and no check may use them.
    pub(crate) database_url: Option<String>,
    pub(crate) redis_url: Option<String>,
}

impl Place {
    pub(crate) fn from_environment() -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the checkout")?.to_owned();
        let dev = root.join(".dev");
        let ports = Ports {
            postgres: port("LONGSHORE_DEV_PG_PORT", 55_432)?,
            redis: port("LONGSHORE_DEV_REDIS_PORT", 56_379)?,
            api: port("LONGSHORE_DEV_API_PORT", 8080)?,
            worker: port("LONGSHORE_DEV_WORKER_PORT", 8081)?,
        };
        // A shell that sourced `.dev/env` has the URLs of the servers that `up` itself starts.
        let given = |name, own| setting(name).filter(|url| !url.contains(&format!("@127.0.0.1:{own}")));
        Ok(Self {
            logs: dev.join("log"),
            target: root.join(setting("CARGO_TARGET_DIR").unwrap_or_else(|| "target".to_owned())),
            database_url: given("DATABASE_URL", ports.postgres),
            redis_url: given("REDIS_URL", ports.redis),
            ports,
            dev,
            root,
        })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.api)
    }

    /// The file for a shell that describes what `up` started; it may be absent.
    pub(crate) fn env_file(&self) -> PathBuf {
        self.dev.join("env")
    }

    /// The file of a program.
    pub(crate) fn program(&self, profile: &str, name: &str) -> PathBuf {
        let folder = if profile == DEV { "debug" } else { profile };
        self.target.join(folder).join(name)
    }

    /// The folder for data: `.dev`, or another one if the user that runs Postgres cannot reach the checkout.
    pub(crate) fn data(&self) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(&self.dev)?;
        let mut reach = match postgres::as_postgres("test") {
            Ok(reach) if geteuid().is_root() => reach,
            // Postgres is not installed yet, so there is no data; or it runs as the current user.
            _ => return Ok(self.dev.clone()),
        };
        if reach.arg("-x").arg(&self.dev).status()?.success() {
            return Ok(self.dev.clone());
        }
        self.folder_in(Path::new("/var/tmp"))
    }

    /// The folder of this checkout in one that every user can reach.
    pub(crate) fn folder_in(&self, parent: &Path) -> anyhow::Result<PathBuf> {
        let digest = sha256(self.root.to_string_lossy().as_bytes())?;
        let data = parent.join(format!("longshore-{}", &digest[..12]));
        if !data.exists() {
            DirBuilder::new().mode(0o711).create(&data)?;
        }
        let found = fs::symlink_metadata(&data)?;
        let ours = found.is_dir() && found.uid() == geteuid().as_raw();
        ensure!(ours, "{} belongs to another user; please remove it", data.display());
        Ok(data)
    }

    /// The commit that is checked out, marked if files were changed since.
    pub(crate) fn commit(&self) -> String {
        let mut git = self.command("git");
        let described = git.args(["describe", "--always", "--dirty", "--exclude", "*"]).output();
        match described {
            Ok(described) if described.status.success() => {
                String::from_utf8_lossy(&described.stdout).trim().to_owned()
            }
            _ => "unknown".to_owned(),
        }
    }

    /// A command in the checkout.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = run::command(program);
        command.current_dir(&self.root);
        command
    }

    /// A cargo command. It reads `.sqlx`, never a database.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = self.command("cargo");
        cargo.args(arguments).env("SQLX_OFFLINE", "true");
        cargo
    }

    /// The build of all programs. Some of the packages alone would ask for other features of the dependencies than the tests, and
    /// so for most of the crates once more, which takes minutes; those that one of the commands does not need take seconds.
    pub(crate) fn build(&self, profile: &str) -> Command {
        self.cargo(&["build", "--locked", "--profile", profile, "--workspace", "--bins"])
    }
}

/// A setting of the environment; an empty one counts as absent.
#[expect(clippy::disallowed_methods, reason = "the task runner reads its settings here")]
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn port(name: &str, default: u16) -> anyhow::Result<u16> {
    let Some(port) = setting(name) else { return Ok(default) };
    port.parse().with_context(|| format!("{name}: {port} is no port"))
}

/// The SHA-256 of bytes, in hexadecimal digits, by the program of that name.
pub(crate) fn sha256(bytes: &[u8]) -> anyhow::Result<String> {
    let mut program = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("sha256sum")?;
    program.stdin.take().context("sha256sum")?.write_all(bytes)?;
    let digest = program.wait_with_output()?;
    ensure!(digest.status.success() && digest.stdout.len() >= 64, "sha256sum: {}", digest.status);
    Ok(String::from_utf8_lossy(&digest.stdout[..64]).into_owned())
}

/// Random bytes of the system.
pub(crate) fn random<const BYTES: usize>() -> std::io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The names of the files of a folder that are wanted, in order, and a line for each, as the program checks it there.
pub(crate) fn checksums(
    program: &str,
    folder: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<(Vec<String>, Vec<u8>)> {
    let mut names = fs::read_dir(folder)?
        .map(|file| Ok(file?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<_>>>()?;
    names.retain(|name| is_wanted(name));
    names.sort();
    let sums = run::command(program).args(&names).current_dir(folder).output();
    let sums = sums.with_context(|| program.to_owned())?;
    ensure!(sums.status.success(), "{program}: {}", sums.status);
    Ok((names, sums.stdout))
}
