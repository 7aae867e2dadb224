//! The HTTP layer: validates, records and answers.
//!
//! A handler reads its input through our own extractors ([`longshore_http::extract`]), calls one use-case of
//! `longshore-domain`, and turns its result into HTTP. It contains no SQL, and no rule that applies to other callers, too.
//!
//! Three crates, each of which knows only those before it: [`longshore_http`] (extractors, layers, limits), [`longshore_console`]
//! (the pages for operators), and this one:
//!
//! - [`urls`] is the table of contents: it lists every URL. [`router`] says what a request passes on its way there.
//! - [`signature`] reads what a handler takes; [`openapi`] generates the API document from that and from the rules.
//!
//! To add an operation: a use-case in `shared`, a handler under [`routes`], a line in [`urls`], one in
//! [`openapi`].

pub mod command;
pub mod openapi;
pub mod router;
pub mod routes;
pub mod serve;
pub mod signature;
pub mod urls;
