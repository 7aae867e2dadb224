//! Limits the time to answer a request (503), how long it waits for a standby (503), and how long its client may send almost nothing (400).
//!
//! An upload line by line may take any time while it makes progress, and so may an answer that has begun; the
//! writer of a list ends if its reader stalls.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longshore_kernel::problem::{Problem, UNAVAILABLE};
use tokio::time::Instant;

use crate::app::App;
use crate::extract::Failure;
use crate::extract::lines::is_upload;

/// When to try again.
const RETRY: Duration = Duration::from_secs(5);

/// Ends a request whose time is over. Its work is undone, because it was one transaction.
pub async fn layer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(app.limits.stall);
    if is_read(&request) {
        return within(&app, next.run(request)).await;
    }
    let db = &app.services.db;
    if let Err(refused) = db.standby.must_keep_up().await {
        return Failure::from(refused).into_response();
    }
    let (began, is_upload) = (Instant::now(), is_upload(&request));
    let answered = async {
        let response = next.run(request).await;
        if response.status().is_client_error() || response.status().is_server_error() {
            return response;
        }
        match db.standby.confirm(&db.main, began).await {
            Ok(()) => response,
            Err(error) => Failure::from(Problem::from(error)).into_response(),
        }
    };
    if is_upload {
        return answered.await;
    }
    let answered = async { Ok::<_, Problem>(within(&app, answered).await) };
    db.standby.patiently(answered).await.unwrap_or_else(|problem| Failure::from(problem).into_response())
}

async fn within(app: &App, answered: impl Future<Output = Response>) -> Response {
    tokio::time::timeout(app.limits.request, answered).await.unwrap_or_else(|_| {
        let detail = format!(
            "the request took longer than {} s; with an Idempotency-Key it is safe to repeat it",
            app.limits.request.as_secs_f32()
        );
        Failure::from(Problem::new(&UNAVAILABLE, detail).retry_after(RETRY)).into_response()
    })
}

/// Whether it only reads: its method says so, or it asks for a list by its body.
fn is_read(request: &Request) -> bool {
    let path = request.uri().path();
    request.method().is_safe() || path.ends_with("/list") || path == "/api/audit"
}
