//! Who may call, in the signature of the handler.

use std::marker::PhantomData;
use std::ops::Deref;

use axum::extract::{FromRef, FromRequestParts};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use longshore_shared::account::access::Permission;
use longshore_shared::platform::context::{Context, Origin};
use longshore_shared::platform::problem::{Problem, UNAUTHENTICATED};
use longshore_shared::platform::trace;

use super::Failure;
use crate::app::App;
use crate::middleware::request_id::RequestId;

/// A permission as a type.
pub trait Permit: Send + Sync + 'static {
    /// The permission.
    const PERMISSION: Permission;
}

/// The permissions as types, named as in [`Permission`].
pub mod permit {
    use super::{Permission, Permit};

    macro_rules! permits {
        ($($name:ident)*) => {
            $(
                #[doc = concat!("Asks for `Permission::", stringify!($name), "`.")]
                #[derive(Debug)]
                pub struct $name;
                impl Permit for $name {
                    const PERMISSION: Permission = Permission::$name;
                }
            )*
        };
    }
    permits! {
        Read WriteOrganisations WriteEshops WriteProducts WriteAdvices WriteServices WriteCarriers ReadWebhooks
        WriteWebhooks ReadSettings WriteSettings ReadJobs WriteJobs ReadAdmins WriteAdmins ReadBusinessUsers
        WriteBusinessUsers ReadAudit ManageTokens ReadQueues ManageQueues
    }
}

/// A caller that has shown a good token and may do what `P` names; dereferences to its [`Context`].
#[derive(Debug)]
pub struct May<P>(pub Context, PhantomData<fn() -> P>);

impl<P> Deref for May<P> {
    type Target = Context;
    fn deref(&self) -> &Context {
        &self.0
    }
}

impl<S, P> FromRequestParts<S> for May<P>
where
    S: Send + Sync,
    App: FromRef<S>,
    P: Permit,
{
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let app = App::from_ref(state);
        let token = bearer(&parts.headers).ok_or_else(|| {
            Problem::new(&UNAUTHENTICATED, "the Authorization header must be `Bearer <access token>`")
        })?;
        let caller = app.tokens.authenticate(token).await?;
        caller.must(P::PERMISSION)?;
        let sent = || trace::checked(parts.headers.get(trace::TRACEPARENT)?.to_str().ok()?);
        let origin = Origin {
            actor: caller.actor.clone(),
            request_id: parts.extensions.get::<RequestId>().map(|id| id.0.to_string()),
            job: None,
            traceparent: trace::current().or_else(sent),
        };
        Ok(Self(Context { caller: (*caller).clone(), origin, claim: None }, PhantomData))
    }
}

/// The token that a request shows.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    token_in(headers.get(AUTHORIZATION)?)
}

/// The token in a value of `Authorization`.
pub fn token_in(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
