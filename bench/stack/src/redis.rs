//! A private Redis without persistence, which listens on a loopback port only.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::process::{Process, Signal, end, end_of, pid_in};

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it may take to stop.
const STOP: Duration = Duration::from_secs(10);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// A Redis in a folder.
#[derive(Debug, Clone)]
pub struct Server {
    folder: PathBuf,
    port: u16,
}

impl Server {
    /// Writes its configuration to a folder. It goes by a file, which only its owner can read, because everyone can read
    /// the arguments of a process.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn configure(folder: &Path, port: u16, further: &[(&str, &str)]) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let server = Self { folder: folder.to_owned(), port };
        _ = fs::remove_file(server.configuration());
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(server.configuration())?;
        let (port, dir) = (port.to_string(), folder.display().to_string());
        let pid_file = folder.join("redis.pid").display().to_string();
        let own = [
            ("bind", "127.0.0.1"),
            ("port", &port),
            ("dir", &dir),
            ("pidfile", &pid_file),
            ("maxmemory-policy", "noeviction"),
            ("appendonly", "no"),
            ("save", ""),
        ];
        for (name, value) in own.iter().chain(further) {
            let value = value.replace('\\', r"\\").replace('"', "\\\"");
            writeln!(file, "{name} \"{value}\"")?;
        }
        Ok(server)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("redis.conf")
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL, without a password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The file for its output.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("redis.log")
    }

    /// The program that runs it.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new("redis-server");
        command.arg(self.configuration());
        command
    }

    /// Starts it, and waits until it answers. Ctrl-C in a terminal does not reach it.
    ///
    /// # Errors
    /// When it ends or takes too long; the error contains the end of its log.
    pub fn start(&self) -> anyhow::Result<Process> {
        let mut command = self.command();
        command.process_group(0);
        let mut process = Process::start(command, self.log())?;
        let until = Instant::now() + PATIENCE;
        while !(self.answers() && pid_in(&self.folder.join("redis.pid"), "redis-server").is_some()) {
            if process.has_ended() || Instant::now() >= until {
                bail!("Redis does not start; its log ends:\n{}", end_of(&process.log));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(process)
    }

    /// Whether it answers; one with a password answers that it wants it.
    fn answers(&self) -> bool {
        let ask = || -> io::Result<bool> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream.write_all(b"PING\r\n")?;
            let mut first = [0; 5];
            stream.read_exact(&mut first)?;
            Ok([b"+PONG", b"-NOAU"].contains(&&first))
        };
        ask().unwrap_or(false)
    }
}

/// Stops the server whose configuration is in a folder, if it runs.
pub fn stop_in(folder: &Path) {
    let pid_file = folder.join("redis.pid");
    if let Some(pid) = pid_in(&pid_file, "redis-server") {
        end(pid, Signal::SIGTERM, STOP);
    }
    _ = fs::remove_file(pid_file);
}
