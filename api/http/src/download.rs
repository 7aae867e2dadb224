//! Answers that a browser stores as a file.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use longshore_domain::job::item_error::Kept;
use longshore_domain::job::refused::RefusedRows;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;

/// A file of that name and media type. The name has letters, digits, `-` and `.` only.
pub fn download(name: &str, media: &'static str, body: Body) -> Result<Response, Problem> {
    let name =
        HeaderValue::try_from(format!("attachment; filename=\"{name}\"")).map_err(Problem::internal)?;
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(media)), (CONTENT_DISPOSITION, name)];
    Ok((headers, body).into_response())
}

/// How many of the refused rows of a job an answer has, where it has not all: `10000 of 12345`.
pub const ROWS: HeaderName = HeaderName::from_static("longshore-rows");

/// The refused rows of a job, if it is in the scope.
pub async fn refused_rows(db: &Database, scope: &Scope, job: JobId) -> Result<Response, Problem> {
    let found = RefusedRows::of(db, scope, job).await?;
    let rows = found.ok_or_else(|| Problem::not_found("job"))?;
    let (Kept { kept, refused }, (media, ending)) = (rows.kept, rows.media());
    let pieces = stream::unfold(Some(rows), async |rows| {
        let mut rows = rows?;
        match rows.next().await {
            Ok(lines) => Some((Ok(Bytes::from(lines?)), Some(rows))),
            // close the connection: an incomplete file must not look complete
            Err(problem) => Some((Err(problem), None)),
        }
    });
    let mut answer = download(&format!("job-{job}-refused.{ending}"), media, Body::from_stream(pieces))?;
    if kept < refused {
        let rows = HeaderValue::try_from(format!("{kept} of {refused}")).map_err(Problem::internal)?;
        answer.headers_mut().insert(ROWS, rows);
    }
    Ok(answer)
}
