//! Private servers, workers with a journal, and waits with a deadline.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use apalis::prelude::{
    BoxDynError, Data, ParallelizeExt, WorkerBuilder, WorkerBuilderExt, WorkerContext, WorkerError,
};
use futures::future::{BoxFuture, FutureExt};
use longshore_kernel::queue::{Queue, Queues};
use longshore_testkit::client;
use longshore_testkit::port::free_port;
use longshore_worker::queue::{Config, Deliveries, MAX_CONCURRENCY, QueueControl, RedisStream, spawn};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The queue of tests that need any one.
pub(crate) const QUEUE: Queue = Queue::Chunk;

/// How long a test waits for something expected soon.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Settings for fast tests: a dead consumer is noticed within half a second.
pub(crate) fn quick(concurrency: usize) -> Config {
    Config {
        concurrency,
        block: Duration::from_millis(500),
        visibility: Duration::from_millis(600),
        claim_every: Duration::from_millis(100),
        close_grace: Duration::from_secs(2),
        ..Config::default()
    }
}

/// The same for tests in which nothing may be taken over.
pub(crate) fn patient(concurrency: usize) -> Config {
    Config { visibility: Duration::from_mins(1), ..quick(concurrency) }
}

/// A setting of this test run from the environment.
pub(crate) fn setting(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a test run has no settings of the product")]
    std::env::var(name).ok()
}

/// Repeats a probe until it returns a value; panics with `what` after [`SOON`].
pub(crate) async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(answer) = probe().await {
            return answer;
        }
        assert!(Instant::now() < end, "not within {SOON:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a condition is true.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, async || condition().then_some(())).await;
}

/// `name-0`, `name-1`, …
pub(crate) fn ids(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{name}-{n}")).collect()
}

/// A client and a unique prefix on a Redis. Dropping it deletes its keys.
pub(crate) struct Scratch {
    pub(crate) client: redis::Client,
    pub(crate) prefix: String,
    pub(crate) url: String,
}

impl Scratch {
    /// A scratch on the shared server.
    pub(crate) fn shared() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "where the services of a test run is the environment's to say"
        )]
        let url = std::env::var("REDIS_URL").expect("REDIS_URL names the Redis of the tests");
        Self::at(&url)
    }

    pub(crate) fn at(url: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let prefix = format!("test:{}:{now}:{}:", std::process::id(), NEXT.fetch_add(1, SeqCst));
        Self { client: redis::Client::open(url).unwrap(), prefix, url: url.to_owned() }
    }

    /// A new writing side with its own connection.
    pub(crate) fn queues(&self) -> Queues {
        Queues::new(self.client.clone(), &self.prefix).unwrap()
    }

    /// The scratch with a writing side, and a journal for its workers.
    pub(crate) fn opened(self) -> (Self, Queues, Arc<Journal>) {
        let queues = self.queues();
        (self, queues, Arc::default())
    }

    /// Sends one command on a new connection.
    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_ask(words).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub(crate) async fn try_ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let mut connection = client::redis(&self.url).await?;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await
    }

    pub(crate) async fn depth(&self) -> usize {
        self.ask(&["XLEN", self.queues().keys(QUEUE).stream()]).await
    }

    pub(crate) async fn is_empty(&self) -> bool {
        self.depth().await == 0
    }

    /// Waits until its queue is empty.
    pub(crate) async fn emptied(&self) {
        eventually("the queue is empty", async || self.is_empty().await.then_some(())).await;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A private server may have ended already; then there is nothing to delete.
        if let Ok(mut connection) = self.client.get_connection_with_timeout(Duration::from_millis(200)) {
            for pattern in [format!("{{{}*", self.prefix), format!("{}*", self.prefix)] {
                let keys: Vec<String> =
                    redis::cmd("KEYS").arg(pattern).query(&mut connection).unwrap_or_default();
                for key in keys {
                    let _: redis::RedisResult<()> = redis::cmd("UNLINK").arg(key).query(&mut connection);
                }
            }
        }
    }
}

/// A `redis-server` of one test, on a free loopback port; dropping it ends it.
pub(crate) struct Server {
    port: u16,
    dir: TempDir,
    options: Vec<String>,
    process: Option<Child>,
}

impl Server {
    /// A running server without persistence.
    pub(crate) async fn start() -> Self {
        Self::start_with(&["--appendonly", "no"]).await
    }

    pub(crate) async fn start_with(options: &[&str]) -> Self {
        let mut server = Self::down(options);
        server.up().await;
        server
    }

    /// A server that is not started yet.
    pub(crate) fn down(options: &[&str]) -> Self {
        let port = free_port().unwrap();
        let options = options.iter().map(ToString::to_string).collect();
        Self { port, dir: TempDir::new().unwrap(), options, process: None }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The id of its process, while it runs.
    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    pub(crate) fn scratch(&self) -> Scratch {
        Scratch::at(&self.url())
    }

    /// Starts it, on the same port every time, and waits until it answers.
    pub(crate) async fn up(&mut self) {
        let process = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--maxmemory-policy", "noeviction", "--enable-debug-command", "yes"])
            .arg("--dir")
            .arg(self.dir.path())
            .args(&self.options)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        self.process = Some(process);
        let url = self.url();
        eventually("a private server answers", async || {
            let mut connection = client::redis(&url).await.ok()?;
            redis::cmd("PING").query_async::<String>(&mut connection).await.ok()
        })
        .await;
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The input of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) deliveries: u64,
}

/// The record of handlers.
#[derive(Default)]
pub(crate) struct Journal {
    started: Mutex<Vec<Job>>,
    ended: Mutex<Vec<String>>,
    running: AtomicUsize,
    peak: AtomicUsize,
}

impl Journal {
    pub(crate) fn begin(&self, job: &Job) {
        self.started.lock().unwrap().push(job.clone());
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.peak.fetch_max(running, SeqCst);
    }

