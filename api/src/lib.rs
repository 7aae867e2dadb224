//! The HTTP layer: validates, records and answers.
//!
//! A handler reads its input through our own extractors ([`extract`]), calls one use-case of `longshore-shared`, and
//! turns its result into HTTP. It contains no SQL, and no rule that applies to other callers, too.
//!
//! - [`router`] is the table of contents: it lists every URL.
//! - [`middleware`] gives each request its id, its log line, and every error its one shape.
//! - [`openapi`] generates the API document from the handlers and the rules.
//! - [`console`] has the pages for operators.
//! - [`limits`] has the limits of one caller: rate, streams, time, bytes.
//! - [`app`] has the parts of a running process.
//!
//! To add an operation: a use-case in `shared`, a handler under [`routes`], a line in [`router`], one in
//! [`openapi`].

pub mod app;
pub mod command;
pub mod console;
pub mod docs;
pub mod extract;
pub mod limits;
pub mod middleware;
pub mod openapi;
pub mod router;
pub mod routes;
pub mod serve;
