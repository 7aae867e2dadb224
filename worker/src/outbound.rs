//! The guarded HTTP client, through which the worker makes all of its calls.
//!
//! The addresses are untrusted input:
//!
//! - the [`Guard`] checks the address of each connection, whether it was written in the URL or resolved from a name, and
//!   regardless of what the name resolved to earlier; a kept connection has a checked address;
//! - `http` destinations are not called once they are no longer allowed;
//! - redirects are not followed and proxies of the environment are not used, since both lead to other addresses;
//! - connecting has a time-out, and the whole call, to the last byte that is read, has a deadline;
//! - the number of bytes read of an answer is limited; a longer one ends with its connection;
//! - the bytes before the body of an answer have a [budget](traffic) per connection, so an answer that never begins ends the call and
//!   its connection.
//!
//! The status decides what became of a call. A [head] that breaks the grammar is read as far as it can be; one that cannot be read,
//! breaks off or never ends still leaves its status, and the [fault](Reply::fault) beside it.
//!
//! Connections are kept, and the other side may close one while a request is on its way. The request is then sent once more, on a new
//! connection. It may have arrived, so only calls are made here that may be repeated.
//!
//! [`CallError::Local`] reports that this machine has no room for another connection; other errors come from the destination.

mod head;
mod local;
mod resolve;
mod time;
mod tls;
mod traffic;
mod transport;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::capture_connection;
use longshore_kernel::address::Guard;
use longshore_kernel::config::OutboundSettings;
use longshore_kernel::trace;
use tokio::time::{Instant, timeout_at};
use url::Url;

use self::resolve::Forbidden;
pub use self::time::{date, retry_after};
use self::traffic::{BEFORE_BODY, Flooded, Traffic};
use self::transport::{Clients, Http, NoConnection};

/// Characters of an error that are kept.
const ERROR_LENGTH: usize = 300;

/// A body is read without a pause for this many waits. A body that arrives byte by byte is then read at
/// intervals: a thousand of them would otherwise keep a processor busy and delay other calls.
const PROMPT_WAITS: u32 = 16;
const BETWEEN_WAITS: Duration = Duration::from_millis(500);

/// The `User-Agent` of every call.
const AGENT: &str = concat!("longshore/", env!("CARGO_PKG_VERSION"));

/// The client; cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    clients: Clients,
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
    /// Headers; `User-Agent` is added, and with tracing the `traceparent` of the current span.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// The time limit of the whole exchange.
    pub deadline: Duration,
    /// Maximum number of bytes read from the body of the answer.
    pub answer_bytes: usize,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers; none if its head cannot be read.
    pub headers: HeaderMap,
    /// The part of its body that was read.
    pub body: Vec<u8>,
    /// The error that cut the head or the body short; a body beyond `answer_bytes` is no error.
    pub fault: Option<CallError>,
}

/// Why there is no answer, or no complete one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The address is internal.
    #[error("the destination has a private address, which must not be called")]
    Forbidden,
    /// The URL is not `https`: it was stored while that was allowed.
    #[error("the destination is not an https URL; only https is allowed now")]
    Insecure,
    /// The deadline passed.
    #[error("no complete response within {} s", (.0.as_secs_f32() * 100.0).round() / 100.0)]
    Timeout(Duration),
    /// There was no connection: the name does not exist, the connection was refused, or the certificate is
    /// not trusted.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// This machine has no room for one more connection: open files, ports or memory. The destination is not
    /// the cause.
    #[error("this machine has no resources for another connection: {0}")]
    Local(String),
    /// Too much came before the body of the answer.
    #[error("the headers of the response exceed {} KiB", BEFORE_BODY / 1024)]
    Flooded,
    /// The connection broke, or the answer was not HTTP.
    #[error("the connection ended early: {0}")]
    Broken(String),
}

