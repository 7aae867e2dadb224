//! The interface to apalis: a stream of tasks that never fails and never ends by itself.

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use apalis_core::backend::finalize::Ephemeral;
use apalis_core::backend::{Backend, BackendConfig};
use apalis_core::task::Task;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::task::task_id::TaskId;
use apalis_core::worker::context::WorkerContext;
use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_kernel::queue::{Queue, Queues};
use tokio_util::task::AbortOnDropHandle;

use super::ack_layer::AckLayer;
use super::config::Config;
use super::consumer::Consumer;
use super::control::QueueControl;
use super::entry::{Dead, DeadReason, Deliveries, Entry};

/// One consumer of one queue, as a backend for an apalis worker. Ids are parsed as `T`; an id that does not
/// parse is put aside.
pub struct RedisStream<T> {
    consumer: Arc<Consumer>,
    closing: Option<BoxFuture<'static, ()>>,
    parsed: PhantomData<fn() -> T>,
}

impl<T> RedisStream<T> {
    /// Prepares a consumer. It does not connect: the loops start with the worker.
    #[must_use]
    pub fn new(queues: &Queues, queue: Queue, config: Config) -> Self {
        Self::controlled(QueueControl::new(config.concurrency), queues, queue, config)
    }

    /// The same with an existing handle, whose concurrency overrides `config.concurrency`. For a `Monitor`,
    /// whose factory builds a worker anew after a failure.
    #[must_use]
    pub fn controlled(control: QueueControl, queues: &Queues, queue: Queue, config: Config) -> Self {
        let consumer = Consumer::new(control, queues, queue, config);
        Self { consumer, closing: None, parsed: PhantomData }
    }

    /// Sets the owner, which is called for each entry that is put aside. It is called until it succeeds, and
    /// before the entry is moved, so it misses none but may be called twice for one.
    #[must_use]
    pub fn on_dead<F, Fut, E>(self, owner: F) -> Self
    where
        F: Fn(Dead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let tell =
            move |dead| owner(dead).map(|reported| reported.map_err(|error| error.to_string())).boxed();
        // A second owner of one stream is a mistake of the caller; the first one remains.
        let _ = self.consumer.on_dead.set(Box::new(tell));
        self
    }

    /// The handle on this queue of this process.
    #[must_use]
    pub fn control(&self) -> QueueControl {
        self.consumer.control.clone()
    }
}

/// The worker may be dropped while tasks run (the time limit of a stop): their tickets give the entries back,
/// and the loops write everything to Redis and end.
impl<T> Drop for RedisStream<T> {
    fn drop(&mut self) {
        self.consumer.close();
    }
}

impl<T> Backend for RedisStream<T>
where
    T: FromStr + Send + 'static,
    T::Err: Display,
{
    type Task = Task<T>;
    type Error = std::convert::Infallible;

    fn poll_ready(&mut self, _: &mut Context<'_>, worker: &WorkerContext) -> Poll<Result<(), Self::Error>> {
        if !self.consumer.is_started() {
            let worker = worker.clone();
            self.consumer.start(move || worker.is_shutting_down());
        }
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        _: &WorkerContext,
    ) -> Poll<Option<Result<Self::Task, Self::Error>>> {
        self.consumer.waker.register(context.waker());
        while let Some(entry) = self.consumer.start_next() {
            match parse(&entry) {
                Ok(id) => return Poll::Ready(Some(Ok(task(id, entry)))),
                Err(error) => {
                    tracing::error!(queue.id = entry.text(), error, "an id on the queue does not parse");
                    self.consumer.refuse(&entry, DeadReason::Undecodable);
                }
            }
        }
        Poll::Pending
    }

    /// Called when no task runs any more.
    fn poll_close(&mut self, context: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Self::Error>> {
        self.consumer.close();
        if !self.consumer.is_started() {
            return Poll::Ready(Ok(()));
        }
        let consumer = &self.consumer;
        let closing = self.closing.get_or_insert_with(|| consumer.closed.clone().cancelled_owned().boxed());
        closing.poll_unpin(context).map(Ok)
    }
}

impl<T> BackendConfig for RedisStream<T> {
    type Args = T;
    type Id = String;
    type Kind = Ephemeral;
    type Config = Config;
    type Layer = AckLayer;

    fn config(&self) -> &Config {
        &self.consumer.config
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> AckLayer {
        AckLayer::new(Arc::clone(&self.consumer))
    }
}

fn parse<T>(entry: &Entry) -> Result<T, String>
where
    T: FromStr,
    T::Err: Display,
{
    let text = std::str::from_utf8(&entry.id).map_err(|error| error.to_string())?;
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn task<T>(id: T, entry: Entry) -> Task<T> {
    // apalis counts the attempts before the one that starts now.
    let before = usize::try_from(entry.deliveries.saturating_sub(1)).unwrap_or(usize::MAX);
    TaskBuilder::new(id)
        .task_id(TaskId::from_string(entry.key))
        .attempt(before)
        .data(Deliveries(entry.deliveries))
        .build()
}

/// For `parallelize`: spawns a task that is aborted when its worker drops it, at a time-out or the limit of a
/// stop.
pub fn spawn<F>(future: F) -> AbortOnDropHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(future))
}
