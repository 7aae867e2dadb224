//! What the signature of a handler tells: who may call, with what parameters, headers and body, and how it can be refused
//! for them. So the document cannot say another thing than the handler asks for.

use axum::extract::{Request, State};
use longshore_shared::platform::access::Permission;

use crate::extract::body::DEFAULT_LIMIT;
use crate::extract::login;
use crate::extract::may::{MayRefresh, Permit, permit};
use crate::extract::{
    At, FileForm, Id, Ids, IfMatch, IfNoneMatch, JsonBody, May, Once, OptionalJson, Prefer, Segment,
};
use crate::routes::fixed::HowAsked;

/// What a handler takes.
#[expect(clippy::struct_excessive_bools, reason = "each is an extractor that is there or not")]
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// What its caller must be allowed to do; nothing where anybody may call.
    pub(super) permission: Option<Permission>,
    /// It reads an identifier from the path.
    pub(super) identifier: bool,
    /// Its body.
    pub(super) body: Option<Body>,
    /// It may be repeated under an `Idempotency-Key`.
    pub(super) once: bool,
    /// It honours `Prefer`.
    pub(super) prefer: bool,
    /// It honours `If-Match`.
    pub(super) if_match: bool,
    /// It honours `If-None-Match`.
    pub(super) if_none_match: bool,
}

/// What is known of a body before its schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    /// Whether it must be there.
    pub(super) required: bool,
    /// Bytes that it may have, where it is read whole.
    pub(super) limit: Option<usize>,
}

/// An extractor tells what it takes.
pub(super) trait Input {
    /// Tells it.
    fn tell(inputs: &mut Inputs);
}

impl<S> Input for State<S> {
    fn tell(_: &mut Inputs) {}
}

impl<P: Permit> Input for May<P> {
    fn tell(inputs: &mut Inputs) {
        inputs.permission = Some(P::PERMISSION);
    }
}

impl Input for MayRefresh {
    fn tell(inputs: &mut Inputs) {
        inputs.permission = Some(permit::OwnAccount::PERMISSION);
        inputs.body = Some(Body { required: false, limit: Some(login::LIMIT) });
    }
}

impl Input for login::Fields {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: true, limit: Some(login::LIMIT) });
    }
}

impl Input for Id {
    fn tell(inputs: &mut Inputs) {
        inputs.identifier = true;
    }
}

impl<const N: usize> Input for Ids<N> {
    fn tell(inputs: &mut Inputs) {
        inputs.identifier = true;
    }
}

/// A name, which no schema of the service bounds: what is not there is 404.
impl Input for Segment {
    fn tell(_: &mut Inputs) {}
}

impl Input for At {
    fn tell(_: &mut Inputs) {}
}

impl Input for Once {
    fn tell(inputs: &mut Inputs) {
        inputs.once = true;
    }
}

impl Input for Prefer {
    fn tell(inputs: &mut Inputs) {
        inputs.prefer = true;
    }
}

impl Input for IfMatch {
    fn tell(inputs: &mut Inputs) {
        inputs.if_match = true;
    }
}

impl Input for IfNoneMatch {
    fn tell(inputs: &mut Inputs) {
        inputs.if_none_match = true;
    }
}

impl Input for HowAsked {
    fn tell(inputs: &mut Inputs) {
        IfNoneMatch::tell(inputs);
    }
}

impl<const LIMIT: usize> Input for JsonBody<LIMIT> {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: true, limit: Some(LIMIT) });
    }
}

/// What it bounds is the file, not the form around it.
impl<const LIMIT: usize> Input for FileForm<LIMIT> {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: true, limit: None });
    }
}

impl Input for OptionalJson {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: false, limit: Some(DEFAULT_LIMIT) });
    }
}

/// The request as a whole: its handler reads the body by itself.
impl Input for Request {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: true, limit: None });
    }
}

/// A handler: a function of extractors.
pub(super) trait Handler<I> {
    /// What its extractors tell.
    fn inputs() -> Inputs;
}

macro_rules! handlers {
    ($($($input:ident)*;)*) => {$(
        impl<Function, Answer, $($input: Input),*> Handler<($($input,)*)> for Function
        where
            Function: Fn($($input),*) -> Answer,
        {
            fn inputs() -> Inputs {
                let told: &[fn(&mut Inputs)] = &[$($input::tell),*];
                told.iter().fold(Inputs::default(), |mut inputs, tell| {
                    tell(&mut inputs);
                    inputs
                })
            }
        }
    )*};
}

handlers! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
