//! A private Postgres: a cluster in a folder, whose server listens on a loopback port only.
//!
//! Postgres refuses to run as root; root runs it as the user `postgres`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::unistd::{User, geteuid};

use crate::process::{Process, Signal, end, end_of, pid_in};

/// How long it may take to start, for example after a crash, or to stop.
const PATIENCE: Duration = Duration::from_mins(1);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The line of `postmaster.pid` with the state of the server (`pg_ctl` waits for it, too).
const STATE_LINE: usize = 7;

/// The superuser of every cluster.
pub const OWNER: &str = "longshore";

/// A cluster, which may not be there yet.
#[derive(Debug, Clone)]
pub struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
}

impl Cluster {
    /// The cluster in a folder.
    ///
    /// # Errors
    /// When Postgres is not installed.
    pub fn in_folder(folder: impl Into<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self { programs: programs()?, folder: folder.into() })
    }

    /// Whether it was created.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.folder.join("PG_VERSION").exists()
    }

    /// The log of its server.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }

    /// Creates its folder, which only the user that runs Postgres can read.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create_folder(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)?;
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))?;
        hand_over(&self.folder)
    }

    /// Creates it. Without a password, everyone on this machine may connect.
    ///
    /// # Errors
    /// When `initdb` fails.
    pub fn create(&self, password: Option<&str>) -> anyhow::Result<()> {
        self.create_folder()?;
        let mut init = as_postgres(self.programs.join("initdb"))?;
        init.args(["-U", OWNER, "--encoding=UTF8", &format!("--locale={}", locale()), "--no-sync", "-D"]);
        init.arg(&self.folder);
        let password_file = self.folder.with_extension("password");
        if let Some(password) = password {
            _ = fs::remove_file(&password_file);
            let mut file = File::create_new(&password_file)?;
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            writeln!(file, "{password}")?;
            hand_over(&password_file)?;
            init.arg("--auth=scram-sha-256").arg("--pwfile").arg(&password_file);
        } else {
            init.arg("--auth=trust");
        }
        let made = init.stdin(Stdio::null()).output().context("initdb");
        _ = fs::remove_file(&password_file);
        let made = made?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        Ok(())
    }

    /// The program that serves it.
    ///
    /// # Errors
    /// When there is no user to run it.
    pub fn server(&self, port: u16, settings: &[(&str, &str)]) -> anyhow::Result<Command> {
        let mut server = as_postgres(self.programs.join("postgres"))?;
        server.arg("-D").arg(&self.folder);
        let port = port.to_string();
        let own =
            [("port", port.as_str()), ("listen_addresses", "127.0.0.1"), ("unix_socket_directories", "")];
        for (name, value) in own.iter().chain(settings) {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        Ok(server)
    }

    /// Starts its server, and waits until it accepts connections. Ctrl-C in a terminal does not reach it.
    ///
    /// # Errors
    /// When it ends or takes too long; the error contains the end of its log.
    pub fn start(&self, port: u16, settings: &[(&str, &str)]) -> anyhow::Result<Process> {
        self.start_by(self.server(port, settings)?)
    }

    /// The same by a command that serves it, such as [`Self::server`] under another program.
    ///
    /// # Errors
    /// When it ends or takes too long; the error contains the end of its log.
    pub fn start_by(&self, mut command: Command) -> anyhow::Result<Process> {
        command.process_group(0);
        let mut server = Process::start(command, self.log())?;
        let until = Instant::now() + PATIENCE;
        while !server.pid().is_some_and(|pid| self.is_ready(pid)) {
            if server.has_ended() || Instant::now() >= until {
                self.stop();
                bail!("Postgres does not start; its log ends:\n{}", end_of(&server.log));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(server)
    }

    fn is_ready(&self, pid: u32) -> bool {
        let state = fs::read_to_string(self.folder.join("postmaster.pid")).unwrap_or_default();
        let mut lines = state.lines();
        lines.next() == Some(pid.to_string().as_str())
            && lines.nth(STATE_LINE - 1).is_some_and(|state| state.trim() == "ready")
    }

    /// Stops its server, if it runs: closes all connections first, and is killed if that takes too long.
    pub fn stop(&self) {
        stop_in(&self.folder);
    }

    /// A copy of a running server, as its standby.
    ///
    /// # Errors
    /// When `pg_basebackup` fails.
    pub fn copy_from(&self, port: u16) -> anyhow::Result<()> {
        self.create_folder()?;
        let mut copy = as_postgres(self.programs.join("pg_basebackup"))?;
        copy.args([
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-U",
            OWNER,
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "-D",
        ]);
        let copied = copy.arg(&self.folder).stdin(Stdio::null()).output().context("pg_basebackup")?;
        ensure!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        Ok(())
    }
}

/// Stops the server of the cluster in a folder, if one runs.
pub fn stop_in(folder: &Path) {
    if let Some(pid) = pid_in(&folder.join("postmaster.pid"), "postgres") {
        // fast; what is killed instead recovers at its next start
        end(pid, Signal::SIGINT, PATIENCE);
    }
}

/// A command as the user that runs Postgres, in a folder that this user can see.
///
/// # Errors
/// When this is root and there is no user `postgres`.
pub fn as_postgres(program: impl AsRef<OsStr>) -> anyhow::Result<Command> {
    let mut command = Command::new(program);
    command.current_dir("/");
    if let Some(user) = user()? {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    Ok(command)
}

/// Makes a file or folder belong to the user that runs Postgres.
///
/// # Errors
/// When this is root and there is no user `postgres`.
pub fn hand_over(path: &Path) -> anyhow::Result<()> {
    if let Some(user) = user()? {
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    Ok(())
}

/// The user that runs Postgres, if not the current one.
fn user() -> anyhow::Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    User::from_name("postgres")?.context("there is no user postgres").map(Some)
}

/// The folder with the programs of the newest Postgres.
///
/// # Errors
/// When none is installed.
pub fn programs() -> anyhow::Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter(|version| version.path().join("bin/postgres").is_file())
        .max_by_key(|version| version.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    if let Some(version) = newest {
        return Ok(version.path().join("bin"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .context("Postgres is not installed")
}

/// UTF-8 where the system has it, ordered by bytes either way.
fn locale() -> &'static str {
    let known = Command::new("locale").arg("-a").output().map(|known| known.stdout).unwrap_or_default();
    let known = String::from_utf8_lossy(&known).to_lowercase().replace('-', "");
    if known.lines().any(|name| name == "c.utf8") { "C.UTF-8" } else { "C" }
}
