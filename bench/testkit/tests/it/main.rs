//! Tests of the fakes over real HTTP.

mod receiver;
mod wms;
