//! Ends streams within seconds of the revocation of their token. A stream (an upload line by line, an answer
//! of unknown length) lasts as long as its client wants, so the token is checked again while it lasts.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use longshore_kernel::problem::{Problem, UNAUTHENTICATED};

use crate::app::App;
use crate::extract::Failure;
use crate::extract::lines::is_upload;
use crate::extract::may::token_in;

/// How often the token is checked; a result is cached for three seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Ends a stream with its token: an upload with 401, an answer by breaking off, so that it does not look
/// complete.
pub async fn layer(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(shown) = request.headers().get(AUTHORIZATION).cloned() else { return next.run(request).await };
    let response = if is_upload(&request) {
        tokio::select! {
            response = next.run(request) => response,
            problem = ended(&app, &shown) => return Failure::from(problem).into_response(),
        }
    } else {
        next.run(request).await
    };
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        let ended = Box::pin(async move { ended(&app, &shown).await });
        let pieces = stream::unfold(Some((body.into_data_stream(), ended)), |state| async move {
            let (mut pieces, mut ended) = state?;
            tokio::select! {
                piece = pieces.next() => Some((piece?, Some((pieces, ended)))),
                problem = &mut ended => Some((Err(axum::Error::new(problem)), None)),
            }
        });
        Body::from_stream(pieces)
    })
}

/// Waits until the token is no longer valid; errors that leave this open do not end the wait.
async fn ended(app: &App, shown: &HeaderValue) -> Problem {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(token) = token_in(shown) else { continue };
        match app.tokens.authenticate(token).await {
            Err(problem) if std::ptr::eq(problem.kind(), &raw const UNAUTHENTICATED) => return problem,
            _ => {}
        }
    }
}
