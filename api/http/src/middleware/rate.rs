//! The rate limit of an account (429), shared by all processes and reported by `RateLimit` and
//! `RateLimit-Policy`, in the format of draft-ietf-httpapi-ratelimit-headers since revision 08.
//!
//! Requests without a valid token are not counted here: they belong to no account, and the operation itself
//! refuses them.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use longshore_kernel::rate::{Allowance, Rate};

use crate::app::App;
use crate::extract::Failure;
use crate::extract::may::bearer;
use crate::limits;

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
    let standing = limits::counted(limiter, &app.services.metrics, caller.account()).await;
    let mut response = if standing.allowed {
        next.run(request).await
    } else {
        Failure::from(limits::refusal(limiter, standing)).into_response()
    };
    tell(&mut response, limiter.rate(), standing);
    response
}

fn tell(response: &mut Response, rate: Rate, standing: Allowance) {
    let policy = format!("\"account\";q={};w={}", rate.burst(), rate.window_seconds());
    let left = format!("\"account\";r={};t={}", standing.remaining, limits::seconds(standing.full_in));
    for (name, value) in [(POLICY, policy), (STANDING, left)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
}
