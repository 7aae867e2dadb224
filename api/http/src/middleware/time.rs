//! Limits the time to answer a request (503), and how long its client may send almost nothing (400).
//!
//! An upload line by line may take any time while it makes progress, and so may an answer that has begun; the
//! writer of a list ends if its reader stalls.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longshore_kernel::problem::{Problem, UNAVAILABLE};

use crate::app::App;
use crate::extract::Failure;
use crate::extract::lines::is_upload;

/// When to try again.
const RETRY: Duration = Duration::from_secs(5);

/// Ends a request whose time is over. Its work is undone, because it was one transaction.
pub async fn layer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(app.limits.stall);
    if is_upload(&request) {
        return next.run(request).await;
    }
    tokio::time::timeout(app.limits.request, next.run(request)).await.unwrap_or_else(|_| {
        let detail = format!(
            "the request took longer than {} s; with an Idempotency-Key it is safe to repeat it",
            app.limits.request.as_secs_f32()
        );
        Failure::from(Problem::new(&UNAVAILABLE, detail).retry_after(RETRY)).into_response()
    })
}
