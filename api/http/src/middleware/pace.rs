//! Runs each request, and sends its answer, with its share of processor time ([`longshore_kernel::share::pace`]).

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use longshore_kernel::problem::Problem;
use longshore_kernel::share::Asker;
use longshore_kernel::share::pace::Turn;

use crate::app::App;
use crate::extract::Failure;
use crate::extract::visitor::address;

/// Adds the [`Asker`] of the request to its extensions, and runs the request step by step.
pub async fn layer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let address = address(&app, request.headers(), request.extensions());
    let limits = &app.limits;
    let asker = Asker::new(address, Some(limits.answers.clone()), Some(limits.pace.clone()));
    request.extensions_mut().insert(asker.clone());
    let response = asker.run(next.run(request)).await;
    match response.body().size_hint().exact() {
        // it is complete in memory
        Some(_) => response,
        None => response.map(|body| Body::new(Paced { body, asker, turn: Turn::default() })),
    }
}

/// Refuses a request that did not get its first place in time; within the layer that gives errors their shape.
pub async fn entry(request: Request, next: Next) -> Response {
    match request.extensions().get().map_or(Ok(()), Asker::has_entered) {
        Ok(()) => next.run(request).await,
        Err(refusal) => Failure::from(Problem::from(refusal)).into_response(),
    }
}

/// A body that is made while it is sent: read, written as JSON, compressed.
struct Paced {
    body: Body,
    asker: Asker,
    turn: Turn,
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, asker, turn } = self.get_mut();
        asker.step(turn, context, |context| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
