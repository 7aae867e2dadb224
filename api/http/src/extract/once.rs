//! `Idempotency-Key`: the same request, executed once (`docs/reference/jobs.md#idempotency-keys`).

use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method};
use longshore_kernel::answer::Answer;
use longshore_kernel::context::Context;
use longshore_kernel::idempotency::{self, Claimed, Key};
use longshore_kernel::problem::{INVALID_HEADER, Problem};
use longshore_kernel::services::Services;

use super::Failure;

/// The header that marks a repeated answer.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Maximum number of characters in a key.
const KEY_LENGTH: usize = 255;

/// The idempotency key of a request, if it has one.
#[derive(Clone, Debug)]
pub struct Once {
    key: Option<String>,
    method: Method,
    path: String,
}

/// An answer, and whether it was given before.
#[derive(Debug)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// Whether it was given before.
    pub replayed: bool,
}

impl Answered {
    /// Marks a response whose answer was given before.
    #[must_use]
    pub fn mark(&self, mut response: Response) -> Response {
        if self.replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Once {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let key = match parts.headers.get("idempotency-key") {
            None => None,
            Some(value) => {
                // the draft defines the key as a quoted string; most clients send it without quotes
                let key = value.to_str().ok().map(|v| v.trim().trim_matches('"'));
                match key {
                    Some(key) if (1..=KEY_LENGTH).contains(&key.len()) => Some(key.to_owned()),
                    _ => {
                        let detail =
                            format!("Idempotency-Key must have 1 to {KEY_LENGTH} visible ASCII characters");
                        return Err(Problem::new(&INVALID_HEADER, detail).into());
                    }
                }
            }
        };
        Ok(Self { key, method: parts.method.clone(), path: parts.uri.path().to_owned() })
    }
}

/// Runs a use-case once under a key: with an answer that is stored, it is not run again. A refusal releases the key.
pub async fn run_once<F>(
    services: &Services,
    mut context: Context,
    key: &Key<'_>,
    body_hash: &[u8],
    use_case: F,
) -> Result<Answered, Problem>
where
    F: AsyncFnOnce(&Context) -> Result<Answer, Problem>,
{
    let held = match idempotency::claim(&services.db.main, key, Some(body_hash)).await? {
        Claimed::Repeated { answer, .. } => return Ok(Answered { answer, replayed: true }),
        Claimed::First(held) => held,
    };
    context.claim = held.claim();
    match use_case(&context).await {
        Ok(answer) => {
            held.keep();
            Ok(Answered { answer, replayed: false })
        }
        Err(problem) => {
            held.give_back().await;
            Err(problem)
        }
    }
}

impl Once {
    /// Runs a use-case; with a key, once ([`run_once`]).
    pub async fn answer<F>(
        &self,
        services: &Services,
        context: Context,
        body_hash: &[u8],
        use_case: F,
    ) -> Result<Answered, Failure>
    where
        F: AsyncFnOnce(&Context) -> Result<Answer, Problem>,
    {
        let Some(key) = self.key(&context) else {
            return Ok(Answered { answer: use_case(&context).await?, replayed: false });
        };
        Ok(run_once(services, context, &key, body_hash, use_case).await?)
    }

    /// The key as it is stored, for operations whose body is a stream.
    #[must_use]
    pub fn key<'k>(&'k self, context: &Context) -> Option<Key<'k>> {
        let key = self.key.as_deref()?;
        Some(Key::new(&context.caller, self.method.as_str(), &self.path, key))
    }
}
