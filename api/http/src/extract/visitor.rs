//! The origin of a request without a token, for logins.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use http::header::USER_AGENT;
use http::request::Parts;
use http::{Extensions, HeaderMap};
use longshore_domain::account::visitor::Visitor;
use longshore_serve::Peer;

use crate::app::App;

/// Identifies the request in the answer, the audit and every log line.
#[derive(Clone, Debug)]
pub struct RequestId(pub Arc<str>);

/// The origin of a request.
#[derive(Debug)]
pub struct At(pub Visitor);

/// The address of the client of a request.
pub(crate) fn address(app: &App, headers: &HeaderMap, extensions: &Extensions) -> Option<IpAddr> {
    let peer = extensions.get::<Peer>()?;
    let forwarded: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    Some(app.surroundings.proxies.client(peer.0, forwarded.into_iter()))
}

impl<S> FromRequestParts<S> for At
where
    S: Send + Sync,
    App: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(Visitor {
            address: address(&App::from_ref(state), &parts.headers, &parts.extensions),
            user_agent: parts
                .headers
                .get(USER_AGENT)
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
            request_id: parts.extensions.get::<RequestId>().map(|id| id.0.to_string()),
        }))
    }
}
