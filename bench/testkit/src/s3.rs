//! A private S3 service: `moto_server`, a Python program that `./dev test` installs.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use http::header::AUTHORIZATION;
use tempfile::TempDir;
use url::Url;

use crate::client;
use crate::port::free_port;
use crate::process::{Process, end_of};

/// How long it may take to start.
const READY: Duration = Duration::from_mins(2);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The name of the program.
const PROGRAM: &str = "moto_server";

/// A running service with one bucket; dropping it ends it.
#[derive(Debug)]
pub struct S3 {
    /// Its URL.
    pub endpoint: Url,
    _process: Process,
    _folder: TempDir,
}

impl S3 {
    /// The name of its bucket.
    pub const BUCKET: &'static str = "pictures";

    /// Starts a service; `None` if the program is not installed.
    ///
    /// # Errors
    /// When it is installed but does not start.
    pub async fn start() -> anyhow::Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let (port, log) = (free_port()?, folder.path().join("moto.log"));
        let mut command = Command::new(PROGRAM);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let process = match Process::start(command, log.clone()) {
            Ok(process) => process,
            Err(error) if is_not_installed(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let endpoint: Url = format!("http://127.0.0.1:{port}").parse()?;
        let bucket = endpoint.join(Self::BUCKET)?;
        let (http, until) = (client::outside()?, Instant::now() + READY);
        loop {
            match http.put(bucket.clone()).send().await {
                Ok(answer) => {
                    ensure!(answer.status().is_success(), "the bucket was refused: {}", answer.status());
                    return Ok(Some(Self { endpoint, _process: process, _folder: folder }));
                }
                Err(_) if Instant::now() < until => tokio::time::sleep(LOOK_AGAIN).await,
                Err(error) => {
                    return Err(error).with_context(|| format!("{PROGRAM} is not ready: {}", end_of(&log)));
                }
            }
        }
    }

    /// The bytes of an object, requested directly; `None` if it does not exist.
    ///
    /// # Errors
    /// When the service fails.
    pub async fn object(&self, key: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let url = self.endpoint.join(&format!("{}/{key}", Self::BUCKET))?;
        // signed requests may read private objects; the signature itself is not checked
        let signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let answer = client::outside()?.get(url).header(AUTHORIZATION, signed).send().await?;
        match answer.status().as_u16() {
            200 => Ok(Some(answer.bytes().await?.to_vec())),
            404 => Ok(None),
            other => bail!("the object was refused: {other}"),
        }
    }
}

fn is_not_installed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
