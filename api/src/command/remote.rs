//! A client of the HTTP API for the script commands. It uses nothing that other clients cannot.

use std::time::Duration;
use std::{fmt, io};

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use futures::Stream;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, StatusCode};
use longshore_shared::kernel::clock::Clock;
use longshore_shared::kernel::config::endpoint;
use longshore_shared::kernel::ids;
use longshore_shared::kernel::retry::{Backoff, Failure, RetryPolicy, retry};
use longshore_shared::webhook::schedule;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use uuid::Uuid;

use super::table::shown;

/// How often a call is repeated while the service is busy or Postgres is away.
const POLICY: RetryPolicy =
    RetryPolicy { attempts: 6, initial: Duration::from_millis(250), max: Duration::from_secs(10) };

/// The longest wait that the service may ask for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long an answer may take: longer than the service's own limit.
const ANSWER: Duration = Duration::from_mins(3);

/// How long the progress of a job may be silent: the service sends a sign of life every 15 seconds.
const SILENCE: Duration = Duration::from_mins(1);

/// How often in a row the progress of a job may break off without an event.
const BREAKS: u32 = 8;

/// Where the service is, and who calls.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Service")]
pub(super) struct Remote {
    /// Base URL of the service.
    #[arg(long, env = "LONGSHORE_URL", default_value = "http://127.0.0.1:8080", value_parser = endpoint)]
    url: Url,
    /// Access token; the environment is the better place for it, since others see command lines.
    #[arg(long, env = "LONGSHORE_TOKEN", hide_env_values = true)]
    token: SecretString,
    /// Prints the service's answer as JSON, for programs.
    #[arg(long)]
    pub(super) json: bool,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// The service refused the request: invalid, not allowed or not possible (4xx).
    #[error("{0}")]
    Refused(Told),
    /// The service cannot execute it now (5xx).
    #[error("{0}")]
    Failing(Told),
    /// The service cannot be reached, or the connection broke.
    #[error("cannot reach {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// The answer is not from this service.
    #[error("{url} does not answer as Longshore does: {reason}")]
    Strange { url: String, reason: String },
}

/// The service's explanation of a refusal (RFC 9457), as far as it is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Told {
    status: u16,
    detail: String,
    code: String,
    request_id: String,
    violations: Vec<Violation>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Violation {
    property_path: String,
    message: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {}", shown(&self.detail), self.status, shown(&self.code))?;
        if !self.request_id.is_empty() {
            write!(f, ", request {}", shown(&self.request_id))?;
        }
        f.write_str(")")?;
        // the detail already names the first one
        for Violation { property_path, message } in self.violations.iter().skip(1) {
            write!(f, "\n  {}: {}", shown(property_path), shown(message))?;
        }
        Ok(())
    }
}

/// A job, as far as the commands use it.
#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub(super) id: Uuid,
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) progress: Progress,
    pub(super) error: Option<String>,
    /// Absent in answers of older services.
    #[serde(default)]
    pub(super) outcome: Option<String>,
    /// For a job that sends deliveries again.
    #[serde(default)]
    pub(super) result: Option<SentAgain>,
    #[serde(rename = "waitsFor", default)]
    pub(super) waits_for: Option<WaitsFor>,
}

/// The result of a job that sends deliveries again.
#[derive(Debug, Deserialize)]
pub(super) struct SentAgain {
    pub(super) released: i64,
    pub(super) resent: i64,
}

/// What a job waits for.
#[derive(Debug, Deserialize)]
pub(super) struct WaitsFor {
    pub(super) reason: String,
}

/// The progress of a job.
#[derive(Debug, Deserialize)]
pub(super) struct Progress {
    pub(super) total: u64,
    pub(super) done: u64,
    pub(super) changed: u64,
    pub(super) unchanged: u64,
    pub(super) failed: u64,
}

/// The service.
#[derive(Debug)]
pub(super) struct Service {
    base: String,
    token: SecretString,
    http: reqwest::Client,
}

impl Service {
    pub(super) fn new(remote: &Remote) -> anyhow::Result<Self> {
        // an error means that a provider is already installed
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("longshore-api/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .build()
            .context("the HTTP client cannot be set up")?;
        let base = remote.url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { base, token: remote.token.clone(), http })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.call(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Result<Value, Refusal> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Makes a call, and repeats it while the service is busy: always with the same key, so that it is
    /// executed once. An answer without a body is null.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Refusal> {
        let key = ids::random_id().to_string();
        let body = body.as_ref().map(Value::to_string);
        retry(POLICY, async || {
            let mut request = self.request(method.clone(), path).timeout(ANSWER);
            if method != Method::GET {
                request = request.header("idempotency-key", &key);
            }
            if let Some(body) = &body {
                request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
            }
            self.answer(request).await
        })
        .await
    }

    /// Sends a stream of rows from `open`; repeats it only if it can be read again.
    pub(super) async fn upload<S>(
        &self,
        path: &str,
        again: bool,
        open: impl Fn() -> S,
    ) -> Result<Value, Refusal>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let key = ids::random_id().to_string();
        retry(POLICY, async || {
            let request = self
                .request(Method::POST, path)
                .header(CONTENT_TYPE, "application/x-ndjson")
                .header("idempotency-key", &key)
                .body(reqwest::Body::wrap_stream(open()));
            self.answer(request).await.map_err(|failure| match failure {
                Failure::Transient(refusal) | Failure::Later(refusal, _) if !again => {
                    Failure::Permanent(refusal)
                }
                other => other,
            })
        })
        .await
    }

