//! The rate limit of an account (429), shared by all processes and reported by `RateLimit` and
//! `RateLimit-Policy`, in the format of draft-ietf-httpapi-ratelimit-headers since revision 08.
//!
//! Requests without a valid token are not counted here: they belong to no account, and the operation itself
//! refuses them.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use longshore_shared::platform::problem::{Problem, RATE_LIMITED};
use longshore_shared::platform::rate::{Rate, RateLimiter, Standing};
use uuid::Uuid;

use crate::app::App;
use crate::extract::Failure;
use crate::extract::may::bearer;

/// What is left of the limit.
pub const STANDING: HeaderName = HeaderName::from_static("ratelimit");
/// The limit.
pub const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Takes the request from the bucket of its account.
pub async fn layer(State(app): State<App>, request: Request, next: Next) -> Response {
    let (Some(limiter), Some(token)) = (&app.limits.rate, bearer(request.headers())) else {
        return next.run(request).await;
    };
    let caller = match app.tokens.authenticate(token).await {
        Ok(caller) => caller,
        // an operation that needs a token refuses the request itself
        Err(problem) if problem.kind().status == 401 => return next.run(request).await,
        Err(problem) => return Failure::from(problem).into_response(),
    };
    let standing = counted(&app, limiter, caller.account()).await;
    let mut response = if standing.allowed {
        next.run(request).await
    } else {
        Failure::from(refusal(limiter, standing)).into_response()
    };
    tell(&mut response, limiter.rate(), standing);
    response
}

/// Takes a request from the bucket of an account whose token is not in the `Authorization` header.
pub async fn take(app: &App, account: Uuid) -> Result<(), Problem> {
    let Some(limiter) = &app.limits.rate else { return Ok(()) };
    let standing = counted(app, limiter, account).await;
    if standing.allowed { Ok(()) } else { Err(refusal(limiter, standing)) }
}

async fn counted(app: &App, limiter: &RateLimiter, account: Uuid) -> Standing {
    let standing = limiter.take(account).await;
    if standing.is_local {
        app.services.metrics.rate_counted_locally();
    }
    standing
}

fn refusal(limiter: &RateLimiter, standing: Standing) -> Problem {
    let rate = limiter.rate();
    let detail = format!("the account may make {} requests in {} s", rate.burst(), rate.window_seconds());
    let wait = std::time::Duration::from_secs(seconds(standing.retry_in));
    Problem::new(&RATE_LIMITED, detail).retry_after(wait)
}

fn tell(response: &mut Response, rate: Rate, standing: Standing) {
    let policy = format!("\"account\";q={};w={}", rate.burst(), rate.window_seconds());
    let left = format!("\"account\";r={};t={}", standing.remaining, seconds(standing.full_in));
    for (name, value) in [(POLICY, policy), (STANDING, left)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// Whole seconds, rounded up, so that the wait is never too short.
fn seconds(wait: std::time::Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}
