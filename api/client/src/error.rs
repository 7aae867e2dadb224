//! What can go wrong with a call.

use std::error::Error as StdError;
use std::{fmt, io};

use serde::Deserialize;
use uuid::Uuid;

/// Why a call failed. Each message names the call, as in `POST /api/job/list`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service refused the call (4xx), or could not execute it (5xx), and said why.
    #[error("{call}: {}", self.reason())]
    Problem {
        /// The call: its method and path.
        call: String,
        /// The explanation.
        problem: Box<Problem>,
    },
    /// There is no answer: the service cannot be reached, is too slow, or the connection broke.
    #[error("{call}: {}", self.reason())]
    Unreachable {
        /// The call: its method and path.
        call: String,
        /// The base URL of the client.
        base: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// The progress of a job broke off too often without an event.
    #[error("GET /api/job/{job}/events: {}", self.reason())]
    Interrupted {
        /// The job.
        job: Uuid,
        /// The base URL of the client.
        base: String,
        /// How often it broke off.
        breaks: u32,
    },
    /// The answer is not one of this service: it comes from a proxy, or from something else at this URL.
    #[error("{call}: {}", self.reason())]
    Unexpected {
        /// The call: its method and path.
        call: String,
        /// The base URL of the client.
        base: String,
        /// Its HTTP status.
        status: u16,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The rows to send cannot be read; nothing was changed.
    #[error("the rows cannot be read: {0}")]
    Rows(#[from] io::Error),
    /// The request cannot be built: the base URL, the token, a header or the body is not valid.
    #[error("{what} is not valid: {source}")]
    Invalid {
        /// What is not valid.
        what: String,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl Error {
    /// The service's explanation, if it gave one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem { problem, .. } => Some(problem),
            _ => None,
        }
    }

    /// What went wrong, for people, without the name of the call.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Problem { problem, .. } => problem.to_string(),
            Self::Unreachable { base, source, .. } => format!("cannot reach {base}: {}", innermost(source)),
            Self::Interrupted { base, breaks, .. } => {
                format!("cannot reach {base}: the progress of the job broke off {breaks} times in a row")
            }
            Self::Unexpected { base, reason, .. } => {
                format!("{base} does not answer as Longshore does: {reason}")
            }
            Self::Rows(error) => error.to_string(),
            Self::Invalid { .. } => self.to_string(),
        }
    }

    /// The HTTP status of the answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem { problem, .. } => Some(problem.status),
            Self::Unexpected { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the service refused the call (4xx): repeating it unchanged will not help, except after a 429 or
    /// a 409 `request_in_progress`.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.problem().is_some_and(|problem| (400..500).contains(&problem.status))
    }

    pub(crate) fn invalid(
        what: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::Invalid { what: what.into(), source: source.into() }
    }
}

/// The cause of a failed request: the upper layers only repeat the URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut innermost: &dyn StdError = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The service's explanation of a refusal or failure (RFC 9457).
///
/// It is text of the service: remove control characters before you print it on a terminal.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The error, for programs, as in `invalid_data`. `GET /problems/{code}` explains it.
    pub code: String,
    /// What is wrong this time, for people. It names the first violation, if there is one.
    pub detail: String,
    /// The id of the request, which finds it in the log of the service; may be empty.
    pub request_id: String,
    /// The violated rules of the body, at most 100; possibly empty.
    pub violations: Vec<Violation>,
}

/// A violated rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Violation {
    /// The path of the field in the body, as in `items[0].quantity`; empty for the whole body.
    #[serde(rename = "propertyPath")]
    pub field: String,
    /// The rule, for people.
    pub message: String,
    /// The rule, for programs, as in `out_of_range`.
    pub code: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {}", self.detail, self.status, self.code)?;
        if !self.request_id.is_empty() {
            write!(f, ", request {}", self.request_id)?;
        }
        f.write_str(")")?;
        // the detail already names the first one
        for Violation { field, message, .. } in self.violations.iter().skip(1) {
            // the message continues the field; that of the whole body stands alone
            write!(f, "\n  {field}{}{message}", if field.is_empty() { "" } else { " " })?;
        }
        Ok(())
    }
}

impl StdError for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_what_is_wrong_with_each_field() {
        let problem: Problem = serde_json::from_str(
            r#"{"type":"/problems/invalid_data","status":400,"detail":"since is required, and 1 more",
                "code":"invalid_data","requestId":"r1","violations":[
                    {"propertyPath":"since","message":"is required","code":"required","parameters":{}},
                    {"propertyPath":"until","message":"is not a known field","code":"unknown_field"}]}"#,
        )
        .unwrap();
        let text =
            "since is required, and 1 more (400 invalid_data, request r1)\n  until is not a known field";
        assert_eq!(problem.to_string(), text);
        let error = Error::Problem { call: "POST /x".to_owned(), problem: Box::new(problem) };
        assert_eq!(error.to_string(), format!("POST /x: {text}"));
        assert!(error.is_refusal());
        assert_eq!(error.problem().unwrap().violations[1].field, "until");
    }
}
