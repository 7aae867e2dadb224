//! The outermost layer around the handler: it reports what to do with an entry once its final result is
//! known.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apalis_core::error::{AbortError, BoxDynError, DeferredError, RetryAfterError};
use apalis_core::task::Task;
use futures::FutureExt;
use futures::future::BoxFuture;
use tower::{Layer, Service};

use super::consumer::Consumer;
use super::entry::Outcome;

/// The backend's own layer; apalis puts it around all others.
#[derive(Clone)]
pub struct AckLayer(Arc<Consumer>);

impl AckLayer {
    pub(super) fn new(consumer: Arc<Consumer>) -> Self {
        Self(consumer)
    }
}

impl<S> Layer<S> for AckLayer {
    type Service = AckService<S>;

    fn layer(&self, inner: S) -> AckService<S> {
        AckService { inner, consumer: Arc::clone(&self.0) }
    }
}

/// Runs a task and reports the outcome of its entry.
#[derive(Clone)]
pub struct AckService<S> {
    inner: S,
    consumer: Arc<Consumer>,
}

impl<S, A> Service<Task<A>> for AckService<S>
where
    S: Service<Task<A>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Into<BoxDynError> + Send + 'static,
{
    type Response = S::Response;
    type Error = BoxDynError;
    type Future = BoxFuture<'static, Result<S::Response, BoxDynError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxDynError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, task: Task<A>) -> Self::Future {
        let key = task.task_id().map(ToString::to_string).unwrap_or_default();
        let ticket = Ticket { consumer: Arc::clone(&self.consumer), key: Some(key) };
        // A panic that leaves this function would end the worker and drop every task that runs beside it.
        let Ok(future) = catch_unwind(AssertUnwindSafe(|| self.inner.call(task))) else {
            ticket.finish(Outcome::Done);
            return async { Err(panicked()) }.boxed();
        };
        async move {
            let result = match AssertUnwindSafe(future).catch_unwind().await {
                Ok(result) => result.map_err(Into::into),
                Err(_) => Err(panicked()),
            };
            ticket.finish(outcome(result.as_ref().err()));
            result
        }
        .boxed()
    }
}

fn panicked() -> BoxDynError {
    Box::new(AbortError::new("the task panicked"))
}

/// The row in Postgres decides about another attempt, except where the handler asked for the same entry again.
fn outcome(error: Option<&BoxDynError>) -> Outcome {
    let Some(error) = error else { return Outcome::Done };
    if let Some(again) = error.downcast_ref::<RetryAfterError>() {
        Outcome::Later(again.get_duration())
    } else if error.is::<DeferredError>() {
        Outcome::Later(Duration::ZERO)
    } else {
        Outcome::Done
    }
}

/// Held while a task runs. If it is dropped without a result (the worker was dropped at the time limit of a
/// stop), it gives the entry back without counting the delivery: otherwise a few deployments would put a long
/// task aside.
struct Ticket {
    consumer: Arc<Consumer>,
    key: Option<String>,
}

impl Ticket {
    fn finish(mut self, outcome: Outcome) {
        if let Some(key) = self.key.take() {
            self.consumer.finish(key, outcome);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.consumer.finish(key, Outcome::GiveBack);
        }
    }
}
