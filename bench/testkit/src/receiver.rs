//! A fake e-shop: it receives webhooks over real HTTP on a loopback port, answers as instructed, and records
//! the requests.
//!
//! It runs on its own thread with its own clock, so that a test may pause its clock or block its runtime, and
//! a measurement does not share its executor with the service. There are two modes:
//!
//! - [`Receiver::start`] keeps whole requests ([`Receipt`]);
//! - [`Receiver::counting`] keeps only counts, webhook ids and the time of the latest request, for more than
//!   60,000 requests per second.
//!
//! Each request wakes those who wait for it ([`Receiver::wait_for`]), without polling. A dropped receiver
//! closes its port before `drop` returns.
//!
//! To fake another behaviour of a destination, add a variant to [`Answer`] and its arm in
//! `receiver/answer.rs`.

pub mod answer;
pub mod record;

use std::collections::HashMap;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use self::answer::Answers;
pub use self::answer::{Answer, By, Document, Gate};
use self::record::Record;
pub use self::record::{Receipt, Seen};

/// How long a dropped receiver waits for answers under way.
const GRACE: Duration = Duration::from_millis(250);

/// A wait for requests that reached its deadline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("still waiting after {waited:?}; {requests} requests with {ids} different webhook ids came")]
pub struct TooFew {
    /// How long the wait was.
    pub waited: Duration,
    /// The number of requests at that time.
    pub requests: u64,
    /// The number of different webhook ids at that time.
    pub ids: usize,
}

/// A fake e-shop on a loopback port; see the module.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    shop: Arc<Shop>,
    runtime: Handle,
    ending: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The state that connections share.
#[derive(Debug)]
struct Shop {
    record: Record,
    answers: Answers,
}

impl Receiver {
    /// Starts a receiver that keeps whole requests, on a free loopback port.
    ///
    /// # Errors
    /// When no port or thread is available.
    pub async fn start() -> std::io::Result<Self> {
        Self::listen((Ipv4Addr::LOCALHOST, 0).into(), Record::whole())
    }

    /// Starts a receiver that only counts (see the module), on a free loopback port.
    ///
    /// # Errors
    /// When no port or thread is available.
    pub async fn counting() -> std::io::Result<Self> {
        Self::listen((Ipv4Addr::LOCALHOST, 0).into(), Record::counting())
    }

    /// Like [`Receiver::counting`], on a port of every loopback address, so that one receiver acts as many
    /// hosts.
    ///
    /// # Errors
    /// When no port or thread is available.
    pub async fn counting_for_many() -> std::io::Result<Self> {
        Self::listen((Ipv4Addr::UNSPECIFIED, 0).into(), Record::counting())
    }

    /// Like [`Receiver::start`], at a given address.
    ///
    /// # Errors
    /// When the address is taken, or no thread is available.
    pub async fn start_at(address: SocketAddr) -> std::io::Result<Self> {
        Self::listen(address, Record::whole())
    }

    /// Like [`Receiver::counting`], at a given address.
    ///
    /// # Errors
    /// When the address is taken, or no thread is available.
    pub async fn counting_at(address: SocketAddr) -> std::io::Result<Self> {
        Self::listen(address, Record::counting())
    }

