//! Reads the signature of a handler: who may call, the parameters, headers and body. The API document has the resulting refusals,
//! and [`urls`](crate::urls) refuses `If-Match` where no handler reads it.

use axum::extract::{Request, State};
use longshore_http::extract::body::DEFAULT_LIMIT;
use longshore_http::extract::csv::CSV;
use longshore_http::extract::lines::NDJSON;
use longshore_http::extract::login;
use longshore_http::extract::may::{MayRefresh, Permit, permit};
use longshore_http::extract::{
    At, FileForm, FileUpload, Id, Ids, IfMatch, IfNoneMatch, JsonBody, ListRequest, May, Once, OptionalJson,
    Prefer, Segment, WaitFor, WantsPage,
};
use longshore_http::fixed::HowAsked;
use longshore_kernel::access::Permission;

use crate::routes::webhook::reader;

/// The input of a handler.
#[expect(clippy::struct_excessive_bools, reason = "each is an extractor that is there or not")]
#[derive(Debug, Default)]
pub struct Inputs {
    /// The required permission; `None` if anyone may call.
    pub permission: Option<Permission>,
    /// It reads an identifier from the path.
    pub identifier: bool,
    /// Its body.
    pub body: Option<Body>,
    /// It supports `Idempotency-Key`.
    pub once: bool,
    /// It supports `Prefer`.
    pub prefer: bool,
    /// It supports `If-Match`.
    pub if_match: bool,
    /// It supports `If-None-Match`.
    pub if_none_match: bool,
    /// What it answers with instead of JSON where its caller wants that: a media type.
    pub also: Option<&'static str>,
}

/// The properties of a body other than its schema.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    /// Whether it is required.
    pub required: bool,
    /// Its maximum size in bytes, if it is read whole.
    pub limit: Option<usize>,
}

/// An extractor, described by the input that it reads.
pub trait Input {
    /// Adds its input.
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

impl<I> Input for Id<I> {
    fn tell(inputs: &mut Inputs) {
        inputs.identifier = true;
    }
}

impl<A, B> Input for Ids<A, B> {
    fn tell(inputs: &mut Inputs) {
        inputs.identifier = true;
    }
}

/// A name, which the document does not bound: an unknown one is 404.
impl Input for Segment {
    fn tell(_: &mut Inputs) {}
}

/// A browser is led elsewhere; the document describes what programs get.
impl Input for WantsPage {
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

impl Input for WaitFor {
    fn tell(_: &mut Inputs) {}
}

impl Input for reader::Asked {
    fn tell(inputs: &mut Inputs) {
        inputs.also = Some(NDJSON);
    }
}

impl Input for reader::Of {
    fn tell(_: &mut Inputs) {}
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

/// The limit is that of the file, not of the form around it.
impl<F> Input for FileForm<F> {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: true, limit: None });
    }
}

impl<F, const LIMIT: usize> Input for FileUpload<F, LIMIT> {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: true, limit: None });
    }
}

impl Input for OptionalJson {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: false, limit: Some(DEFAULT_LIMIT) });
    }
}

impl Input for ListRequest {
    fn tell(inputs: &mut Inputs) {
        OptionalJson::tell(inputs);
        inputs.also = Some(CSV);
    }
}

/// The whole request: its handler reads the body itself.
impl Input for Request {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(Body { required: true, limit: None });
    }
}

/// A handler: a function of extractors.
pub trait Handler<I> {
    /// The input of all its extractors.
    fn inputs() -> Inputs;
}

macro_rules! handlers {
    ($($($input:ident)*;)*) => {$(
        impl<Function, Answer, $($input: Input),*> Handler<($($input,)*)> for Function
        where
            Function: Fn($($input),*) -> Answer,
        {
            fn inputs() -> Inputs {
                let inputs_of: &[fn(&mut Inputs)] = &[$($input::tell),*];
                inputs_of.iter().fold(Inputs::default(), |mut inputs, tell| {
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