    pub(crate) fn end(&self, job: &Job) {
        self.running.fetch_sub(1, SeqCst);
        self.ended.lock().unwrap().push(job.id.clone());
    }

    pub(crate) fn started(&self) -> usize {
        self.started.lock().unwrap().len()
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended.lock().unwrap().len()
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(SeqCst)
    }

    /// The peak of concurrent tasks since the last call.
    pub(crate) fn take_peak(&self) -> usize {
        self.peak.swap(self.running(), SeqCst)
    }

    /// How often each id ended.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for id in self.ended.lock().unwrap().iter() {
            *counts.entry(id.clone()).or_default() += 1;
        }
        counts
    }

    pub(crate) fn deliveries(&self, id: &str) -> Vec<u64> {
        self.started.lock().unwrap().iter().filter(|job| job.id == id).map(|job| job.deliveries).collect()
    }

    /// Waits until every one of `ids` has ended at least once.
    pub(crate) async fn all_ended(&self, ids: &[String]) {
        let end = Instant::now() + SOON;
        loop {
            let counts = self.counts();
            let missing: Vec<_> = ids.iter().filter(|id| !counts.contains_key(*id)).collect();
            if missing.is_empty() {
                return;
            }
            let first = &missing[..missing.len().min(5)];
            assert!(Instant::now() < end, "{} of {} never ended: {first:?}", missing.len(), ids.len());
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Checks that each of `ids` ended once, and no others did.
    pub(crate) fn assert_once(&self, ids: &[String]) {
        let expected: BTreeMap<_, _> = ids.iter().map(|id| (id.clone(), 1)).collect();
        assert_eq!(self.counts(), expected);
    }
}

pub(crate) type Handler = Arc<dyn Fn(Job) -> BoxFuture<'static, Result<(), BoxDynError>> + Send + Sync>;

pub(crate) fn handler<F, Fut>(work: F) -> Handler
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxDynError>> + Send + 'static,
{
    Arc::new(move |job| work(job).boxed())
}

/// A handler that takes this long and is recorded.
pub(crate) fn taking(time: Duration, journal: &Arc<Journal>) -> Handler {
    let journal = Arc::clone(journal);
    handler(move |job| {
        let journal = Arc::clone(&journal);
        async move {
            journal.begin(&job);
            sleep(time).await;
            journal.end(&job);
            Ok(())
        }
    })
}

/// A handler that ends when the gate permits it.
pub(crate) fn gated(gate: &Arc<Semaphore>, journal: &Arc<Journal>) -> Handler {
    let (gate, journal) = (Arc::clone(gate), Arc::clone(journal));
    handler(move |job| {
        let (gate, journal) = (Arc::clone(&gate), Arc::clone(&journal));
        async move {
            journal.begin(&job);
            gate.acquire().await?.forget();
            journal.end(&job);
            Ok(())
        }
    })
}

/// A running worker, built as described in the module documentation.
pub(crate) struct Worker {
    pub(crate) control: QueueControl,
    pub(crate) context: WorkerContext,
    run: JoinHandle<Result<(), WorkerError>>,
}

impl Worker {
    pub(crate) fn start(queues: &Queues, config: Config, handler: Handler) -> Self {
        Self::run(RedisStream::new(queues, QUEUE, config), handler)
    }

    pub(crate) fn run(stream: RedisStream<String>, handler: Handler) -> Self {
        let (control, context) = (stream.control(), WorkerContext::new("test"));
        let worker = WorkerBuilder::new(&context)
            .backend(stream)
            .parallelize(spawn)
            .concurrency(MAX_CONCURRENCY)
            .timeout(Duration::from_mins(1))
            .enable_tracing()
            .catch_panic()
            .build(move |id: String, deliveries: Data<Deliveries>| {
                handler(Job { id, deliveries: deliveries.0.0 })
            });
        Self { control, context, run: tokio::spawn(worker.run()) }
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.run.is_finished()
    }

    /// Asks it to stop; running tasks continue.
    pub(crate) async fn ask_to_stop(&self) {
        until("the worker has started", || !self.context.is_pending()).await;
        self.context.stop().unwrap();
    }

    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) {
        self.ask_to_stop().await;
        self.ended().await;
    }

    pub(crate) async fn ended(self) {
        tokio::time::timeout(SOON, self.run).await.expect("the worker ends").unwrap().unwrap();
        self.control.closed().await;
    }

    /// Drops it with its running tasks, like the time limit of a stop.
    pub(crate) async fn drop_at_once(self) {
        self.run.abort();
        let _ = self.run.await;
        tokio::time::timeout(SOON, self.control.closed()).await.expect("what was dropped is handed back");
    }
}

/// Puts ids until it succeeds, like a dispatcher.
pub(crate) async fn put(queues: &Queues, ids: &[String]) -> usize {
    eventually("ids can be put", async || queues.put(QUEUE, ids, Duration::from_secs(2)).await.ok()).await
}
