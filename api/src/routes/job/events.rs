//! Progress of a job as server-sent events, until it ends. When the process stops, the stream breaks off without the event `end`, and
//! the client opens it again at the next process.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, May, permit};

use crate::routes::view;

use longshore_kernel::ids::JobId;

/// How often a silent stream sends a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// `GET /api/job/{id}/events`: an event `progress` with the job, at once and after each change; the last is
/// named `end`.
pub async fn follow_job(
    State(app): State<App>,
    may: May<permit::ReadJobs>,
    Id(id): Id<JobId>,
) -> Result<Response, Failure> {
    let scope = may.scope().clone();
    let first = view::job(&app, &scope, id).await?;
    let receiver = app.jobs.follow(id);
    let events = stream::unfold(Some((app, scope, receiver, Some(first))), move |state| async move {
        let (app, scope, mut receiver, first) = state?;
        if first.is_none() {
            app.closing.run_until_cancelled(receiver.changed()).await?.ok()?;
        }
        let standing = receiver.borrow_and_update().clone();
        // the last event contains the final record, however old the first one read is
        let record = match first.filter(|_| !standing.ended) {
            Some(record) => record,
            None => view::job(&app, &scope, id).await.ok()?,
        };
        let name = if standing.ended { "end" } else { "progress" };
        let event = Event::default().event(name).data(record.json);
        let next = (!standing.ended && standing.known).then_some((app, scope, receiver, None));
        Some((Ok::<_, Infallible>(event), next))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}
