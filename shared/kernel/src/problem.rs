//! The one error of the service, and the closed list of what it may say (`docs/reference/errors.md#status-codes`).
//!
//! A [`Problem`] has a public side (code, detail, violations) and an internal one (its cause). The public side becomes
//! an `application/problem+json` body (RFC 9457) in one place of the `api`; the cause only ever reaches the log.

mod violation;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

pub use self::violation::{ALREADY_TAKEN, Violation, refuses, with_found};
use crate::noun::noun;
use crate::share::Refusal;
use crate::sqlstate;

/// When a caller that was refused its share may try again.
const SHARE_RETRY: Duration = Duration::from_secs(1);

/// One kind of problem: a row of the closed list.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Value of `code`; `type` is `/problems/{code}`.
    pub code: &'static str,
    /// HTTP status.
    pub status: u16,
    /// Value of `title`.
    pub title: &'static str,
    /// What `GET /problems/{code}` explains: when it happens and what the caller can do.
    pub explanation: &'static str,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal, $title:literal, $explanation:literal;)*) => {
        $(
            #[doc = $explanation]
            pub static $name: Kind =
                Kind { code: $code, status: $status, title: $title, explanation: $explanation };
        )*
        /// Every kind of problem, in the order of their statuses.
        pub static ALL: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    INVALID_DATA = "invalid_data", 400, "Invalid data",
        "The request contains invalid data. Each violation has the path of the field, a message, a code and the refused value. The first 100 violations are reported together. The code already_taken means that the value must be unique and belongs to another record.";
    MALFORMED_BODY = "malformed_body", 400, "Malformed body",
        "The body is missing, is not JSON, is nested too deeply, is not valid UTF-8, or does not match its Content-Encoding. The detail says where reading stopped.";
    INVALID_ID = "invalid_id", 400, "Invalid identifier",
        "An identifier in the path is not a UUID of 8-4-4-4-12 hexadecimal digits.";
    INVALID_HEADER = "invalid_header", 400, "Invalid header",
        "A request header has an invalid value, or an HTTP/1.1 request does not have exactly one Host header. The detail names the header.";
    UNAUTHENTICATED = "unauthenticated", 401, "Not authenticated",
        "The Authorization header has no access token, or the token is unknown, expired or revoked.";
    CODE_REQUIRED = "code_required", 401, "Code required",
        "The account has a second factor, and the code is missing, wrong or was used before. Send a code from the authenticator, or a recovery code, with the password.";
    FORBIDDEN = "forbidden", 403, "Not allowed",
        "The token is valid, but its role may not do this.";
    NOT_FOUND = "not_found", 404, "Not found",
        "The record does not exist, or the caller may not see it.";
    NO_SUCH_PATH = "no_such_path", 404, "No such path",
        "The service has no operation at this path.";
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "Method not allowed",
        "The path does not support this method. The Allow header lists the methods it supports.";
    NOT_ACCEPTABLE = "not_acceptable", 406, "Not acceptable",
        "The Accept header excludes application/json, and for a list text/csv.";
    CONFLICT = "conflict", 409, "Conflict",
        "The change conflicts with the state of the record. The detail gives the reason.";
    COUNT_DIFFERS = "count_differs", 409, "Count differs",
        "Another number of records matches the criteria than the request expects, and nothing was done. The number is the {{ count }} in the parameters of the violation at expect.";
    REQUEST_IN_PROGRESS = "request_in_progress", 409, "Request in progress",
        "A request with the same Idempotency-Key is still in progress. Repeat the request later to get its response.";
    QUOTA_REACHED = "quota_reached", 409, "Quota reached",
        "The organisation has reached its quota of this kind of record. The detail names the quota and its limit. An operator can raise it.";
    WRONG_STATUS = "wrong_status", 409, "Wrong status",
        "The expedition has a status in which this operation is not possible. The detail names the status and what to do first. A PUT of the expedition itself is instead 400 invalid_data, with this code as a violation at status.";
    GONE = "gone", 410, "Gone",
        "The record was permanently deleted.";
    PRECONDITION_FAILED = "precondition_failed", 412, "Precondition failed",
        "The record has changed since it was read: its ETag does not match If-Match. Read the record again and repeat the change.";
    TOO_LARGE = "too_large", 413, "Too large",
        "The decompressed body is larger than this operation accepts, or more than 200 times larger than the compressed one. The detail names the limit.";
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 415, "Unsupported media type",
        "This operation does not accept the type in the Content-Type header.";
    UNSUPPORTED_CONTENT_ENCODING = "unsupported_content_encoding", 415, "Unsupported content encoding",
        "The Content-Encoding header names an unsupported coding, or more than one. Send the body with gzip, with zstd, or uncompressed. The Accept-Encoding header of the response lists the supported codings.";
    CORRUPTED_DATA = "corrupted_data", 422, "Corrupted data",
        "The stored record cannot be read: it cannot be decrypted or parsed. To repair it, store it again.";
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused", 422, "Idempotency key reused",
        "The Idempotency-Key was used within the last 24 hours for a request with a different body, or when the account had a different scope.";
    RATE_LIMITED = "rate_limited", 429, "Too many requests",
        "The account has exceeded its rate limit, or has too many open streams; or the webhook was tested too often. Wait for the number of seconds in the Retry-After header.";
    SHARE_USED = "share_used", 429, "Share used",
        "The caller's organisation, or the address of a caller without a token, uses its full share of a common resource: database connections, memory for incomplete request bodies, memory for unread responses, or unfinished jobs. The detail names the resource. Wait for the number of seconds in the Retry-After header.";
    HEADERS_TOO_LARGE = "headers_too_large", 431, "Headers too large",
        "The request has more than 128 header fields, or its target and header fields together exceed 64 KiB. Above about twice that size, the response has no body.";
    INTERNAL = "internal", 500, "Internal error",
        "The service failed. Its log has the cause, under the request id.";
    UNSUPPORTED_TRANSFER_ENCODING = "unsupported_transfer_encoding", 501, "Unsupported transfer encoding",
        "The Transfer-Encoding header names a coding other than chunked. A compressed body has a Content-Encoding.";
    UNAVAILABLE = "unavailable", 503, "Temporarily unavailable",
        "The service cannot complete the request now: the database is not available or is busy, another change was made at the same time, or the request took too long. Wait for the number of seconds in the Retry-After header and try again.";
}

