//! How a list is sent: whole, or piece by piece where it has no limit (decisions, section 1).

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use longshore_shared::account::access::Scope;
use longshore_shared::list::resource::Resource;
use longshore_shared::list::stream::Stream;
use longshore_shared::list::{self, Listed};
use longshore_shared::platform::problem::Problem;
use longshore_shared::platform::services::Services;
use serde_json::Value;
use tokio::sync::mpsc;

use super::view;
use crate::extract::Failure;

/// How long a reader may leave the next piece of an unlimited list unread: it holds a connection to Postgres.
pub const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// Pieces that wait for the reader.
const AHEAD: usize = 2;

/// What a list operation answers.
pub async fn answer(
    services: &Services,
    resource: &'static Resource,
    scope: &Scope,
    body: Option<Value>,
) -> Result<Response, Failure> {
    match list::answer(services, resource, scope, body).await? {
        Listed::Whole(text) => Ok(view::json(text)),
        Listed::Stream(stream) => Ok(send(*stream, READER_TIMEOUT).await?),
    }
}

/// Sends pieces as they come. The first is fetched before the head is sent, so that an early failure still is a problem;
/// a later one, or a reader that stalls, cuts the connection: a short answer never looks whole.
pub async fn send(mut rows: Stream, patience: Duration) -> Result<Response, Problem> {
    let first = rows.next().await?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    // a task of its own: the body is polled by the connection, which a stalled reader stops
    tokio::spawn(pump(first, rows, sender, patience));
    let pieces = stream::unfold(Some(receiver), async |receiver| {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Piece::Text(text)) => Some((Ok(text), Some(receiver))),
            Some(Piece::End) => None,
            None => Some((Err(BrokenOff), None)),
        }
    });
    let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((json, Body::from_stream(pieces)).into_response())
}

enum Piece {
    Text(Bytes),
    End,
}

/// The answer cannot be completed.
#[derive(Debug, thiserror::Error)]
#[error("the list broke off")]
struct BrokenOff;

/// Fetches and hands on, and gives the database connection back as soon as that cannot go on.
async fn pump(first: Option<String>, mut rows: Stream, sender: mpsc::Sender<Piece>, patience: Duration) {
    let mut next = first;
    loop {
        let piece = match next {
            Some(text) => Piece::Text(text.into()),
            None => Piece::End,
        };
        let ended = matches!(piece, Piece::End);
        match tokio::time::timeout(patience, sender.send(piece)).await {
            Ok(Ok(())) if !ended => {}
            Ok(_) => return,
            Err(_) => {
                tracing::info!(
                    list.timeout_ms = patience.as_millis(),
                    "an unlimited list was cut off: its reader stalled"
                );
                return;
            }
        }
        next = match rows.next().await {
            Ok(next) => next,
            Err(problem) => {
                tracing::error!(error = %problem, cause = ?problem.cause(), "an unlimited list was cut off");
                return;
            }
        };
    }
}
