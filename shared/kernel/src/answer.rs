//! The result of a use-case, before it is HTTP, so that it can be recorded with the change and replayed.

use crate::ids::JobId;

/// The answer of a use-case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
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
    /// 204.
    #[must_use]
    pub fn no_content() -> Self {
        Self { status: 204, location: None, etag: None, body: None, job: None }
    }

    /// 200 with a body.
    #[must_use]
    pub fn ok(body: String) -> Self {
        Self { status: 200, location: None, etag: None, body: Some(body), job: None }
    }

    /// 201 with the record, where it is, and its version.
    #[must_use]
    pub fn created(location: String, version: i64, body: String) -> Self {
        Self { status: 201, location: Some(location), etag: Some(etag(version)), body: Some(body), job: None }
    }

    /// 200 with the record, where it is, and its version.
    #[must_use]
    pub fn updated(location: String, version: i64, body: String) -> Self {
        Self { status: 200, ..Self::created(location, version, body) }
    }

    /// 202: a job was accepted.
    #[must_use]
    pub fn accepted(job: JobId) -> Self {
        Self {
            status: 202,
            location: Some(format!("/api/job/{job}")),
            etag: None,
            body: None,
            job: Some(job),
        }
    }
}

/// The entity tag of a record: its version.
#[must_use]
pub fn etag(version: i64) -> String {
    format!("\"{version}\"")
}
