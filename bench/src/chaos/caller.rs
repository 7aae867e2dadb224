//! A well-behaved client: it repeats requests without an answer, or answered with 503, until they succeed,
//! and notes every answer that should never occur.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use http::Method;
use longshore_client::{Call, Client, Error, RetryPolicy, Rows};
use longshore_testkit::client::outside;
use serde_json::Value;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(25);

/// The wait before a request without an answer is repeated.
const AGAIN: Duration = Duration::from_millis(100);

/// The longest wait before a request is repeated, even if `Retry-After` is longer: the service must cope with
/// that.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Evidence to keep.
const EVIDENCE: usize = 50;

/// A request without a valid answer for this long counts as lost.
const LOST: Duration = Duration::from_mins(5);

/// The final answer to a request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) replayed: bool,
    pub(crate) body: Value,
}

/// The answers to all requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// By status, with `none` for requests without an answer.
    pub(crate) answers: BTreeMap<String, u64>,
    /// Answers that should not occur.
    pub(crate) violations: Vec<String>,
    /// The number of such answers.
    pub(crate) violated: u64,
    /// When requests of a caller that does not flood were answered 429, and which ones.
    pub(crate) crowded_out: Vec<(Instant, String)>,
    /// When each successful request was sent, and how long its one attempt took.
    pub(crate) took: Vec<(Instant, Duration)>,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn new(method: Method, path: impl Into<String>, body: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: body.into() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A client of several api processes; see the module.
#[derive(Debug)]
pub(crate) struct Caller {
    http: reqwest::Client,
    bases: Vec<String>,
    /// One for each process, all with the same connections.
    clients: Vec<Client>,
    next: AtomicUsize,
    excused: Arc<AtomicBool>,
    /// Whether it asks for more than its share, and may therefore get 429.
    floods: bool,
    tally: Arc<Mutex<Tally>>,
}

impl Caller {
    pub(crate) fn new(bases: Vec<String>, token: &str) -> anyhow::Result<Self> {
        let http = outside()?;
        let clients = clients(&http, &bases, token)?;
        Ok(Self {
            http,
            bases,
            clients,
            next: AtomicUsize::new(0),
            excused: Arc::default(),
            floods: false,
            tally: Arc::default(),
        })
    }

    /// The same client with another token; both share one tally.
    pub(crate) fn with_token(&self, token: &str) -> anyhow::Result<Self> {
        Ok(Self {
            http: self.http.clone(),
            bases: self.bases.clone(),
            clients: clients(&self.http, &self.bases, token)?,
            next: AtomicUsize::new(0),
            excused: Arc::clone(&self.excused),
            floods: self.floods,
            tally: Arc::clone(&self.tally),
        })
    }

    /// The same client with the token of an organisation that floods: its answers are counted separately, and
    /// may be 429.
    pub(crate) fn flooding(&self, token: &str) -> anyhow::Result<Self> {
        Ok(Self { floods: true, tally: Arc::default(), ..self.with_token(token)? })
    }

    /// The answers so far.
    pub(crate) fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether a 500 is excused: a simulated fault may cause another error than the real one.
    pub(crate) fn excuse(&self, excused: bool) {
        self.excused.store(excused, Ordering::Relaxed);
    }

    /// Notes an answer that should not occur.
    pub(crate) fn violation(&self, evidence: String) {
        let mut tally = self.tally();
        tally.violated += 1;
        if tally.violations.len() < EVIDENCE {
            tally.violations.push(evidence);
        }
    }

    /// Repeats a request until its answer has an `expected` status.
    pub(crate) async fn ask(&self, request: &Request, expected: &[u16]) -> anyhow::Result<Reply> {
        let until = Instant::now() + LOST;
        while Instant::now() < until {
            match self.attempt(request, expected).await? {
                Ok(reply) => return Ok(reply),
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
        self.violation(format!("{} {}: not answered within {LOST:?}", request.method, request.path));
        bail!("{} {}: not answered within {LOST:?}", request.method, request.path)
    }

    /// Sends a request once; returns an `expected` answer, or how long to wait before repeating it.
    pub(crate) async fn attempt(
        &self,
        request: &Request,
        expected: &[u16],
    ) -> anyhow::Result<Result<Reply, Duration>> {
        let started = Instant::now();
        let excused = self.excused.load(Ordering::Relaxed);
        let Ok(answer) = self.prepare(request).once().await else {
            self.count("none");
            return Ok(Err(AGAIN));
        };
        let retry_after = answer.retry_after();
        let reply = Reply {
            status: answer.status().as_u16(),
            replayed: answer.is_replayed(),
            body: answer.read().unwrap_or_default(),
        };
        let excused = reply.status == 500 && (excused || self.excused.load(Ordering::Relaxed));
        self.count(&if excused { "500 (excused)".to_owned() } else { reply.status.to_string() });
        if expected.contains(&reply.status) {
            self.tally().took.push((started, started.elapsed()));
            return Ok(Ok(reply));
        }
        if reply.status == 429 && !self.floods {
            let Request { method, path, .. } = request;
            self.tally().crowded_out.push((Instant::now(), format!("{method} {path}: {}", reply.body)));
        }
        let passing = match reply.status {
            // a request that was crowded out is repeated; a check judges it
            503 | 429 => true,
            500 if excused => true,
            409 => reply.body["code"] == "request_in_progress",
            _ => false,
        };
        if !passing || (retry_after.is_none() && !excused) {
            let Request { method, path, .. } = request;
            let after = if passing { " without Retry-After" } else { "" };
            self.violation(format!("{method} {path}: {}{after}: {}", reply.status, reply.body));
        }
        if !passing && reply.status < 500 {
            bail!("{} {}: {}: {}", request.method, request.path, reply.status, reply.body);
        }
        Ok(Err(retry_after.unwrap_or(AGAIN).min(LONGEST_WAIT)))
    }

    /// Begins a request and disconnects in the middle of its body; no answer to it may be a success.
    pub(crate) async fn break_off(&self, request: &Request) {
        let broken = Broken(Some(request.body.clone().into_bytes()));
        match self.prepare(request).rows(Rows::from_reader(broken)).timeout(PATIENCE).once().await {
            Err(_) => self.count("broken off"),
            Ok(answer) if answer.status().is_success() => {
                self.violation(format!("{}: {} for half of a body", request.path, answer.status()));
            }
            Ok(answer) => self.count(answer.status().as_str()),
        }
    }

    fn count(&self, what: &str) {
        *self.tally().answers.entry(what.to_owned()).or_default() += 1;
    }

    fn prepare(&self, request: &Request) -> Call {
        let client = &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % self.clients.len()];
        let mut call = client.call(request.method.clone(), request.path.clone());
        for (name, value) in &request.headers {
            call = call.header(*name, value.clone());
        }
        if request.method == Method::GET { call } else { call.body(request.body.clone()) }
    }
}

/// A client of each process, which sends every request once, and no key of its own.
fn clients(http: &reqwest::Client, bases: &[String], token: &str) -> anyhow::Result<Vec<Client>> {
    let client = |base: &String| {
        Client::builder(base, token)
            .http(http.clone())
            .timeout(PATIENCE)
            .retry(RetryPolicy::never())
            .idempotency_keys(false)
            .build()
    };
    Ok(bases.iter().map(client).collect::<Result<_, Error>>()?)
}

/// A body that breaks off.
struct Broken(Option<Vec<u8>>);

impl Read for Broken {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(mut rest) = self.0.take() else { return Err(io::Error::other("the client hangs up")) };
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.0 = (length < rest.len()).then(|| rest.split_off(length));
        Ok(length)
    }
}
