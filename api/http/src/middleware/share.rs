//! Gives each request its share of common resources ([`longshore_kernel::share`]).
//!
//! The caller is known once its token has been checked ([`May`](crate::extract::May)). Until then, and without a token, requests share
//! by address.
//!
//! An answer that is complete in memory counts until it is read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use longshore_kernel::share::{self, Asker, Grant};

use crate::app::App;
use crate::extract::Budget;

/// Runs the request with its share.
pub async fn layer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let asker = request.extensions().get::<Asker>().cloned().unwrap_or_default();
    // held until the request is answered
    let budget = Budget::new(app.limits.bodies.clone(), asker.clone());
    request.extensions_mut().insert(budget.clone());
    let response = share::as_asker(asker.clone(), next.run(request)).await;
    drop(budget);
    match response.body().size_hint().exact() {
        None | Some(0) => response,
        Some(size) => {
            let grant = Arc::new(app.limits.answers.note(asker.who(), size));
            response.map(|body| Body::new(Charged { body, grant }))
        }
    }
}

/// A body whose bytes count until the last of them is dropped.
struct Charged {
    body: Body,
    grant: Arc<Grant>,
}

/// Bytes that count.
struct Counting {
    bytes: Bytes,
    _grant: Arc<Grant>,
}

impl AsRef<[u8]> for Counting {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Charged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let counted = |frame: Frame<Bytes>| {
            frame.map_data(|bytes| Bytes::from_owner(Counting { bytes, _grant: Arc::clone(&self.grant) }))
        };
        frame.map(|frame| frame.map(|frame| frame.map(counted)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
