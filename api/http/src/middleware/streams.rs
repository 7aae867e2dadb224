//! Limits the streams that an account may have open at once (429): uploads line by line, waits for the end of a job, and answers of
//! unknown length (lists without a limit, the progress of a job). Each holds a connection to Postgres, a
//! buffer or a place for as long as its client wants.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use http::header::AUTHORIZATION;
use longshore_kernel::problem::{Problem, RATE_LIMITED};
use uuid::Uuid;

use crate::app::App;
use crate::extract::Failure;
use crate::extract::lines::is_upload;
use crate::extract::may::token_in;
use crate::extract::wait::is_waiting;

/// When to try again, a guess: the end of a stream cannot be predicted.
const RETRY: Duration = Duration::from_secs(5);

/// Counts the streams of a request.
pub async fn layer(State(app): State<App>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(AUTHORIZATION).cloned();
    let account = async || {
        let caller = app.tokens.authenticate(token_in(shown.as_ref()?)?).await.ok()?;
        Some(caller.account())
    };
    let held = if (is_upload(&request) || is_waiting(&request))
        && let Some(account) = account().await
    {
        match app.limits.streams.open(account) {
            None => return refuse(&app),
            open => open,
        }
    } else {
        None
    };
    let response = next.run(request).await;
    drop(held);
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    match account().await {
        Some(account) => count(&app, account, response),
        None => response,
    }
}

/// Counts the answer until its last byte, or until its client disconnects. A refused answer is dropped before
/// its first byte.
fn count(app: &App, account: Uuid, response: Response) -> Response {
    let Some(open) = app.limits.streams.open(account) else { return refuse(app) };
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |piece| {
            let _counted = &open;
            piece
        }))
    })
}

fn refuse(app: &App) -> Response {
    let detail =
        format!("the account already has {} open streams, which is the maximum", app.limits.streams.most());
    Failure::from(Problem::new(&RATE_LIMITED, detail).retry_after(RETRY)).into_response()
}
