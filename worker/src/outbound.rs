//! The guarded HTTP client: everything that the worker calls, it calls through this.
//!
//! Whom it calls is somebody else's choice, so it trusts nothing:
//!
//! - the address that is connected to is judged ([`Guard`]), whether it was written out or came from a name, whatever
//!   the name said when it was stored; a kept connection is one whose address was judged;
//! - what was stored as `http` is not called once that is no longer allowed;
//! - no redirect is followed and no proxy of the environment is used, since either would lead elsewhere;
//! - connecting has a time-out, and the whole exchange, to the last byte that is read, has a deadline;
//! - of an answer only so many bytes are read; what is longer is cut off with its connection.

mod resolve;

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use longshore_shared::platform::address::Guard;
use longshore_shared::platform::config::OutboundSettings;
use longshore_shared::platform::trace;
use reqwest::redirect::Policy;
use url::Url;

use self::resolve::{Forbidden, GuardedResolver};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Idle connections to one host.
const IDLE_PER_HOST: usize = 256;

/// Characters of an error that are worth keeping.
const ERROR_LENGTH: usize = 300;

/// What every call says of itself.
const USER_AGENT: &str = concat!("longshore/", env!("CARGO_PKG_VERSION"));

/// The client; cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    guard: Guard,
    allow_http: bool,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Method.
    pub method: Method,
    /// Absolute URL, `http` or `https`.
    pub url: Url,
    /// Headers; `User-Agent` is added, and where traces are taken the `traceparent` of the current span.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// For the whole exchange.
    pub deadline: Duration,
    /// Bytes of the answer's body that are read at most.
    pub answer_bytes: usize,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, as far as it was read.
    pub body: Vec<u8>,
    /// What ended it before its end; a body longer than asked for is no fault.
    pub fault: Option<CallError>,
}

/// Why there is no answer, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The address is one of inside.
    #[error("the destination is at an address that must not be called")]
    Forbidden,
    /// It is not `https`: it was stored while that was allowed.
    #[error("the destination is not an https URL, and no other may be called any more")]
    Insecure,
    /// The deadline passed.
    #[error("no complete answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// There was no connection: no such name, refused, no trust in the certificate.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke, or what came over it was no HTTP.
    #[error("the exchange broke off: {0}")]
    Broken(String),
}

/// The client cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up")]
pub struct SetupError(#[from] reqwest::Error);

impl Client {
    /// A client that may reach what the settings allow.
    pub fn new(settings: &OutboundSettings) -> Result<Self, SetupError> {
        // an error says that one is installed already
        let _ = rustls::crypto::ring::default_provider().install_default();
        let guard = Guard::new(&settings.webhook_allow_subnets);
        let http = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .dns_resolver(GuardedResolver::new(guard.clone()))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .tcp_nodelay(true)
            .build()?;
        Ok(Self { http, guard, allow_http: settings.webhook_allow_http })
    }

    /// Calls once.
    pub async fn call(&self, call: Call) -> Result<Reply, CallError> {
        let (deadline, limit) = (call.deadline, call.answer_bytes);
        let end = tokio::time::Instant::now() + deadline;
        let mut response = match tokio::time::timeout_at(end, self.answer_to(call)).await {
            Ok(answered) => answered?,
            Err(_) => return Err(CallError::Timeout(deadline)),
        };
        let mut body = Vec::new();
        let read = tokio::time::timeout_at(end, async {
            while body.len() < limit
                && let Some(chunk) = response.chunk().await?
            {
                body.extend_from_slice(&chunk[..chunk.len().min(limit - body.len())]);
            }
            Ok::<_, reqwest::Error>(())
        });
        let fault = match read.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(CallError::Broken(innermost(&error))),
            Err(_) => Some(CallError::Timeout(deadline)),
        };
        Ok(Reply { status: response.status(), headers: std::mem::take(response.headers_mut()), body, fault })
    }

    /// Calls once, and leaves the answer's body to be read as it comes, of any length. The deadline is for the answer to
    /// begin, and for each piece of it to come; `answer_bytes` says nothing here.
    pub async fn open(&self, call: Call) -> Result<Opened, CallError> {
        let patience = call.deadline;
        match tokio::time::timeout(patience, self.answer_to(call)).await {
            Ok(answered) => answered.map(|response| Opened { response, patience }),
            Err(_) => Err(CallError::Timeout(patience)),
        }
    }

    async fn answer_to(&self, call: Call) -> Result<reqwest::Response, CallError> {
        // a name goes through the resolver; an address written out would not
        if !self.guard.permits_url(&call.url) {
            return Err(CallError::Forbidden);
        }
        if call.url.scheme() != "https" && !self.allow_http {
            return Err(CallError::Insecure);
        }
        let mut request = reqwest::Request::new(call.method, call.url);
        *request.headers_mut() = call.headers;
        if let Some(trace) = trace::current().and_then(|trace| HeaderValue::try_from(trace).ok()) {
            request.headers_mut().insert(trace::TRACEPARENT, trace);
        }
        *request.body_mut() = Some(call.body.into());
        self.http.execute(request).await.map_err(|error| classify(&error))
    }
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub struct Opened {
    response: reqwest::Response,
    patience: Duration,
}

impl Opened {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece of its body; nothing at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        match tokio::time::timeout(self.patience, self.response.chunk()).await {
            Ok(piece) => piece.map_err(|error| CallError::Broken(innermost(&error))),
            Err(_) => Err(CallError::Timeout(self.patience)),
        }
    }
}

fn classify(error: &reqwest::Error) -> CallError {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = source {
        if current.is::<Forbidden>() {
            return CallError::Forbidden;
        }
        source = current.source();
    }
    if error.is_connect() && error.is_timeout() {
        CallError::Connect(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()))
    } else if error.is_connect() {
        CallError::Connect(innermost(error))
    } else {
        CallError::Broken(innermost(error))
    }
}

/// What lies at the bottom of an error. The upper layers only repeat the URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut innermost: &dyn StdError = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string().chars().take(ERROR_LENGTH).collect()
}
