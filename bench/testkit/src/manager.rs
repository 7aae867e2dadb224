//! A service manager with a watchdog, which hears what a process says of itself, as systemd does (`sd_notify(3)`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::net::UnixDatagram;

/// How long a process may take to say what it is expected to.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time within which a process says that it is alive.
const WATCHDOG: Duration = Duration::from_millis(200);

/// The most bytes of a message.
const MOST: usize = 4_096;

/// The end of the manager.
#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    /// Listens in a folder; must be called within a tokio runtime.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub fn start(folder: &Path) -> std::io::Result<Self> {
        let path = folder.join("notify");
        Ok(Self { socket: UnixDatagram::bind(&path)?, path })
    }

    /// What it gives to the process: environment variables with their values.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, String); 2] {
        [
            ("NOTIFY_SOCKET", self.path.display().to_string()),
            ("WATCHDOG_USEC", WATCHDOG.as_micros().to_string()),
        ]
    }

    /// What the process says next.
    ///
    /// # Errors
    /// When it says nothing in time.
    pub async fn hears(&self) -> anyhow::Result<String> {
        let mut message = vec![0; MOST];
        let received = tokio::time::timeout(PATIENCE, self.socket.recv(&mut message));
        let length = received.await.context("the process says nothing")??;
        Ok(String::from_utf8_lossy(&message[..length]).trim_end().to_owned())
    }

    /// Waits until the process says this. Until then it may only say that it is alive.
    ///
    /// # Errors
    /// When it says something else, or does not say this in time.
    pub async fn waits_for(&self, state: &str) -> anyhow::Result<()> {
        let heard = async {
            loop {
                match self.hears().await? {
                    heard if heard == state => return Ok(()),
                    alive if alive == "WATCHDOG=1" => {}
                    other => bail!("{other} instead of {state}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.with_context(|| format!("no {state} in time"))?
    }
}
