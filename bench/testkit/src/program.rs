//! Programs that a test runs to their end.

use std::process::{Output, Stdio};

use anyhow::Context as _;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The exit status and the output of a program.
#[derive(Debug)]
pub struct Ran {
    status: Option<i32>,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ran {
    /// Runs a program with this standard input.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn of(command: &mut Command, input: &str) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let mut stdin = child.stdin.take().context("it has no standard input")?;
        // a program that ends without reading its input closes it
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        Ok(child.wait_with_output().await?.into())
    }

    /// Checks the exit status.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    #[expect(
        clippy::must_use_candidate,
        clippy::return_self_not_must_use,
        reason = "most callers only check"
    )]
    pub fn ends_with(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{self:?}");
        self
    }

    /// The standard output as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(json) => json,
            Err(error) => panic!("{error}: {self:?}"),
        }
    }
}
