//! The result of a use-case, before it is HTTP, so that it can be recorded with the change and replayed.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::ids::JobId;
use crate::words;

words! {
    /// What became of a request.
    pub enum Outcome ("outcome of a request") {
        /// It was done, and there is nothing to show.
        Done = "done",
        /// It was done; the body shows the result.
        Shown = "shown",
        /// A record was created.
        Created = "created",
        /// It was accepted, and is done later.
        Accepted = "accepted",
    }
}

/// A moment as answers have it: UTC, in microseconds.
#[must_use]
pub fn moment(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, false)
}

/// The answer of a use-case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What became of the request.
    pub outcome: Outcome,
    /// Path of the record.
    pub location: Option<String>,
    /// Version of the record.
    pub etag: Option<String>,
    /// JSON.
    pub body: Option<String>,
    /// The accepted job; a replayed answer shows its current state.
    pub job: Option<JobId>,
}

impl Answer {
    fn of(outcome: Outcome) -> Self {
        Self { outcome, location: None, etag: None, body: None, job: None }
    }

    /// Nothing to show.
    #[must_use]
    pub fn done() -> Self {
        Self::of(Outcome::Done)
    }

    /// A result.
    #[must_use]
    pub fn shown(body: String) -> Self {
        Self { body: Some(body), ..Self::of(Outcome::Shown) }
    }

    /// The new record, where it is, and its version.
    #[must_use]
    pub fn created(location: String, version: i64, body: String) -> Self {
        Self { outcome: Outcome::Created, ..Self::updated(location, version, body) }
    }

    /// The record after its change, where it is, and its version.
    #[must_use]
    pub fn updated(location: String, version: i64, body: String) -> Self {
        Self { location: Some(location), etag: Some(etag(version)), ..Self::shown(body) }
    }

    /// What was accepted, and where it is.
    #[must_use]
    pub fn accepted(location: String, body: String) -> Self {
        Self { location: Some(location), body: Some(body), ..Self::of(Outcome::Accepted) }
    }

    /// An accepted job.
    #[must_use]
    pub fn accepted_job(job: JobId) -> Self {
        let location = Some(format!("/api/job/{job}"));
        Self { location, job: Some(job), ..Self::of(Outcome::Accepted) }
    }
}

/// The entity tag of a record: its version.
#[must_use]
pub fn etag(version: i64) -> String {
    format!("\"{version}\"")
}
