//! Sends a list: short ones whole, others piece by piece (`docs/reference/lists.md#pages`).

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use longshore_domain::list::resource::Resource;
use longshore_domain::list::stream::{Piece, Stream};
use longshore_domain::list::{self, Form, Listed};
use longshore_http::download::download;
use longshore_http::extract::{Failure, ListRequest};
use longshore_kernel::access::Scope;
use longshore_kernel::csv::write as csv;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use serde_json::Value;

use super::view;

/// How long a reader may leave the next piece unread, since the list holds a connection to Postgres.
pub const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers a list operation.
pub async fn answer(
    services: &Services,
    resource: &'static Resource,
    scope: &Scope,
    asked: ListRequest,
) -> Result<Response, Failure> {
    answer_within(services, resource, scope, None, asked).await
}

/// The same, of the records that also satisfy these criteria.
pub async fn answer_within(
    services: &Services,
    resource: &'static Resource,
    scope: &Scope,
    within: impl Into<Option<Value>>,
    ListRequest { body, form }: ListRequest,
) -> Result<Response, Failure> {
    let listed = list::answer(services, resource, scope, within.into(), body, form, READER_TIMEOUT).await?;
    Ok(in_form(form, &resource.name.replace(' ', "-"), sent(listed))?)
}

/// A list, whole or piece by piece.
#[must_use]
pub fn sent(listed: Listed) -> Response {
    match listed {
        Listed::Whole(text) => view::json(text),
        Listed::Stream(first, stream) => send(first, stream),
    }
}

/// An answer in its form: in JSON as it is, in CSV as a file with that name.
pub fn in_form(form: Form, name: &str, answer: Response) -> Result<Response, Problem> {
    match form {
        Form::Json | Form::Lines => Ok(answer),
        Form::Csv => download(&format!("{name}.csv"), csv::MEDIA, answer.into_body()),
    }
}

/// Sends pieces as they are read. The first one is read before the head is sent, so that an early failure can
/// still be a problem; a later failure, or a reader that stalls, closes the connection, so that an incomplete
/// answer never looks complete.
#[must_use]
pub fn send(first: String, stream: Stream) -> Response {
    let next = Some((Some(Piece::More(first)), stream));
    let pieces = stream::unfold(next, async |next| {
        let (ready, mut stream) = next?;
        let piece = match ready {
            Some(piece) => Some(piece),
            // the failure is logged where it happened
            None => stream.next().await.unwrap_or_default(),
        };
        match piece {
            Some(Piece::More(text)) => Some((Ok(Bytes::from(text)), Some((None, stream)))),
            Some(Piece::Last(text)) => Some((Ok(Bytes::from(text)), None)),
            None => Some((Err(BrokenOff), None)),
        }
    });
    let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (json, Body::from_stream(pieces)).into_response()
}

/// The answer cannot be completed.
#[derive(Debug, thiserror::Error)]
#[error("the list was interrupted")]
struct BrokenOff;
