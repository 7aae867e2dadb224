//! Executes a chunk in a process of its own, whose death harms nothing else
//! (`longshore_domain::job::suspicion`).
//!
//! The process is this program again, with the same settings and the name of a claim. It executes that chunk,
//! records its outcome, and ends. The worker keeps its own claim alive meanwhile. A pipe on the standard
//! input ends the process when the worker ends.

use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use longshore_domain::job::chunk::{Claim, Held};
use longshore_domain::job::name::parse_chunk_name;
use tokio::process::Command;

/// The argument that names the claim to execute.
pub const ARGUMENT: &str = "--isolated";

/// Exit status of a program that refuses its arguments or its settings.
const REFUSED: i32 = 2;

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// How the process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It recorded the outcome of the chunk.
    Recorded,
    /// It died, with the cause.
    Died(String),
    /// It was asked to stop, as this process may be.
    Stopped,
    /// It ended without an outcome, for example because it could not connect to Postgres.
    Failed(String),
    /// It could not work: it did not start, or refused its settings.
    Unusable(String),
}

/// Executes claims that this process holds, each in its own process.
#[derive(Clone)]
pub struct Isolation(Arc<dyn Fn(Claim) -> BoxFuture<'static, Ended> + Send + Sync>);

impl Isolation {
    /// Executes claims with a function.
    pub fn by<F: Future<Output = Ended> + Send + 'static>(
        run: impl Fn(Claim) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |claim| run(claim).boxed()))
    }

    /// Executes claims with a program, these arguments and [`ARGUMENT`].
    #[must_use]
    pub fn program(path: PathBuf, arguments: Vec<OsString>) -> Self {
        Self::by(move |claim| {
            let mut command = Command::new(&path);
            command
                .args(&arguments)
                .arg(ARGUMENT)
                .arg(name(claim.held()))
                .stdin(Stdio::piped())
                .kill_on_drop(true);
            async move { watch(command).await }
        })
    }

    /// Executes a claim.
    pub async fn run(&self, claim: &Claim) -> Ended {
        (self.0)(claim.clone()).await
    }
}

impl fmt::Debug for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Isolation")
    }
}

async fn watch(mut command: Command) -> Ended {
    let mut process = match command.spawn() {
        Ok(process) => process,
        Err(error) => return Ended::Unusable(error.to_string()),
    };
    // keeps the pipe open while this waits
    let _pipe = process.stdin.take();
    match process.wait().await {
        Ok(status) if status.success() => Ended::Recorded,
        Ok(status) => match status.signal() {
            // the signals by which an operator or a terminal ends all processes
            Some(SIGHUP | SIGINT | SIGTERM) => Ended::Stopped,
            Some(signal) => Ended::Died(format!("signal {signal}")),
            None if status.code() == Some(REFUSED) => Ended::Unusable(status.to_string()),
            None => Ended::Failed(status.to_string()),
        },
        Err(error) => Ended::Failed(error.to_string()),
    }
}

/// The name of a claim, as an argument of the program.
fn name(held: Held) -> String {
    format!("{}:{}:{}", held.job, held.number, held.token)
}

/// Reads the name of a claim.
pub fn parse(name: &str) -> Result<Held, String> {
    let claim = name.rsplit_once(':').and_then(|(chunk, token)| {
        let (job, number) = parse_chunk_name(chunk)?;
        Some(Held { job, number, token: token.parse().ok()?, calls_partner: false })
    });
    claim.ok_or_else(|| "names no claim".to_owned())
}

/// Ends this process when its parent ends.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        // nothing is ever written to it: this returns when the other end closes
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
}

#[cfg(test)]
mod tests {
    use longshore_kernel::ids::JobId;

    use super::*;

    async fn sh(script: &str) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        watch(command).await
    }

    #[tokio::test]
    async fn a_death_is_distinguished_from_an_end_and_from_a_refusal() {
        assert_eq!(sh("exit 0").await, Ended::Recorded);
        assert_eq!(sh("kill -9 $$").await, Ended::Died("signal 9".to_owned()));
        assert_eq!(sh("kill -15 $$").await, Ended::Stopped);
        assert!(matches!(sh("exit 1").await, Ended::Failed(_)));
        assert!(matches!(sh("exit 101").await, Ended::Failed(_)));
        assert!(matches!(sh("exit 2").await, Ended::Unusable(_)));
        assert!(matches!(watch(Command::new("/nowhere/at/all")).await, Ended::Unusable(_)));
    }

    #[test]
    fn the_name_of_a_claim_reads_back() {
        let held = Held { job: JobId::new(), number: 3, token: 42, calls_partner: false };
        assert_eq!(parse(&name(held)), Ok(held));
        assert!(parse("x:1").is_err() && parse("").is_err());
    }
}
