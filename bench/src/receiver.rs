//! A fake e-shop: it takes webhooks over real HTTP on a loopback port, answers as it was told to, and
//! remembers what came.
//!
//! It lives on a thread and a clock of its own, so that a test may pause its own clock or block its own
//! runtime, and so that a measurement does not share its executor with what it measures. Two modes:
//!
//! - [`Receiver::start`] keeps every request whole ([`Receipt`]);
//! - [`Receiver::counting`] keeps counts, webhook ids and the latest arrival only, for more than 60,000
//!   requests a second.
//!
//! Whoever waits is woken by the arrival itself ([`Receiver::wait_for`]); nothing polls. A dropped receiver
//! closes its port before `drop` returns.
//!
//! To fake one more behaviour of a destination, add a variant to [`Answer`], and its arm where answers are given
//! (`receiver/answer.rs`).

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

/// How long a dropped receiver lets answers that are under way come to their end.
const GRACE: Duration = Duration::from_millis(250);

/// The wait for arrivals ended at its deadline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("still waiting after {waited:?}; {requests} requests with {ids} different webhook ids came")]
pub struct TooFew {
    /// How long the wait was.
    pub waited: Duration,
    /// How many requests had come by then.
    pub requests: u64,
    /// How many different webhook ids had come by then.
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

/// What the connections share.
#[derive(Debug)]
struct Shop {
    record: Record,
    answers: Answers,
}

impl Receiver {
    /// Starts a receiver that keeps every request whole, on a free loopback port.
    ///
    /// # Errors
    /// When no port or thread can be had.
    pub async fn start() -> std::io::Result<Self> {
        Self::listen((Ipv4Addr::LOCALHOST, 0).into(), Record::whole())
    }

    /// Starts a receiver that only counts (see the module), on a free loopback port.
    ///
    /// # Errors
    /// When no port or thread can be had.
    pub async fn counting() -> std::io::Result<Self> {
        Self::listen((Ipv4Addr::LOCALHOST, 0).into(), Record::counting())
    }

    /// Like [`Receiver::counting`], on a port of every loopback address, so that one receiver stands for many hosts.
    ///
    /// # Errors
    /// When no port or thread can be had.
    pub async fn counting_for_many() -> std::io::Result<Self> {
        Self::listen((Ipv4Addr::UNSPECIFIED, 0).into(), Record::counting())
    }

    /// Like [`Receiver::start`], at an address of the caller's choice.
    ///
    /// # Errors
    /// When the address is taken, or no thread can be had.
    pub async fn start_at(address: SocketAddr) -> std::io::Result<Self> {
        Self::listen(address, Record::whole())
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path on it: `url("/orders")` is `http://127.0.0.1:…/orders`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.address, path.trim_start_matches('/'))
    }

    /// The URL of one of the many hosts that [`Receiver::counting_for_many`] stands for.
    #[must_use]
    pub fn url_of_host(&self, host: u8) -> String {
        format!("http://127.0.0.{host}:{}/", self.address.port())
    }

    /// Sets what requests to `path` (without its query) are answered with from now on, instead of 204.
    pub fn answer(&self, path: &str, answer: Answer) {
        self.shop.answers.set(path, answer);
    }

    /// Holds requests to `path` back until the gate is opened, and answers them then.
    #[must_use]
    pub fn hold(&self, path: &str, answer: Answer) -> Gate {
        let gate = Gate::closed();
        self.answer(path, Answer::Gated(gate.clone(), Box::new(answer)));
        gate
    }

    /// Sets what requests to all paths without an answer of their own get from now on, instead of 204.
    pub fn answer_all(&self, answer: Answer) {
        self.shop.answers.set_default(answer);
    }

    /// Waits until `requests` requests have come since the start, all paths together.
    ///
    /// # Errors
    /// [`TooFew`] when `deadline` passes first.
    pub async fn wait_for(&self, requests: u64, deadline: Duration) -> Result<(), TooFew> {
        self.wait_until(deadline, move |seen| seen.requests >= requests).await
    }

    /// Waits until `ids` different webhook ids have come since the start.
    ///
    /// # Errors
    /// [`TooFew`] when `deadline` passes first.
    pub async fn wait_for_ids(&self, ids: usize, deadline: Duration) -> Result<(), TooFew> {
        self.wait_until(deadline, move |seen| seen.ids.len() >= ids).await
    }

    /// Waits until `reached` is true of what has come; it is asked at every arrival, so keep it cheap.
    ///
    /// # Errors
    /// [`TooFew`] when `deadline` passes first.
    pub async fn wait_until(
        &self,
        deadline: Duration,
        reached: impl Fn(&Seen) -> bool + Send + 'static,
    ) -> Result<(), TooFew> {
        let Some(arrival) = self.shop.record.tell_when(Box::new(reached)) else { return Ok(()) };
        // On the receiver's runtime, the timer too: its clock is real even where the caller's is paused.
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

    /// Everything that came, in order of arrival. Empty in counting mode.
    #[must_use]
    pub fn receipts(&self) -> Vec<Receipt> {
        self.shop.record.with(|seen| seen.receipts.clone())
    }

    /// Everything that came and was not yet taken, in order of arrival; counts stay as they are.
    #[must_use]
    pub fn take(&self) -> Vec<Receipt> {
        self.shop.record.take()
    }

    /// What came to one path, in order of arrival. Empty in counting mode.
    #[must_use]
    pub fn receipts_at(&self, path: &str) -> Vec<Receipt> {
        self.shop
            .record
            .with(|seen| seen.receipts.iter().filter(|receipt| receipt.path == path).cloned().collect())
    }

    /// How many requests came since the start, in either mode.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shop.record.with(|seen| seen.requests)
    }

    /// How often each value of a header came, in either mode for `webhook-id`, else not in counting mode.
    #[must_use]
    pub fn counts_by(&self, header: &str) -> HashMap<String, u64> {
        self.shop.record.with(|seen| seen.counts_by(header))
    }

    /// When the latest request came whole, in either mode.
    #[must_use]
    pub fn latest(&self) -> Option<Instant> {
        self.shop.record.with(|seen| seen.latest)
    }

    /// The most requests that were in its hands at one time: come whole, and not yet answered.
    #[must_use]
    pub fn peak_in_flight(&self) -> u64 {
        self.shop.record.with(|seen| seen.peak_in_flight)
    }

    /// Forgets what came; answers stay as they are.
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

/// Accepts until told to stop, then lets answers under way end within [`GRACE`].
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
        // An answer is one small packet: it must not wait for another.
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
    // What hangs by order is cut off here, with the runtime.
    connections.close();
    _ = tokio::time::timeout(GRACE, connections.wait()).await;
    Ok(())
}

/// Takes one request: reads it whole, records it, answers it.
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

/// Reads a body whole; most come in one frame, which is then not copied.
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