    /// Follows a job to its end, and passes each state to `seen`. A stream that breaks off is opened again.
    pub(super) async fn follow(&self, job: Uuid, mut seen: impl FnMut(&Job)) -> Result<Value, Refusal> {
        let mut waits = Backoff::new(POLICY.initial, POLICY.max);
        let mut breaks = 0;
        loop {
            let mut told = false;
            let listened = self
                .listen(job, |job| {
                    told = true;
                    seen(job);
                })
                .await;
            if told {
                breaks = 0;
                waits.reset();
            }
            breaks += 1;
            match listened {
                Ok(Some(end)) => return Ok(end),
                Ok(None) if breaks >= BREAKS => {
                    return Err(self.unreachable("the progress of the job breaks off again and again"));
                }
                Ok(None) => {}
                Err(refusal) => {
                    let passing = matches!(refusal, Refusal::Unreachable { .. } | Refusal::Failing(_));
                    if !passing || breaks >= BREAKS {
                        return Err(refusal);
                    }
                }
            }
            tokio::time::sleep(waits.next_delay()).await;
        }
    }

    /// Listens to the progress of a job until it, or the stream, ends.
    async fn listen(&self, job: Uuid, mut seen: impl FnMut(&Job)) -> Result<Option<Value>, Refusal> {
        let sent = self.request(Method::GET, &format!("/api/job/{job}/events")).send().await;
        let mut response = sent.map_err(|error| self.broken(&error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let mut buffer = Vec::new();
        loop {
            // cut off or silent
            let Ok(Ok(Some(chunk))) = tokio::time::timeout(SILENCE, response.chunk()).await else {
                return Ok(None);
            };
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = buffer.drain(..end + 2).collect();
                let Some((name, data)) = event_in(&String::from_utf8_lossy(&event)) else { continue };
                let value: Value = serde_json::from_str(&data).map_err(|error| self.strange(error))?;
                seen(&self.read(&value)?);
                if name == "end" {
                    return Ok(Some(value));
                }
            }
        }
    }

    /// Reads an answer of the service.
    pub(super) fn read<'v, T: Deserialize<'v>>(&self, value: &'v Value) -> Result<T, Refusal> {
        T::deserialize(value).map_err(|error| self.strange(error))
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(self.token.expose_secret())
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Value, Failure<Refusal>> {
        let response = request.send().await.map_err(|error| Failure::Permanent(self.broken(&error)))?;
        let status = response.status();
        if status.is_success() {
            let text = response.text().await.map_err(|error| Failure::Permanent(self.broken(&error)))?;
            if text.is_empty() {
                return Ok(Value::Null);
            }
            return serde_json::from_str(&text).map_err(|error| Failure::Permanent(self.strange(error)));
        }
        let wait = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| schedule::retry_after(value.to_str().ok()?, Clock::system().now()));
        let refusal = self.refusal(response).await;
        Err(match (status, wait) {
            (StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS, Some(wait)) => {
                Failure::Later(refusal, wait.min(LONGEST_WAIT))
            }
            (StatusCode::SERVICE_UNAVAILABLE, None) => Failure::Transient(refusal),
            _ => Failure::Permanent(refusal),
        })
    }

    async fn refusal(&self, response: reqwest::Response) -> Refusal {
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        let told = serde_json::from_str::<Told>(&text).ok().filter(|told| !told.code.is_empty());
        match told {
            Some(told) if status.is_client_error() => Refusal::Refused(told),
            Some(told) => Refusal::Failing(told),
            // from a proxy, or another service
            None => self.strange(format!("status {status}")),
        }
    }

    fn broken(&self, error: &reqwest::Error) -> Refusal {
        // the upper layers only repeat the URL
        let mut innermost: &dyn std::error::Error = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        self.unreachable(innermost)
    }

    fn unreachable(&self, reason: impl fmt::Display) -> Refusal {
        Refusal::Unreachable { url: self.base.clone(), reason: reason.to_string() }
    }

    fn strange(&self, reason: impl fmt::Display) -> Refusal {
        Refusal::Strange { url: self.base.clone(), reason: reason.to_string() }
    }
}

/// The name and data of a server-sent event; `None` for a comment.
fn event_in(text: &str) -> Option<(String, String)> {
    let field = |name: &str| {
        let values: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.strip_prefix(' ').unwrap_or(value))
            .collect();
        (!values.is_empty()).then(|| values.join("\n"))
    };
    Some((field("event").unwrap_or_default(), field("data")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_sent_events_are_read_and_comments_are_skipped() {
        let read = event_in("event: progress\ndata: {\"a\":\ndata: 1}\n\n").unwrap();
        assert_eq!(read, ("progress".to_owned(), "{\"a\":\n1}".to_owned()));
        assert_eq!(event_in(":\n\n"), None);
        assert_eq!(event_in("data:x\n\n"), Some((String::new(), "x".to_owned())));
    }

    #[test]
    fn a_refusal_shows_what_is_wrong_with_each_field() {
        let told: Told = serde_json::from_str(
            r#"{"type":"/problems/invalid_data","status":400,"detail":"since is required, and 1 more",
                "code":"invalid_data","requestId":"r1","violations":[
                    {"propertyPath":"since","message":"is required","code":"required","parameters":{}},
                    {"propertyPath":"until","message":"is not a known field","code":"unknown_field"}]}"#,
        )
        .unwrap();
        assert_eq!(
            told.to_string(),
            "since is required, and 1 more (400 invalid_data, request r1)\n  until: is not a known field"
        );
    }
}