    fn listen(address: SocketAddr, record: Record) -> std::io::Result<Self> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let shop = Arc::new(Shop { record, answers: Answers::default() });
        let (ending, ended) = watch::channel(false);
        let thread = std::thread::Builder::new().name("receiver".into()).spawn({
            let shop = Arc::clone(&shop);
            move || {
                if let Err(error) = runtime.block_on(serve(listener, shop, ended)) {
                    tracing::error!(%error, "receiver ended");
                }
            }
        })?;
        Ok(Self { address, shop, runtime: handle, ending, thread: Some(thread) })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path on it: `url("/orders")` is `http://127.0.0.1:…/orders`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.address, path.trim_start_matches('/'))
    }

    /// The URL of one of the hosts of [`Receiver::counting_for_many`].
    #[must_use]
    pub fn url_of_host(&self, host: u8) -> String {
        format!("http://127.0.0.{host}:{}/", self.address.port())
    }

    /// Sets the answer to requests for `path` (without its query), instead of 204.
    pub fn answer(&self, path: &str, answer: Answer) {
        self.shop.answers.set(path, answer);
    }

    /// Holds requests for `path` back until the gate is opened, and then answers them.
    #[must_use]
    pub fn hold(&self, path: &str, answer: Answer) -> Gate {
        let gate = Gate::closed();
        self.answer(path, Answer::Gated(gate.clone(), Box::new(answer)));
        gate
    }

    /// Sets the answer for all paths without their own answer, instead of 204.
    pub fn answer_all(&self, answer: Answer) {
        self.shop.answers.set_default(answer);
    }

    /// Waits for `requests` requests since the start, to any path.
    ///
    /// # Errors
    /// [`TooFew`] when `deadline` passes first.
    pub async fn wait_for(&self, requests: u64, deadline: Duration) -> Result<(), TooFew> {
        self.wait_until(deadline, move |seen| seen.requests >= requests).await
    }

    /// Waits for `ids` different webhook ids since the start.
    ///
    /// # Errors
    /// [`TooFew`] when `deadline` passes first.
    pub async fn wait_for_ids(&self, ids: usize, deadline: Duration) -> Result<(), TooFew> {
        self.wait_until(deadline, move |seen| seen.ids.len() >= ids).await
    }

    /// Waits until `reached` is true; it is called for every request, so it must be cheap.
    ///
    /// # Errors
    /// [`TooFew`] when `deadline` passes first.
    pub async fn wait_until(
        &self,
        deadline: Duration,
        reached: impl Fn(&Seen) -> bool + Send + 'static,
    ) -> Result<(), TooFew> {
        let Some(arrival) = self.shop.record.tell_when(Box::new(reached)) else { return Ok(()) };
        // Both run on the receiver's runtime, whose clock is real even if the caller's is paused.
        let wait = self.runtime.spawn(async move { tokio::time::timeout(deadline, arrival).await });
        match wait.await {
            Ok(Ok(Ok(()))) => Ok(()),
            _ => Err(self.shop.record.with(|seen| TooFew {
                waited: deadline,
                requests: seen.requests,
                ids: seen.ids.len(),
            })),
        }
    }

    /// All requests, in order. Empty in counting mode.
    #[must_use]
    pub fn receipts(&self) -> Vec<Receipt> {
        self.shop.record.with(|seen| seen.receipts.clone())
    }

    /// Returns and removes the recorded requests, in order; counts do not change.
    #[must_use]
    pub fn take(&self) -> Vec<Receipt> {
        self.shop.record.take()
    }

    /// The requests for one path, in order. Empty in counting mode.
    #[must_use]
    pub fn receipts_at(&self, path: &str) -> Vec<Receipt> {
        self.shop
            .record
            .with(|seen| seen.receipts.iter().filter(|receipt| receipt.path == path).cloned().collect())
    }

    /// The number of requests since the start, in either mode.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shop.record.with(|seen| seen.requests)
    }

    /// How often each value of a header occurred; in counting mode only for `webhook-id`.
    #[must_use]
    pub fn counts_by(&self, header: &str) -> HashMap<String, u64> {
        self.shop.record.with(|seen| seen.counts_by(header))
    }

    /// When the latest request was complete, in either mode.
    #[must_use]
    pub fn latest(&self) -> Option<Instant> {
        self.shop.record.with(|seen| seen.latest)
    }

    /// The largest number of concurrent requests: complete, but not yet answered.
    #[must_use]
    pub fn peak_in_flight(&self) -> u64 {
        self.shop.record.with(|seen| seen.peak_in_flight)
    }

    /// Forgets all requests; answers do not change.
    pub fn forget(&self) {
        self.shop.record.forget();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ending.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the receiver's thread panicked");
        }
    }
}

/// Accepts connections until it is stopped, then lets answers under way end within [`GRACE`].
async fn serve(
    listener: StdListener,
    shop: Arc<Shop>,
    mut ended: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "receiver could not accept a connection");
                    continue;
                }
            },
            _ = ended.wait_for(|ended| *ended) => break,
        };
        // An answer is one small packet, which must not wait for another.
        stream.set_nodelay(true)?;
        let shop = Arc::clone(&shop);
        let service = service_fn(move |request| take(Arc::clone(&shop), request));
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let mut ended = ended.clone();
        connections.spawn(async move {
            let mut connection = std::pin::pin!(connection);
            let ended = async { _ = ended.wait_for(|ended| *ended).await };
            let done = tokio::select! {
                done = connection.as_mut() => Some(done),
                () = ended => None,
            };
            let done = if let Some(done) = done {
                done
            } else {
                connection.as_mut().graceful_shutdown();
                connection.await
            };
            if let Err(error) = done {
                tracing::debug!(%error, "a connection to the receiver ended early");
            }
        });
    }
    drop(listener);
    // Answers that hang on request end here, together with the runtime.
    connections.close();
    _ = tokio::time::timeout(GRACE, connections.wait()).await;
    Ok(())
}

/// Handles one request: reads, records and answers it.
async fn take(shop: Arc<Shop>, request: Request<Incoming>) -> Result<Response<Body>, answer::Cut> {
    let (head, body) = request.into_parts();
    let Ok(body) = read(body).await else { return Err(answer::Cut) };
    let mut answer = shop.answers.of(head.uri.path());
    if let Some(Answer::By(rule)) = &answer {
        answer = Some(rule.answer(&Receipt::of(&head, &body)));
    }
    let _in_flight = shop.record.arrived(&head, &body);
    match answer {
        None => Ok(answer::no_content()),
        Some(answer) => answer.respond().await,
    }
}

/// Reads a whole body; most consist of one frame, which is not copied.
async fn read(mut body: Incoming) -> Result<Bytes, hyper::Error> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = next_frame(&mut body).await {
        let Ok(data) = frame?.into_data() else { continue };
        if first.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn next_frame(
    body: &mut Incoming,
) -> impl Future<Output = Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context))
}
