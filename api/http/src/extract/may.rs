//! Permissions in the signatures of handlers.

use std::marker::PhantomData;
use std::ops::Deref;

use axum::extract::{FromRef, FromRequest, FromRequestParts, MatchedPath, Request};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use longshore_domain::account::login::token_to_refresh;
use longshore_kernel::access::{Caller, Permission};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::problem::{Problem, UNAUTHENTICATED};
use longshore_kernel::refusals::Refused;
use longshore_kernel::{share, trace};

use secrecy::ExposeSecret as _;

use super::Failure;
use super::login::Fields;
use super::visitor::RequestId;
use crate::app::App;

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
        Read ReadExpeditions ReadAdvices OwnAccount SecondFactor WriteOrganisations WriteEshops WriteProducts WriteExpeditions ReportExpeditions SendNews WriteAdvices ReceiveAdvices WriteServices WriteCarriers WritePreferences ReadWebhooks
        WriteWebhooks ReadOwnWebhooks WriteOwnWebhooks ReadReaders WriteReaders ReadSettings WriteSettings ReadWmsSettings WriteWmsSettings ReadJobs WriteJobs ReleaseWithheld ReadAdmins WriteAdmins ReadBusinessUsers
        WriteBusinessUsers ReadAudit ManageTokens ReadQueues ManageQueues WriteAttention
    }
}

/// A caller with a valid token and the permission `P`; dereferences to its [`Context`].
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
        share::current_is(caller.who()).await.map_err(Problem::from)?;
        if let Err(problem) = caller.must(P::PERMISSION) {
            refused(&app, &caller, parts);
            return Err(problem.into());
        }
        Ok(Self(context(&caller, parts), PhantomData))
    }
}

/// The holder of a token to refresh, sent as usual or in the body, as `{"refresh_token"}`.
#[derive(Debug)]
pub struct MayRefresh(pub Context);

impl<S> FromRequest<S> for MayRefresh
where
    S: Send + Sync,
    App: FromRef<S>,
{
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let (mut parts, body) = request.into_parts();
        let fields = Fields::from_request(Request::from_parts(parts.clone(), body), state).await?;
        let token = fields.0.map(token_to_refresh).transpose()?.flatten();
        let Some(token) = token else {
            return Ok(Self(May::<permit::OwnAccount>::from_request_parts(&mut parts, state).await?.0));
        };
        let app = App::from_ref(state);
        let caller = app.tokens.authenticate(token.expose_secret()).await?;
        share::current_is(caller.who()).await.map_err(Problem::from)?;
        app.limits.take(&app.services.metrics, caller.account()).await?;
        Ok(Self(context(&caller, &parts)))
    }
}

/// Records a refused request by the pattern of its path, because the caller chooses the path itself.
fn refused(app: &App, caller: &Caller, parts: &Parts) {
    let path = parts.extensions.get::<MatchedPath>().map_or("/", MatchedPath::as_str);
    let request = parts.extensions.get::<RequestId>().map(|id| id.0.to_string());
    app.services.metrics.refused(Refused::Request);
    let operation = format!("{} {path}", parts.method);
    app.services.refusals.request(caller, &operation, request.as_deref());
}

fn context(caller: &Caller, parts: &Parts) -> Context {
    let sent = || trace::checked(parts.headers.get(trace::TRACEPARENT)?.to_str().ok()?);
    let origin = Origin {
        actor: caller.actor.clone(),
        request_id: parts.extensions.get::<RequestId>().map(|id| id.0.to_string()),
        job: None,
        traceparent: trace::current().or_else(sent),
    };
    Context { caller: caller.clone(), origin, claim: None }
}

/// The token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    token_in(headers.get(AUTHORIZATION)?)
}

/// The token in a value of `Authorization`.
pub fn token_in(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