/// The client cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up")]
pub struct SetupError(#[from] rustls::Error);

impl Client {
    /// A client that may reach the addresses that the settings allow.
    pub fn new(settings: &OutboundSettings) -> Result<Self, SetupError> {
        // an error means that a provider is already installed
        let _ = rustls::crypto::ring::default_provider().install_default();
        let guard = Guard::new(&settings.webhook_allow_subnets);
        let clients = transport::open(guard.clone())?;
        Ok(Self { clients, guard, allow_http: settings.webhook_allow_http })
    }

    /// Makes one call.
    pub async fn call(&self, call: Call) -> Result<Reply, CallError> {
        let (deadline, limit) = (call.deadline, call.answer_bytes);
        let end = Instant::now() + deadline;
        let Answer { status, headers, mut body } = self.answer_to(call, end).await?;
        let mut read = Vec::new();
        let reading = timeout_at(end, async {
            let mut waits = 0;
            while read.len() < limit {
                let piece = if let Some(piece) = body.next().now_or_never() {
                    piece?
                } else {
                    waits += 1;
                    if waits > PROMPT_WAITS {
                        tokio::time::sleep(BETWEEN_WAITS).await;
                    }
                    body.next().await?
                };
                let Some(piece) = piece else { break };
                read.extend_from_slice(&piece[..piece.len().min(limit - read.len())]);
            }
            Ok::<_, CallError>(())
        });
        let fault = match reading.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(CallError::Timeout(deadline)),
        };
        Ok(Reply { status, headers, body: read, fault })
    }

    /// Makes one call whose answer's body, of any length, is read piece by piece. The deadline applies to the
    /// beginning of the answer and to each piece; `answer_bytes` has no effect.
    pub async fn open(&self, call: Call) -> Result<Opened, CallError> {
        let patience = call.deadline;
        let answer = self.answer_to(call, Instant::now() + patience).await?;
        Ok(Opened { answer, patience })
    }

    async fn answer_to(&self, call: Call, end: Instant) -> Result<Answer, CallError> {
        // a name passes the resolver, which applies the guard; a literal address does not
        if !self.guard.permits_url(&call.url) {
            return Err(CallError::Forbidden);
        }
        if call.url.scheme() != "https" && !self.allow_http {
            return Err(CallError::Insecure);
        }
        let to = Uri::try_from(call.url.as_str()).map_err(|error| CallError::Connect(error.to_string()))?;
        let mut request = http::Request::new(Full::new(call.body));
        *request.method_mut() = call.method;
        *request.uri_mut() = to;
        *request.headers_mut() = call.headers;
        request.headers_mut().entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        if let Some(trace) = trace::current().and_then(|trace| HeaderValue::try_from(trace).ok()) {
            request.headers_mut().insert(trace::TRACEPARENT, trace);
        }
        let deadline = call.deadline;
        let exchanged = match exchange(&self.clients.keeping, request.clone(), end, deadline).await {
            Err((_, traffic)) if traffic.was_given_up() => {
                exchange(&self.clients.fresh, request, end, deadline).await
            }
            exchanged => exchanged,
        };
        exchanged.or_else(|(fault, traffic)| match traffic.status() {
            Some(status) => {
                Ok(Answer { status, headers: HeaderMap::new(), body: Body { body: Err(fault), traffic } })
            }
            None => Err(fault),
        })
    }
}

/// Sends a request over one connection. An error comes with what that connection brought.
async fn exchange(
    http: &Http,
    mut request: http::Request<Full<Bytes>>,
    end: Instant,
    deadline: Duration,
) -> Result<Answer, (CallError, Traffic)> {
    let connection = capture_connection(&mut request);
    let error = match timeout_at(end, http.request(request)).await {
        Ok(Ok(response)) => {
            let (mut head, body) = response.into_parts();
            let traffic = head.extensions.remove::<Traffic>().unwrap_or_default();
            traffic.renew();
            let body = Body { body: Ok(body), traffic };
            return Ok(Answer { status: head.status, headers: head.headers, body });
        }
        Ok(Err(error)) => classify(&error),
        Err(_) => CallError::Timeout(deadline),
    };
    Err((error, Traffic::of(&connection).unwrap_or_default()))
}

/// An answer whose status has arrived.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    /// None if the head cannot be read.
    headers: HeaderMap,
    body: Body,
}

/// The part of an answer after its head.
#[derive(Debug)]
struct Body {
    /// What is wrong with its head where that cannot be read.
    body: Result<Incoming, CallError>,
    traffic: Traffic,
}

impl Body {
    async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let body = self.body.as_mut().map_err(|fault| fault.clone())?;
        while let Some(frame) = body.frame().await {
            self.traffic.renew();
            // other frames are trailers, which are not used
            if let Ok(piece) = frame.map_err(|error| classify(&error))?.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub struct Opened {
    answer: Answer,
    patience: Duration,
}

impl Opened {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.answer.status
    }

    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.answer.headers
    }

    /// The next piece of its body; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        match tokio::time::timeout(self.patience, self.answer.body.next()).await {
            Ok(piece) => piece,
            Err(_) => Err(CallError::Timeout(self.patience)),
        }
    }
}

/// Classifies an error. The client's error wraps those of its connections, some of them inside an I/O error.
fn classify(error: &(dyn StdError + 'static)) -> CallError {
    let mut connecting = false;
    let mut tls = None;
    let mut bottom = error;
    for layer in layers(error) {
        if layer.is::<Forbidden>() {
            return CallError::Forbidden;
        }
        if layer.is::<Flooded>() {
            return CallError::Flooded;
        }
        if layer.is::<NoConnection>() {
            return CallError::Connect(layer.to_string());
        }
        if local::is_local(layer) {
            return CallError::Local(shortened(layer));
        }
        connecting |= layer
            .downcast_ref::<hyper_util::client::legacy::Error>()
            .is_some_and(hyper_util::client::legacy::Error::is_connect);
        tls = tls.or_else(|| layer.downcast_ref().map(tls::sentence));
        bottom = layer;
    }
    // the upper layers only repeat that the call failed
    let why = tls.map_or_else(|| shortened(bottom), Cow::into_owned);
    if connecting { CallError::Connect(why) } else { CallError::Broken(why) }
}

/// An error and all its causes.
fn layers<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&layer| {
        let inside = layer.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        match inside {
            Some(inside) => Some(inside as &(dyn StdError + 'static)),
            None => layer.source(),
        }
    })
}

/// The text of an error.
fn shortened(error: &(dyn StdError + 'static)) -> String {
    error.to_string().chars().take(ERROR_LENGTH).collect()
}