/// Violations that a problem lists.
const MOST_VIOLATIONS: usize = 100;

/// The one error of the service.
#[derive(Debug)]
pub struct Problem {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: &'static Kind,
    detail: String,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
    /// What the API calls the record that is not there.
    record: Option<String>,
}

impl Problem {
    /// A problem of a kind, with what there is to say about this occurrence.
    pub fn new(kind: &'static Kind, detail: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                detail: detail.into(),
                violations: Vec::new(),
                retry_after: None,
                cause: None,
                record: None,
            }),
        }
    }

    /// Violated rules; the detail names the first, and counts the others.
    #[must_use]
    pub fn invalid(mut violations: Vec<Violation>) -> Self {
        let detail = match violations.as_slice() {
            [] => INVALID_DATA.title.to_owned(),
            [only] => only.to_string(),
            [first, others @ ..] => format!("{first}, and {} more", others.len()),
        };
        violations.truncate(MOST_VIOLATIONS);
        let mut problem = Self::new(&INVALID_DATA, detail);
        problem.inner.violations = violations;
        problem
    }

    /// The same, if any rule is violated.
    pub fn refuse(violations: Vec<Violation>) -> Result<(), Self> {
        if violations.is_empty() { Ok(()) } else { Err(Self::invalid(violations)) }
    }

    /// One violated rule.
    pub fn violation(path: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self::invalid(vec![Violation::new(path, code, message)])
    }

    /// Whether a value is taken that must be unique.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.violations().iter().any(|violation| violation.code == ALREADY_TAKEN)
    }

    /// The same with the record that has that value.
    #[must_use]
    pub fn taken_by(mut self, other: Option<Uuid>) -> Self {
        for violation in &mut self.inner.violations {
            if violation.code == ALREADY_TAKEN {
                violation.other = other;
            }
        }
        self
    }

    /// Other records match criteria than the caller expects.
    #[must_use]
    pub fn count_differs(count: i64, expected: i64) -> Self {
        let message = format!("is not the number of records that match, which is {count}");
        Self::counted(count, format!("{count} records match the criteria, not {expected}"), "expect", message)
    }

    /// A job withholds more rows than the caller would release.
    #[must_use]
    pub fn more_withheld(count: i64, up_to: i64) -> Self {
        let message =
            format!("is less than the number of rows, {count}; look at them before you release {count}");
        Self::counted(count, format!("the job withholds {count} rows, more than {up_to}"), "upTo", message)
    }

    fn counted(count: i64, detail: String, field: &'static str, message: String) -> Self {
        let violation = Violation::new(field, COUNT_DIFFERS.code, message);
        Self::new(&COUNT_DIFFERS, detail).with_violations(vec![Violation { count: Some(count), ..violation }])
    }

    /// No such record, or none that the caller may see.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        Self::missing(&NOT_FOUND, what)
    }

    /// A record that the caller could see before it was deleted.
    #[must_use]
    pub fn gone(what: &str) -> Self {
        Self::missing(&GONE, what)
    }

    fn missing(kind: &'static Kind, what: &str) -> Self {
        let mut problem = Self::new(kind, is_missing(what, kind == &GONE));
        problem.inner.record = Some(what.to_owned());
        problem
    }

    /// A failure of ours; the cause goes to the log, never to the caller.
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let mut problem =
            Self::new(&INTERNAL, "the service failed; its log has the cause, under the request id");
        problem.inner.cause = Some(cause.into());
        problem
    }

    /// Postgres cannot be reached, or cannot work.
    pub fn unavailable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let mut problem = Self::new(&UNAVAILABLE, "the database is not available; try again in a moment")
            .retry_after(Duration::from_secs(2));
        problem.inner.cause = Some(cause.into());
        problem
    }

    /// A change that lost a race against another one, and was undone: nothing is wrong with either.
    pub fn contended(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let detail = "another change was made at the same time; try again in a moment";
        let mut problem = Self::new(&UNAVAILABLE, detail).retry_after(Duration::from_secs(1));
        problem.inner.cause = Some(cause.into());
        problem
    }

    /// A statement that an operator, or a time limit, ended.
    fn cancelled(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let detail = "the request took too long or was cancelled; try again in a moment";
        let mut problem = Self::new(&UNAVAILABLE, detail).retry_after(Duration::from_secs(2));
        problem.inner.cause = Some(cause.into());
        problem
    }

    /// Whether a statement was cancelled: a job that is run again for ever would never say so.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cause().and_then(|cause| cause.downcast_ref()).is_some_and(sqlstate::is_cancelled)
    }

    /// A copy for another request with the same cause.
    #[must_use]
    pub fn shared(problem: &Arc<Self>) -> Self {
        let mut copy = Self::new(problem.kind(), problem.detail());
        copy.inner.violations = problem.violations().to_vec();
        copy.inner.retry_after = problem.retry_after_hint();
        copy.inner.record.clone_from(&problem.inner.record);
        copy.inner.cause = Some(Box::new(Arc::clone(problem)));
        copy
    }

    /// Names the members that it is about.
    #[must_use]
    pub fn with_violations(mut self, violations: Vec<Violation>) -> Self {
        self.inner.violations = violations;
        self
    }

    /// Sets when the caller should try again.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.inner.retry_after = Some(wait);
        self
    }

    /// Its row of the closed list.
    #[must_use]
    pub fn kind(&self) -> &'static Kind {
        self.inner.kind
    }

    /// What is said about this occurrence.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.inner.detail
    }

    /// The same for people, who do not call each record what the API calls it.
    #[must_use]
    pub fn said(&self) -> Cow<'_, str> {
        match &self.inner.record {
            Some(record) => Cow::Owned(is_missing(&noun(record), self.inner.kind == &GONE)),
            None => Cow::Borrowed(&self.inner.detail),
        }
    }

    /// The violated rules.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.inner.violations
    }

    /// When to try again.
    #[must_use]
    pub fn retry_after_hint(&self) -> Option<Duration> {
        self.inner.retry_after
    }

    /// Whether Postgres was away, or the change lost a race: the same will be done a little later.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        std::ptr::eq(self.kind(), &raw const UNAVAILABLE)
    }

    /// Whether Postgres was away: tried at once once more, the same comes of it.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.is_unavailable() && !self.is_contention()
    }

    /// Whether it lost a race that it wins when it is simply run again.
    #[must_use]
    pub fn is_contention(&self) -> bool {
        self.cause().and_then(|cause| cause.downcast_ref()).is_some_and(sqlstate::is_contention)
    }

    /// Whether it is an error of a record: without that record, the same succeeds.
    #[must_use]
    pub fn is_of_a_record(&self) -> bool {
        match self.cause().and_then(|cause| cause.downcast_ref()) {
            Some(error) => sqlstate::is_of_a_record(error),
            None => std::ptr::eq(self.kind(), &raw const INTERNAL),
        }
    }

    /// Whether it waited for a lock for as long as it may.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.cause().and_then(|cause| cause.downcast_ref()).is_some_and(sqlstate::is_locked)
    }

    /// The internal cause, for the log.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        let cause = self.inner.cause.as_deref()?;
        match cause.downcast_ref::<Arc<Self>>() {
            // not that of `Error`, which an `Arc` has too
            Some(shared) => Self::cause(shared),
            None => Some(cause),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.inner.kind.code, self.inner.detail)?;
        // the detail names the first
        self.inner.violations.iter().skip(1).try_for_each(|violation| write!(f, "; {violation}"))
    }
}

