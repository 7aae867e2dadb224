//! The HTTP layer: validates, records and answers.
//!
//! A handler reads its input through our own extractors ([`extract`]), calls one use-case of `longshore-shared`, and
//! turns what that answers into HTTP. It holds no SQL, and no rule that would hold for another caller too.
//!
//! - [`router`] is the table of contents: every URL stands there.
//! - [`middleware`] gives each request its id, its log line, and every error its one shape.
//! - [`openapi`] says the same to people and programs: its document is generated from the handlers and the rules.
//! - [`console`] is a room of its own: pages for those who run the service.
//! - [`limits`] is what one caller may take: a rate, streams, time, bytes.
//! - [`app`] is what a running process is made of.
//!
//! To add an operation: a use-case in `shared`, a handler under [`routes`], a line in [`router`], one in
//! [`openapi`].

pub mod app;
pub mod command;
pub mod console;
pub mod extract;
pub mod limits;
pub mod middleware;
pub mod openapi;
pub mod router;
pub mod routes;
pub mod serve;