impl StdError for Problem {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.cause.as_deref().map(|c| c as _)
    }
}

/// That a record is not there.
fn is_missing(what: &str, is_gone: bool) -> String {
    let what = what.replace('_', " ");
    if is_gone { format!("the {what} was permanently deleted") } else { format!("there is no such {what}") }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Share(what) => Self::new(
                &SHARE_USED,
                format!("the caller uses its full share of {what}; try again when fewer of its requests run"),
            ),
            Refusal::Full(what) => {
                Self::new(&UNAVAILABLE, format!("all {what} are in use; try again in a moment"))
            }
            Refusal::Unread => {
                Self::new(&SHARE_USED, "the caller has too many unread answers; read them first")
            }
        }
        .retry_after(SHARE_RETRY)
    }
}

impl From<sqlstate::Overtaken> for Problem {
    fn from(overtaken: sqlstate::Overtaken) -> Self {
        sqlx::Error::from(overtaken).into()
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        if let Some(refusal) = crate::share::refusal(&error) {
            refusal.into()
        } else if sqlstate::is_unreachable(&error) {
            Self::unavailable(error)
        } else if sqlstate::is_contention(&error) {
            Self::contended(error)
        } else if sqlstate::is_cancelled(&error) {
            Self::cancelled(error)
        } else {
            Self::internal(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_statuses_are_errors() {
        let mut codes: Vec<_> = ALL.iter().map(|k| k.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ALL.len());
        assert!(ALL.iter().all(|k| (400..600).contains(&k.status)));
    }

    #[test]
    fn the_detail_names_the_first_violation_and_counts_the_others() {
        let violations = |n: usize| -> Vec<_> {
            (0..n).map(|i| Violation::new(format!("[{i}]"), "invalid_id", "must be a UUID")).collect()
        };
        assert_eq!(Problem::invalid(violations(1)).detail(), "[0] must be a UUID");
        let many = Problem::invalid(violations(1_000));
        assert_eq!(many.detail(), "[0] must be a UUID, and 999 more");
        assert_eq!(many.violations().len(), 100);
        let whole = Problem::violation("", "wrong_type", "must be an object, not an array");
        assert_eq!(whole.detail(), "must be an object, not an array");
        let long = Problem::violation("ü".repeat(100_000), "unknown_field", "is not a known field");
        assert_eq!(long.detail(), format!("{}… is not a known field", "ü".repeat(255)));
        assert_eq!(long.violations()[0].property_path.chars().count(), 100_000);
    }

    #[test]
    fn an_internal_cause_is_not_in_the_public_text() {
        let problem = Problem::internal("relation \"product\" does not exist");
        assert!(!problem.detail().contains("relation"));
        assert!(problem.cause().is_some());
    }
}
